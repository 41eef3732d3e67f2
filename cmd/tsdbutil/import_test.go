package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// weather has, for each station and column of testdata/weather, how many values there are
// and their sum. The numbers were computed from the original table of the data
// package, not from the packed one, by a Python script that adds decimal fractions
// exactly:
//
//	rows = csv.DictReader(open("weather.csv"))
//	vs = [r[column] for r in rows if r["origin"] == station and r[column] != "NA"]
//	print(len(vs), float(sum(map(Fraction, vs))))
var weather = map[[2]string]struct {
	num int
	sum float64
}{
	{"EWR", "temp"}: {8702, 483366.1}, {"EWR", "dewp"}: {8702, 364197.46}, {"EWR", "humid"}: {8702, 548766.93},
	{"EWR", "wind_dir"}: {8447, 1651250}, {"EWR", "wind_speed"}: {8702, 82330.25353999999}, {"EWR", "wind_gust"}: {1802, 43492.57932},
	{"EWR", "precip"}: {8703, 43.88}, {"EWR", "pressure"}: {7768, 7906525.2}, {"EWR", "visib"}: {8703, 80737.86},
	{"JFK", "temp"}: {8706, 474234.54}, {"JFK", "dewp"}: {8706, 364408.08}, {"JFK", "humid"}: {8706, 567675.4},
	{"JFK", "wind_dir"}: {8655, 1767210}, {"JFK", "wind_speed"}: {8703, 99809.45095999999}, {"JFK", "wind_gust"}: {1507, 41538.554879999996},
	{"JFK", "precip"}: {8706, 34.69}, {"JFK", "pressure"}: {7875, 8018173}, {"JFK", "visib"}: {8706, 79899.99},
	{"LGA", "temp"}: {8706, 485469.24}, {"LGA", "dewp"}: {8706, 353558.22}, {"LGA", "humid"}: {8706, 516467.63},
	{"LGA", "wind_dir"}: {8553, 1706410}, {"LGA", "wind_speed"}: {8706, 92482.4347}, {"LGA", "wind_gust"}: {2028, 50993.363359999996},
	{"LGA", "precip"}: {8706, 38.14}, {"LGA", "pressure"}: {7743, 7879882}, {"LGA", "visib"}: {8706, 81066.19},
}

func TestImport_AYearOfWeather_AnswersKnownSums(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "db")
	args := []string{"import", "testdata/weather/weather.csv.gz", dir, "--time-column=time_hour", "--label-column=origin", "--null=NA"}
	for key := range weather {
		if key[0] == "EWR" {
			args = append(args, "--value-column="+key[1])
		}
	}
	c := newTestConsole()
	require.Equal(t, exitOK, execute(context.Background(), args, &c.console), c.stderr.String())
	require.Contains(t, c.stderr.String(), "imported 211,061 samples into 19 blocks")

	db, err := tsdb.Open(dir, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	checkWeather(t, db)
	require.NoError(t, db.Compact(context.Background()))
	checkWeather(t, db)
}

func checkWeather(t *testing.T, db *tsdb.DB) {
	t.Helper()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	set := q.Select(context.Background(), nil, labels.NotEqual("origin", ""))
	reader := newSamples(0)
	series := 0
	for set.Next() {
		s := set.At()
		series++
		num, sum := 0, 0.0
		require.NoError(t, reader.each(context.Background(), s, floatsOnly(func(ts []int64, vs []float64) error {
			for i, v := range vs {
				require.Zero(t, ts[i]%3_600_000, "hourly")
				num++
				sum += v
			}
			return nil
		})))
		want := weather[[2]string{s.Labels().Get("origin"), s.Labels().Get("__name__")}]
		require.Equal(t, want.num, num, s.Labels())
		require.InEpsilon(t, want.sum, sum, 1e-12, s.Labels())
	}
	require.NoError(t, set.Err())
	require.Equal(t, 27, series)
}

// importFile imports a text through a file and returns the exit code and messages.
func importFile(t *testing.T, name string, content []byte, args ...string) (int, string) {
	t.Helper()
	_, code, messages := importInto(t, name, content, args...)
	return code, messages
}

