package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

func TestImport_JSON_ReadsWhatIsWrittenAndMore(t *testing.T) {
	want := map[string][]string{`{__name__="a"}`: {"1 3ff0000000000000", "2 7ff8000000000001"}, `{b="ü\n"}`: {"-3 8000000000000000"}}
	for _, text := range []string{
		`{"series":[{"labels":{"__name__":"a"},"samples":[[1,1],[2,"NaN"]]},{"labels":{"b":"ü\n"},"samples":[[-3,-0]]}],"warnings":["x",{"y":[1]}]}`,
		`{"labels":{"__name__":"a"},"samples":[[1,1],[2,"NaN"]]}` + "\n" + `{"labels":{"b":"\u00fc\u000a"},"samples":[[-3,-0]]}`,
		" { \"more\" : [ ] , \"labels\" : { \"__name__\" : \"a\" , \"c\" : \"\" } ,\r\n \"samples\" : [ [ 2 , \"nan\" ] ,\t[ 1 , 1.0 ] ] }{\"labels\":{\"b\":\"ü\\n\"},\"samples\":[[-3,\"-0\"]],\"more\":{\"x\":null}}",
	} {
		dir, code, messages := importInto(t, "a", []byte(text), "--format=json")
		require.Equal(t, exitOK, code, messages)
		require.Equal(t, want, stored(t, dir))
	}
}

func TestImport_JSON_SaysWhatIsWrong(t *testing.T) {
	deep := strings.Repeat("[", 100)
	for text, want := range map[string]string{
		"{\"labels\":{\"a\":\"b\"},\n\"samples\":[[1,1],[2":     "line 2: the input ends within an object: it may have been cut off",
		"{\"labels\":{\"a\":\"b\"},\n\"samples\":[[1,\"x\"]]}":  `line 2: the value is no number: "x"`,
		`{"labels":{"a":"b"},"samples":[[1.5,1]]}`:              `line 1: the time is no whole number of milliseconds: "1.5"`,
		`{"labels":{"a":"b"},"samples":[[1]]}`:                  "a sample is less than a time and a value",
		`{"labels":{"a":"b"},"samples":[[1,2,3,4]]}`:            "a sample is more than a time, a value and a start timestamp",
		`{"labels":{"a":"b"},"samples":[1]}`:                    `want an array, there is "1"`,
		`{"samples":[[1,2]]}`:                                   `"samples" without "labels" in front of them`,
		`{"labels":{"a":"b","a":"c"},"samples":[]}`:             `label "a" appears more than once`,
		`{"labels":{"a":1},"samples":[]}`:                       `want a text in quotes, there is "1"`,
		`{"labels":{},"samples":[[1,2]]}`:                       "the series has no labels",
		"{\"labels\":{\"a\":\"\xff\"},\"samples\":[]}":          "a text is not UTF-8",
		`{"labels":{"a":"\x"},"samples":[]}`:                    "an escape is not valid",
		"{\"labels\":{\"a\":\"b\n":                              "a text has a control character in it",
		`{"labels":{"a":"b"} "samples":[]}`:                     `want a comma, there is "\""`,
		`{"labels" 1}`:                                          `want a colon, there is "1"`,
		`{"x":` + deep:                                          "values are nested too deep",
		`{"x":` + strings.Repeat("1", 2000) + `}`:               "a number is longer than 1,024 characters",
		`{"x":"` + strings.Repeat("1", maxLine+10):              "a text is longer than 1,048,576 bytes",
		"{\"__name__\":\"a\"}":                                  `line 1: the object has neither "series" nor "labels"`, // of dump --format=seriesjson
		"{\n\"metric\":{\"a\":\"b\"},\"values\":[[1,\"2\"]]}":   `line 1: the object has neither "series" nor "labels"`,
		"{\"series\":[{\"labels\":{\"a\":\"b\"}},\n{\"a\":1}]}": `line 2: the object has no "labels"`,
		`[]`:      `want an object, there is "["`,
		`{"x":,}`: `want a number or a text, there is ","`,
	} {
		code, messages := importFile(t, "a", []byte(text), "--format=json")
		require.Equal(t, exitProblem, code, text)
		require.Contains(t, messages, want)
	}
	// A sample that is wrong leaves the others alone; behind damage nothing can be read.
	dir, code, messages := importInto(t, "a", []byte(`{"labels":{"a":"b"},"samples":[[1,1],[2,"x"],[3,1]]}{"labels":{"c":"d"},"samples":[[1,1]`), "-k")
	require.Equal(t, exitProblem, code)
	require.Contains(t, messages, "skipped 2 lines")
	require.Equal(t, map[string][]string{`{a="b"}`: {"1 3ff0000000000000", "3 3ff0000000000000"}, `{c="d"}`: {"1 3ff0000000000000"}}, stored(t, dir))
}

