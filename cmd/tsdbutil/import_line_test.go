package main

import (
	"bufio"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/labels"
)

func TestParseTextLine_TakesApart(t *testing.T) {
	for line, want := range map[string]textLine{
		`up 1 2`:                         {series: []byte(`up`), v: 1, t: 2000},
		`up{a="b"} -1.5 2.5`:             {series: []byte(`up{a="b"}`), v: -1.5, t: 2500},
		"up {a=\"} \\\" {\"}\t+Inf  1e3": {series: []byte(`up {a="} \" {"}`), v: math.Inf(1), t: 1_000_000},
		`{"a b",c="d"} 0x 1`:             {},
		`up{} 1 1700000000.123`:          {series: []byte(`up{}`), v: 1, t: 1_700_000_000_123},
		`up 1 -0.001`:                    {series: []byte(`up`), v: 1, t: -1},
		`up 1 1.001`:                     {series: []byte(`up`), v: 1, t: 1001},
		`x_bucket{le="1"} 3 5 # {trace_id="#"} 0.5 5`: {series: []byte(`x_bucket{le="1"}`), v: 3, t: 5000, exemplars: []byte(`# {trace_id="#"} 0.5 5`)},
	} {
		got, err := parseTextLine([]byte(line), false)
		if want.series == nil {
			require.Error(t, err, line)
			continue
		}
		require.NoError(t, err, line)
		got.at = nil
		require.Equal(t, want, got, line)
	}
	got, err := parseTextLine([]byte(`{__name__="up"} NaN -5`), true)
	require.NoError(t, err)
	require.EqualValues(t, -5, got.t)
	require.Equal(t, math.Float64bits(math.NaN()), math.Float64bits(got.v))
}

func TestParseTextLine_SaysWhatIsWrong(t *testing.T) {
	for line, want := range map[string]string{
		`up`:                      "there is no value",
		`up `:                     "there is no value",
		`up 1`:                    "there is no time",
		`up 1 # {a="b"} 1`:        "there is no time",
		`up one 1`:                `the value is no number: "one"`,
		`up 1_0 1`:                `the value is no number: "1_0"`,
		`up 0x10 1`:               `the value is no number: "0x10"`,
		`up . 1`:                  `the value is no number: "."`,
		`up 1 now`:                `the time is no number of seconds: "now"`,
		`up 1 NaN`:                `the time is no number of seconds: "NaN"`,
		`up 1 1e300`:              `the time is no number of seconds: "1e300"`,
		`up 1 1 1`:                `something follows the time: "1"`,
		`up{a="b" 1 1`:            "the brace of the labels is not closed",
		`up{a="b} 1 1`:            "a quote is not closed",
		`up ` + longText + ` 1 1`: "the value is no number: \"" + longText[:quotedBytes] + `"...`,
	} {
		_, err := parseTextLine([]byte(line), false)
		require.EqualError(t, err, want, line)
	}
	_, err := parseTextLine([]byte(`up 1 1.5`), true)
	require.EqualError(t, err, `the time is no whole number of milliseconds: "1.5"`)
}

var longText = strings.Repeat("x", 1000)

