package main

import (
	"bufio"
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/stretchr/testify/require"
)

// The content decides, whatever a file is called.
func TestSniff_TellsFormatsByTheirContent(t *testing.T) {
	for text, want := range map[string]string{
		"a 1 1700000000\n# EOF\n":                             formatOpenMetrics,
		"a 1 1700000000.5\na 2 1700000001\n":                  formatOpenMetrics, // cut off
		"a 1 1700000000\n":                                    formatOpenMetrics,
		"a 1 1700000000000\n# EOF\n":                          formatOpenMetrics, // a mistake, to be told
		"a 1 1.7e9\n":                                         formatOpenMetrics,
		"a 1 5 # {b=\"c\"} 1\n":                               formatOpenMetrics,
		"# UNIT a_seconds seconds\na_seconds 1 1700000000\n":  formatOpenMetrics,
		"{\"a b\",c=\"d\"} 1 1700000000\n# EOF\n":             formatOpenMetrics,
		"temp hot 100\ntemp 1 100\n":                          formatOpenMetrics,
		"# TYPE a gauge\na{b=\"c,d;e\"} 1 1700000000000\n":    formatProm,
		"{\"a b\",c=\"d\"} 1 1700000000000\n":                 formatProm,
		"{__name__=\"a\"} 1 1700000000.000\n":                 formatOpenMetrics, // as promtool dumps it
		"{__name__=\"a\"} 1 5\n":                              formatProm,
		"{\"a b\"=\"c\", __name__=\"d\"} 1 5\n":               formatProm,
		"{b=\"c\"} NaN(0x7ff0000000000002) -5\n":              formatProm,
		"{\"series\":[],\"warnings\":[]}":                     formatJSON,
		"\n {\n \"labels\" : {\"a\":\"b\"},\"samples\":[]}":   formatJSON,
		"timestamp_ms,value,__name__\n1,2,a\n":                formatCSV,
		"timestamp_ms,value,_time,_value,_field\n1,2,a,b,c\n": formatCSV,
		"\"time\";\"value\";\"x\"\n1;2;a\n":                   formatCSV,
		"time\tvalue\t__name__\n1\t2\ta\n":                    formatCSV,
		"day;room;temp\n":                                     formatCSV,
		"#group,false\n#datatype,string\n":                    formatInflux,
		"\"#datatype\",\"string\"\n":                          formatInflux,
		",result,table,_time,_value,_field\n":                 formatInflux,
		"# a comment, with commas\n":                          formatCSV, // nothing is said: the name
		"":                                                    formatCSV,
		" \r\n\n":                                             formatCSV,
		"\x00\x01":                                            formatCSV,
	} {
		require.Equal(t, want, sniff([]byte(text), nil, "a.csv.gz", &csvFlags{timeFormat: timeAuto}).format, "%q", text)
	}
	for name, want := range map[string]string{
		"a.om": formatOpenMetrics, "a": formatOpenMetrics, "A.PROM.gz": formatProm, "a.tsv": formatCSV, "a.jsonl": formatJSON, standardInput: formatOpenMetrics,
	} {
		require.Equal(t, want, sniff(nil, nil, name, &csvFlags{timeFormat: timeAuto}).format, name)
	}
}

func TestSniff_FlagsEndAndGuesses(t *testing.T) {
	plain := &csvFlags{timeFormat: timeAuto}
	header := []byte("day\troom\ttemp\n")
	require.Equal(t, formatOpenMetrics, sniff(header, nil, "a", plain).format)
	require.Equal(t, formatCSV, sniff(header, nil, "a", &csvFlags{timeFormat: timeAuto, time: "day"}).format)
	require.Equal(t, formatCSV, sniff([]byte("day|time\n"), nil, "a", &csvFlags{timeFormat: timeAuto, separator: "|"}).format)

	head := []byte("a 1 1700000000000\n")
	require.Equal(t, sniffed{formatProm, true}, sniff(head, []byte("000\na 2 5\n"), "a", plain))
	require.Equal(t, sniffed{formatOpenMetrics, false}, sniff(head, []byte("000\n# EOF \r\n \n"), "a", plain), "the end counts")
	require.Equal(t, sniffed{formatProm, false}, sniff([]byte("{a=\"b\"} 1 1700000000000\n"), nil, "a", plain), "of dump")
}

// utf16Text is a text in UTF-16 with a mark.
func utf16Text(text string, bigEndian bool) []byte {
	var out []byte
	for _, u := range utf16.Encode([]rune("\ufeff" + text)) {
		if bigEndian {
			out = append(out, byte(u>>8), byte(u))
		} else {
			out = append(out, byte(u), byte(u>>8))
		}
	}
	return out
}

func TestWithoutMark_GivesTheTextInUTF8(t *testing.T) {
	text := strings.Repeat("a 1 2, é 日本 😀\r\n", 40_000)
	for name, input := range map[string][]byte{
		"none": []byte(text), "UTF-8": []byte(markUTF8 + text), "UTF-16 LE": utf16Text(text, false), "UTF-16 BE": utf16Text(text, true),
	} {
		for _, r := range []io.Reader{bytes.NewReader(input), iotest.HalfReader(bytes.NewReader(input))} {
			got, changed, err := withoutMark(bufio.NewReaderSize(r, importBuffer))
			require.NoError(t, err)
			require.Equal(t, strings.HasPrefix(name, "UTF-16"), changed)
			all, err := io.ReadAll(got)
			require.NoError(t, err)
			require.Equal(t, text, string(all), name)
		}
	}
	for _, short := range []string{"", "a", markUTF8, "\xef\xbb"} {
		got, _, err := withoutMark(bufio.NewReader(strings.NewReader(short)))
		require.NoError(t, err)
		all, err := io.ReadAll(got)
		require.NoError(t, err)
		require.Equal(t, strings.TrimPrefix(short, markUTF8), string(all))
	}
}

