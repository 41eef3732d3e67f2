package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// headAppender imports into a head in place of blocks.
type headAppender struct{ *tsdb.Appender }

func (a headAppender) AppendRef(ref tsdb.SeriesRef, ls labels.Labels, t int64, v float64) (tsdb.SeriesRef, error) {
	return a.Append(ref, ls, t, v)
}

// importIntoHead imports a file into a new database, and returns its directory.
func importIntoHead(t *testing.T, name string, text []byte, extras importExtras) string {
	t.Helper()
	temp := t.TempDir()
	file := filepath.Join(temp, name)
	require.NoError(t, os.WriteFile(file, text, 0o600))
	dir := filepath.Join(temp, "db")
	db, err := tsdb.Open(dir, nil)
	require.NoError(t, err)
	a := db.Appender()
	c := newTestConsole()
	source, err := c.openSource(file)
	require.NoError(t, err)
	sink := &importSink{ctx: t.Context(), c: &c.console, w: headAppender{a}, times: timeCheck{now: math.MaxInt64 / 2}}
	reader := (&importCommand{file: file, format: formatAuto, csv: csvFlags{timeFormat: timeAuto}}).reader(&c.console, sink, source)
	if text, ok := reader.(*importText); ok {
		text.extras = extras
	}
	require.NoError(t, reader.read(source))
	source.close()
	_, err = a.Commit(context.Background())
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return dir
}

// histogramDatabase has series of floats, of histograms of each kind, and of all of them, with and
// without start timestamps.
func histogramDatabase(t *testing.T, seed uint64) string {
	dir := filepath.Join(t.TempDir(), "db")
	db, err := tsdb.Open(dir, nil)
	require.NoError(t, err)
	a := db.Appender()
	const start = 1_700_000_000_000
	r := rand.New(rand.NewPCG(seed, 3))
	histograms := rapid.Custom(drawHistogram)
	for i, odd := range oddTexts {
		ls := labels.FromStrings("__name__", []string{"lat", "a.b", "x:y_1"}[i%3], "odd", odd)
		for k := range 1 + r.Int64N(20) {
			s := tsdb.Sample{T: start + k*15_123, V: oddValues[r.IntN(len(oddValues))]}
			if r.IntN(3) > 0 {
				h := histograms.Example(r.IntN(1 << 30))
				makeSense(h)
				s.H, s.FH = h.sample().H, h.sample().FH
			}
			if r.IntN(2) > 0 {
				s.ST = start - r.Int64N(1e9)
			}
			_, err := a.AppendSample(0, ls, s)
			require.NoError(t, err)
		}
	}
	_, err = a.Commit(context.Background())
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return dir
}

// makeSense changes a histogram to one that a database takes.
func makeSense(s *histogramSample) {
	f := &s.fh
	if f.Custom() {
		f.CustomValues = f.CustomValues[:0]
		for i := range 100 {
			f.CustomValues = append(f.CustomValues, float64(i)/3)
		}
		for i := range f.PositiveSpans {
			f.PositiveSpans[i].Offset = max(f.PositiveSpans[i].Offset, 0)
		}
		copy(s.h.PositiveSpans, f.PositiveSpans)
	}
	for _, counts := range [][]float64{f.NegativeBuckets, f.PositiveBuckets} {
		for i, c := range counts {
			counts[i] = math.Abs(c)
		}
	}
	f.Count, f.ZeroCount = math.Abs(f.Count), math.Abs(f.ZeroCount)
	if !s.integer {
		return
	}
	h := &s.h
	h.CustomValues = f.CustomValues
	h.ZeroCount %= 1000
	if h.Custom() {
		h.ZeroCount = 0
	}
	h.Count = h.ZeroCount
	for _, deltas := range [][]int64{h.NegativeBuckets, h.PositiveBuckets} {
		last, was := int64(0), int64(0)
		for i, d := range deltas {
			was += d
			deltas[i], last = was%1000-last, was%1000
			h.Count += uint64(last)
		}
	}
	h.ToFloat(f)
}

// What is written of histograms and start timestamps, and imported, is written again as it was.
func TestImport_WhatDumpAndQueryWriteOfHistograms_IsWrittenAgain(t *testing.T) {
	written := func(dir string, args []string) string {
		c := newTestConsole()
		line := strings.Fields(strings.ReplaceAll(strings.Join(args, " "), "%s", dir))
		require.Equal(t, exitOK, execute(context.Background(), line, &c.console), c.stderr.String())
		return c.stdout.String()
	}
	again := func(text string, args []string) string {
		return written(importIntoHead(t, "a", []byte(text), nil), args)
	}
	exact := []string{"dump", "%s", "-o", "json"}
	for seed := range uint64(3) {
		from := histogramDatabase(t, seed)
		want := written(from, exact)
		for _, kind := range []string{`"kind":"histogram"`, `"kind":"float histogram"`, `"schema":-53`, `"gauge":true`, "0x7ff0000000000002"} {
			require.Contains(t, want, kind)
		}
		require.Equal(t, want, again(want, exact))
		document := written(from, []string{"query", "%s", "{}", "-o", "json"})
		require.Equal(t, want, again(document, exact))
		// A table has no start timestamps, OpenMetrics no stale markers, and its NaNs are all one.
		for _, form := range [][]string{{"query", "%s", "{}", "-o", "csv"}, {"dump", "%s", "--format=openmetrics"}} {
			want := written(from, form)
			require.Equal(t, want, again(want, form), form)
		}
	}
}