// JSON cannot carry what is not UTF-8, and says so.
func TestJSONResult_SaysWhatItCannotCarry(t *testing.T) {
	c := newTestConsole()
	s := &selection{selectFlags: &selectFlags{output: "jsonl"}}
	w := newResultWriter(&c.console, s, nil)
	for _, value := range []string{"fine", "\xff", "a\xc3"} {
		require.NoError(t, w.begin(labels.FromStrings("a", value)))
		require.NoError(t, w.end())
	}
	require.ErrorIs(t, w.close(nil), errProblem)
	require.Contains(t, c.stderr.String(), "labels of 2 series are not UTF-8, which this format cannot carry")
	require.Equal(t, 3, strings.Count(c.stdout.String(), "\n"), "all of it is written")
}

// Whatever is JSON to the language is so here.
func FuzzJSONScanner(f *testing.F) {
	for _, seed := range []string{`{"a":[1,"x",{"b":null}]}`, `{"a" : "\u00fc\n"}`, `{"a":[[]]}`, `{"a":1,}`, "{\"a\":\"\xff\"}", `{"a":tru}`, `{"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s := jsonScanner{r: bufio.NewReader(bytes.NewReader(text)), line: 1}
		err := s.object(func(string) error { return s.skip(maxJSONDepth) })
		var m map[string]json.RawMessage
		valid := json.NewDecoder(bytes.NewReader(text)).Decode(&m) == nil && m != nil
		if valid && !bytes.Contains(bytes.ToValidUTF8(text, nil), text) || bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) > maxJSONDepth/2 || len(text) > maxScalar {
			return // not UTF-8, deep, or long
		}
		if valid {
			require.NoError(t, err)
		}
	})
}

// taken is where samples go that nobody wants.
type taken struct{}

func (taken) AppendRef(tsdb.SeriesRef, labels.Labels, int64, float64) (tsdb.SeriesRef, error) {
	return 1, nil
}

// Any bytes are imported or refused by name, whatever form they are taken for.
func FuzzImport(f *testing.F) {
	for _, seed := range []string{
		"a 1 1700000000\n# EOF \n\n", "\ufeff{__name__=\"a\"} NaN(0x7ff0000000000002) 5\n", "timestamp_ms,value,__name__,label:value\n1,2,a,b\n", annotated,
		`{"labels":{"a":"b"},"samples":[[1,"NaN"]]}`, string(utf16Text("time;value;a\n1;2;b\n", true)), "time\tvalue\n\"1\n", "#datatype,\n\n,_time,\n",
	} {
		f.Add([]byte(seed), uint8(0))
	}
	formats := []string{formatAuto, formatOpenMetrics, formatProm, formatCSV, formatInflux, formatJSON}
	f.Fuzz(func(t *testing.T, text []byte, format uint8) {
		c := newTestConsole()
		sink := &importSink{ctx: context.Background(), c: &c.console, longest: maxLine}
		source := &importSource{reader: bufio.NewReaderSize(bytes.NewReader(text), importBuffer)}
		reader, _, err := withoutMark(source.reader)
		if err != nil {
			return
		}
		source.reader = reader
		i := &importCommand{format: formats[int(format)%len(formats)], file: "a", csv: csvFlags{timeFormat: timeAuto}}
		sink.w = taken{}
		if err := i.reader(&c.console, sink, source).read(source); err != nil {
			require.NotEmpty(t, err.Error())
			require.NotContains(t, err.Error(), "BUG")
		}
	})
}