func TestWithoutMark_SaysWhatIsWrong(t *testing.T) {
	for input, want := range map[string]string{
		markUTF32LE + "a\x00\x00\x00": "UTF-32",
		markUTF32BE + "\x00\x00\x00a": "UTF-32",
		markUTF16LE + "a":             "ends within a character of UTF-16",
		markUTF16LE + "\x00\xd8a\x00": "is not UTF-16", // half of a pair
		markUTF16BE + "\xdc\x00":      "is not UTF-16", // the other half
	} {
		r, _, err := withoutMark(bufio.NewReader(strings.NewReader(input)))
		if err == nil {
			_, err = io.ReadAll(r)
		}
		require.ErrorContains(t, err, want, "%q", input)
	}
}

// Every form of input is taken with a mark, in UTF-16, with the line ends of Windows, and with
// blanks and empty lines at its end.
func TestImport_MarksAndBlanks_AreTakenInEveryForm(t *testing.T) {
	for form, text := range map[string]string{
		formatOpenMetrics: "# TYPE a gauge\na{l=\"x\"} 1 1700000000\n# EOF",
		formatProm:        "a{l=\"x\"} 1 1700000000000",
		"dump":            `{__name__="a", l="x"} 1 1700000000000`,
		formatCSV:         "timestamp_ms,value,__name__,l\n1700000000000,1,a,x",
		"tabs":            "time\tvalue\t__name__\tl\n1700000000\t1\ta\tx",
		formatInflux:      "#datatype,string,long,dateTime:RFC3339,double,string,string\n,result,table,_time,_value,_field,l\n,,0,2023-11-14T22:13:20Z,1,a,x",
		formatJSON:        "{\"labels\":{\"__name__\":\"a\",\"l\":\"x\"},\n\"samples\":[[1700000000000,1]]}",
	} {
		want := map[string][]string{`{__name__="a", l="x"}`: {"1700000000000 3ff0000000000000"}}
		for _, end := range []string{"", "\n", " \n", "\n\n", " \n \n\t\n"} {
			if form == formatCSV || form == "tabs" || form == formatInflux {
				end = strings.TrimLeft(strings.ReplaceAll(end, "\t", ""), " ") // a blank is a part of the last cell
			}
			windows := strings.ReplaceAll(text+end, "\n", "\r\n")
			for how, input := range map[string][]byte{
				"plain": []byte(text + end), "marked": []byte(markUTF8 + text + end), "windows": []byte(markUTF8 + windows), "utf-16": utf16Text(windows, false),
			} {
				dir, code, messages := importInto(t, "a", input)
				require.Equal(t, exitOK, code, "%s %s %q: %s", form, how, end, messages)
				require.Equal(t, want, stored(t, dir), "%s %s %q", form, how, end)
			}
		}
	}
}

// Files that were put together have marks, headers and end marks in the middle.
func TestImport_FilesPutTogether_AreTakenInEveryForm(t *testing.T) {
	for form, texts := range map[string][2]string{
		formatOpenMetrics: {"# TYPE a gauge\na 2 2000000\n# EOF\n", "# TYPE a gauge\na 1 1000000\n# EOF \n\n"},
		formatProm:        {"a 2 2000000000\n", "a 1 1000000000\n"},
		formatCSV:         {"timestamp_ms,value,__name__\n2000000000,2,a\n", "timestamp_ms,value,__name__\n1000000000,1,a\n"},
		"quoted":          {"\"timestamp_ms\",\"value\",\"__name__\"\n2000000000,2,a\n", "\"timestamp_ms\",\"value\",\"__name__\"\n1000000000,1,a\n"},
		formatInflux:      {"#datatype,string,long,dateTime:RFC3339,double,string\n,result,table,_time,_value,_field\n,,0,1970-01-24T03:33:20Z,2,a\n", "\"#datatype\",string,long,dateTime:RFC3339,double,string\n,result,table,_time,_value,_field\n,,0,1970-01-12T13:46:40Z,1,a\n"},
		formatJSON:        {"{\"labels\":{\"__name__\":\"a\"},\"samples\":[[2000000000,2]]}\n", "{\"series\":[{\"labels\":{\"__name__\":\"a\"},\"samples\":[[1000000000,1]]}]}"},
	} {
		for _, mark := range []string{"", markUTF8} {
			args := []string{"--format=" + strings.Replace(form, "quoted", formatCSV, 1)}
			dir, code, messages := importInto(t, "a", []byte(mark+texts[0]+mark+texts[1]), args...)
			require.Equal(t, exitOK, code, "%s %q: %s", form, mark, messages)
			require.Equal(t, map[string][]string{`{__name__="a"}`: {"1000000000 3ff0000000000000", "2000000000 4000000000000000"}}, stored(t, dir), "%s %q", form, mark)
		}
	}
}

// Without an end mark at the end something may be missing, whatever stands in front.
func TestImport_OpenMetrics_NeedsItsEndMarkAtTheEnd(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "line 1: the input is empty",
		"a 1 1000\n\n":                   `line 2: the file ends without "# EOF": it may have been cut off`,
		"a 1 1000\n# EOF\n\n\na 2 2000":  `line 5: something follows "# EOF", and no other one stands behind it: it may have been cut off`,
		"# EOF\n# EOF\n# TYPE a gauge\n": `line 3: something follows "# EOF"`,
	} {
		code, messages := importFile(t, "a.om", []byte(text))
		require.Equal(t, exitProblem, code, "%q", text)
		require.Contains(t, messages, want)
	}
}