// seenExtras keeps what an import hands over.
type seenExtras struct{ seen []string }

func (s *seenExtras) exemplar(ls labels.Labels, e exemplar.Exemplar) error {
	s.seen = append(s.seen, fmt.Sprint(ls, " ", e.Labels, " ", e.Value, " ", e.T, " ", e.HasT))
	return nil
}

func (s *seenExtras) metadata(ls labels.Labels, f family) error {
	s.seen = append(s.seen, fmt.Sprintf("%v %s %s %q", ls, f.kind, f.unit, f.help))
	return nil
}

func TestImport_OpenMetrics_HandsExemplarsAndMetadataOver(t *testing.T) {
	text := `# TYPE lat_seconds gaugehistogram
# UNIT lat_seconds seconds
# HELP lat_seconds How \\ long it\ntakes
lat_seconds {count:1,sum:1,schema:0,positive_spans:[0:1],positive_buckets:[1]} 1700000001 # {trace_id="a"} 0.5 1700000000.5 # {span="b c",trace_id="#"} 0.25
lat_seconds {count:1,sum:1,schema:0,positive_spans:[0:1],positive_buckets:[1]} 1700000002
lat_seconds_gsum 3 1700000001
other 1 1700000001 # {} 7
# TYPE "odd name" counter
{"odd name",x="y"} 1 1700000001
# HELP hits Hits.
# TYPE hits counter
hits_total{x="y"} 1 1700000001 st@1699999999 # {a="b"} 1 5
# EOF
`
	var got seenExtras
	dir := importIntoHead(t, "a", []byte(text), &got)
	require.Equal(t, []string{
		`{__name__="lat_seconds"} gaugehistogram seconds "How \\ long it\ntakes"`,
		`{__name__="lat_seconds"} {trace_id="a"} 0.5 1700000000500 true`,
		`{__name__="lat_seconds"} {span="b c", trace_id="#"} 0.25 1700000001000 false`,
		`{__name__="lat_seconds_gsum"} gaugehistogram seconds "How \\ long it\ntakes"`,
		`{__name__="other"} {} 7 1700000001000 false`,
		`{__name__="odd name", x="y"} counter  ""`,
		`{__name__="hits_total", x="y"} counter  "Hits."`,
		`{__name__="hits_total", x="y"} {a="b"} 1 5000 true`,
	}, got.seen)
	c := newTestConsole()
	require.Equal(t, exitOK, execute(t.Context(), []string{"dump", dir, "-o", "json"}, &c.console))
	require.Contains(t, c.stdout.String(), `"gauge":true`)
	require.Contains(t, c.stdout.String(), `{"labels":{"__name__":"hits_total","x":"y"},"samples":[[1700000001000,1,1699999999000]]}`)
}

func TestParseExemplars_SaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		`# `:               "exemplar: there are no labels",
		`# x 1`:            "exemplar: there are no labels",
		`# {a="b"`:         "exemplar: the brace of the labels is not closed",
		`# {a=b} 1`:        `exemplar: label "a": want a text in quotes, there is "b}"`,
		`# {a="b"} x`:      `exemplar: the value is no number: "x"`,
		`# {a="b"} 1 x`:    `exemplar: the time is no number of seconds: "x"`,
		`# {a="b"} 1 2 {}`: `want an exemplar behind #, there is "{}"`,
	} {
		require.EqualError(t, parseExemplars([]byte(text), func(exemplar.Exemplar) error { return nil }), want, text)
	}
}

// The same by the commands themselves, into blocks: if blocks take samples of every kind, and
// otherwise the import says that they do not.
func TestImport_WhatDumpAndQueryWriteOfHistograms_GoesIntoBlocks(t *testing.T) {
	from := histogramDatabase(t, 7)
	dump := func(dir string, args ...string) string {
		c := newTestConsole()
		require.Equal(t, exitOK, execute(t.Context(), append([]string{"dump", dir}, args...), &c.console), c.stderr.String())
		return c.stdout.String()
	}
	if _, ok := any(&tsdb.BlockWriter{}).(sampleAppender); !ok {
		code, messages := importFile(t, "a", []byte(dump(from, "-o", "json")))
		require.Equal(t, exitProblem, code)
		require.Contains(t, messages, "blocks of this version have neither histograms nor start timestamps")
		return
	}
	into := transfer(t, from, []string{"dump", "%s", "-o", "json"}, "a.json")
	require.Equal(t, dump(from, "-o", "json"), dump(into, "-o", "json"))
	into = transfer(t, from, []string{"dump", "%s", "--format=openmetrics"}, "a.om")
	require.Equal(t, dump(from, "--format=openmetrics"), dump(into, "--format=openmetrics"))
}