// importInto is importFile that returns the database, too.
func importInto(t *testing.T, name string, content []byte, args ...string) (dir string, code int, messages string) {
	t.Helper()
	temp := t.TempDir()
	file := filepath.Join(temp, name)
	require.NoError(t, os.WriteFile(file, content, 0o600))
	dir = filepath.Join(temp, "db")
	c := newTestConsole()
	code = execute(context.Background(), append([]string{"import", file, dir}, args...), &c.console)
	return dir, code, c.stderr.String()
}

// Whatever is fed in, memory stays bounded and the place is named.
func TestImport_HostileInput_IsRefusedByName(t *testing.T) {
	var zeros bytes.Buffer // 64 MiB of nothing in 64 KiB
	z := gzip.NewWriter(&zeros)
	size := 64
	if testing.Short() {
		size = 4
	}
	for range size {
		_, err := z.Write(make([]byte, 1<<20))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	for name, c := range map[string]struct {
		file    string
		content []byte
		want    string
	}{
		"endless line":  {"a.om", bytes.Repeat([]byte("x"), 2*maxLine), "line 1: the line is longer than 1,048,576 bytes"},
		"packed line":   {"a.om.gz", zeros.Bytes(), "line 1: the line is longer than 1,048,576 bytes"},
		"packed, cut":   {"a.om.gz", zeros.Bytes()[:zeros.Len()-9], "unexpected EOF"},
		"not packed":    {"a.om.gz", []byte("\x1f\x8bnonsense..."), "gzip: invalid header"},
		"endless quote": {"a.csv", []byte("time,value\n1,\"" + strings.Repeat("1\n", maxLine)), "a row is longer than 1,048,576 bytes: is a quote not closed?"},
		"packed table":  {"a.csv.gz", zeros.Bytes(), "line is longer than 1,048,576 bytes"},
		"binary":        {"a.om", []byte("\x00\x01\xff 1 1\n# EOF\n"), "line 1: the name of the metric is not valid"},
		"not UTF-8":     {"a.om", []byte("a{b=\"\xff\"} 1 1\n# EOF\n"), "line 1: value \"\\xff\" of label \"b\" is not UTF-8"},
		"after the end": {"a.om", []byte("a 1 1\n# EOF\na 2 2\n"), `line 3: something follows "# EOF"`},
		"fields":        {"a.csv", []byte("time,value,a\n1,2,x\n2,3\n"), "line 3: wrong number of cells: there are 2, and 3 columns"},
		"bare quote":    {"a.csv", []byte("time,value,a\n1,2,x\"y\n"), `line 2: bare " in a cell without quotes`},
		"two columns":   {"a.csv", []byte("time,value,a,a\n"), `two columns are named "a"`},
		"far away":      {"a.csv", []byte("time,value,__name__\n1e16,2,x\n"), "the time is neither"},
		"long value":    {"a.om", []byte(`a{b="` + strings.Repeat("x", 5000) + "\"} 1 1\n# EOF\n"), "value of label \"b\" has 5000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			code, messages := importFile(t, c.file, c.content)
			require.Equal(t, exitProblem, code)
			require.Contains(t, messages, c.want)
			require.NotContains(t, messages, ".go:", "no stack traces")
		})
	}
}

func TestImport_TimesOfTables(t *testing.T) {
	for format, texts := range map[string]map[string]int64{
		"auto":                          {"2026-01-01T00:00:00.5+01:00": 1767222000500, "1.0015": 1002, "-1": -1000},
		"unix":                          {"1.5": 1500},
		"unix_ms":                       {"15": 15},
		"unix_us":                       {"1999": 1, "-1": -1},
		"unix_ns":                       {"1999999": 1, "-1": -1},
		"2006-01-02 15:04:05.000 -0700": {"1970-01-01 01:00:00.001 +0100": 1},
	} {
		for text, want := range texts {
			f := &csvFlags{timeFormat: format}
			got, err := f.parseTime(text)
			require.NoError(t, err)
			require.Equal(t, want, got, "%s as %s", text, format)
		}
		f := &csvFlags{timeFormat: format}
		_, err := f.parseTime("soon")
		require.Error(t, err)
	}
}