func TestParseSeries_ReadsEveryForm(t *testing.T) {
	for text, want := range map[string]labels.Labels{
		`up`:                       labels.FromStrings("__name__", "up"),
		`a:b_1{}`:                  labels.FromStrings("__name__", "a:b_1"),
		`up{a="b",c="d",}`:         labels.FromStrings("__name__", "up", "a", "b", "c", "d"),
		` up { a = "b" , c="" } `:  labels.FromStrings("__name__", "up", "a", "b"),
		`{__name__="up",a="\"\\"}`: labels.FromStrings("__name__", "up", "a", `"\`),
		`{"dotted.name",a="\n\q"}`: labels.FromStrings("__name__", "dotted.name", "a", "\n\\q"),
		`{"a b"="c","m"}`:          labels.FromStrings("__name__", "m", "a b", "c"),
		`up{a="x, y} z"}`:          labels.FromStrings("__name__", "up", "a", "x, y} z"),
		`{a="b"}`:                  labels.FromStrings("a", "b"),
		`{"",a="b"}`:               labels.FromStrings("a", "b"),
		`up{a="ü"}`:                labels.FromStrings("__name__", "up", "a", "ü"),
	} {
		var b labels.Builder
		require.NoError(t, parseSeries([]byte(text), false, &b), text)
		require.Equal(t, want, b.Labels(), text)
	}
}

func TestParseSeries_SaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		``:               "there is neither a name of a metric nor a label",
		`{}`:             "there is neither a name of a metric nor a label",
		`{a=""}`:         "there is neither a name of a metric nor a label",
		`1up`:            `the name of the metric is not valid: "1up"`,
		`u-p`:            `the name of the metric is not valid: "u-p"`,
		`up{a}`:          `label "a" has no value`,
		`up{a=b}`:        `label "a": want a text in quotes, there is "b}"`,
		`up{a="b"c="d"}`: `want a comma or a brace behind a label, there is "c=\"d\"}"`,
		`up{1="b"}`:      `the name of a label is not valid: "1=\"b\"}"`,
		`up{,}`:          `the name of a label is not valid: ",}"`,
		`up{a="b",a=""}`: `label "a" appears more than once`,
		`up{"down"}`:     `label "__name__" appears more than once`,
		`up{a="b"`:       `want a comma or a brace behind a label, there is ""`,
		`up{a="\`:        `label "a": a quote is not closed`,
		`up{a="b"}}`:     `something follows the labels: "}"`,
	} {
		var b labels.Builder
		require.EqualError(t, parseSeries([]byte(text), false, &b), want, text)
	}
}

// What dump writes has escapes of the Go language.
func TestParseSeries_ReadsWhatDumpWrites(t *testing.T) {
	for _, ls := range []labels.Labels{
		labels.FromStrings("__name__", "up", "a", "tab\t, \"quote\", \\, \n, \x01, \u200b, ü"),
		labels.FromStrings("__name__", "a b", "c d", "e"),
	} {
		var b labels.Builder
		require.NoError(t, parseSeries([]byte(ls.String()), true, &b))
		require.Equal(t, ls, b.Labels())
	}
	var b labels.Builder
	require.EqualError(t, parseSeries([]byte(`{a="\q"}`), true, &b), `label "a": an escape is not valid: "\\q\"}"`)
	require.NoError(t, parseSeries([]byte(`up{a="\t"}`), true, &b), "a name in front: not of dump")
	require.Equal(t, `\t`, b.Get("a"))
	require.NoError(t, parseSeries([]byte(`{"up",a="\t"}`), true, &b), "a name in quotes: not of dump")
	require.Equal(t, `\t`, b.Get("a"))
}

// The short way for plain numbers gives, bit by bit, what the language's parser gives.
func TestParseValue_EqualsTheStandardParser(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	check := func(text string) {
		want, err := strconv.ParseFloat(text, 64)
		require.NoError(t, err)
		got, err := parseValue([]byte(text))
		require.NoError(t, err)
		require.Equal(t, math.Float64bits(want), math.Float64bits(got), text)
	}
	for _, text := range []string{"0", "-0", "0.", ".5", "-.5", "+1", "1e5", "NaN", "inf", "-Infinity", "000000000000001.5", "999999999999999", "0.000000000000001", "9007199254740993"} {
		check(text)
	}
	for range 100_000 {
		n := r.Int64N(1 << r.IntN(62))
		text := strconv.FormatInt(n, 10)
		if at := r.IntN(len(text) + 1); at < len(text) {
			text = text[:at] + "." + text[at:]
		}
		check("-" + text)
		check(strconv.FormatFloat(math.Float64frombits(r.Uint64()>>1&^(1<<52)), 'g', -1, 64))
	}
}

func TestLineReader_GivesLinesWithTheirNumbers(t *testing.T) {
	long := strings.Repeat("l", maxLine)
	text := "one\r\n\ntwo\n" + long + "\n" + long + "x\nlast"
	lines := lineReader{r: bufio.NewReaderSize(strings.NewReader(text), 64)}
	for i, want := range []string{"one", "", "two", long, "", "last"} {
		line, err := lines.next()
		if i == 4 {
			require.EqualError(t, err, "line 5: the line is longer than 1,048,576 bytes")
			continue
		}
		require.NoError(t, err)
		require.Equal(t, want, string(line))
		require.Equal(t, i+1, lines.number)
	}
	_, err := lines.next()
	require.ErrorIs(t, err, io.EOF)
}

// Any line is read or refused, and a series that was read is written and read again as
// the same.
func FuzzTextLine(f *testing.F) {
	for _, seed := range []string{
		`up 1 2`, `a_total{x="1",y="\"\\\n"} 1e5 1600000060.123 # {id="z"} 3 4`, `{"b.c",q="a"} +Inf 5`, `{__name__="x"} NaN -5`, `up{a="b`, "{}\t0 0", `a{a="b",} .5 1`,
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, line string, milliseconds bool) {
		l, err := parseTextLine([]byte(line), milliseconds)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		var b labels.Builder
		if err := parseSeries(l.series, milliseconds, &b); err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		ls := b.Labels()
		if ls.Validate() != nil {
			return
		}
		var again labels.Builder
		require.NoError(t, parseSeries([]byte(ls.String()), true, &again), ls.String())
		require.Equal(t, ls, again.Labels())
	})
}
