package labels_test

import (
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/labels"
)

// texts writes matchers one by one.
func texts(ms []*labels.Matcher) []string {
	out := []string{}
	for _, m := range ms {
		out = append(out, m.String())
	}
	return out
}

var selectors = []struct {
	in   string
	want []string
	out  string // what FormatSelector writes, if it is not in
}{
	{in: `{}`, want: []string{}},
	{in: `up`, want: []string{`__name__="up"`}},
	{in: `job:up:sum5m`, want: []string{`__name__="job:up:sum5m"`}},
	{in: ` up { } `, want: []string{`__name__="up"`}, out: `up`},
	{in: `up{job=~"a.*", "utf8.name"="x"}`, want: []string{`__name__="up"`, `job=~"a.*"`, `"utf8.name"="x"`}},
	{in: `{"metric.name", a!="b"}`, want: []string{`__name__="metric.name"`, `a!="b"`}, out: `{__name__="metric.name", a!="b"}`},
	{in: `{a!="b","metric.name",}`, want: []string{`__name__="metric.name"`, `a!="b"`}, out: `{__name__="metric.name", a!="b"}`},
	{in: `{__name__="x"}`, want: []string{`__name__="x"`}, out: `x`},
	{in: `{__name__="x",__name__!~"y|z"}`, want: []string{`__name__="x"`, `__name__!~"y|z"`}, out: `{__name__="x", __name__!~"y|z"}`},
	{in: `{a="1", __name__="x"}`, want: []string{`a="1"`, `__name__="x"`}},
	{in: "{a='it\\'s \"x\"',\n\tb=`raw \\n \"'\nline`\r}", want: []string{`a="it's \"x\""`, `b="raw \\n \"'\nline"`}, out: `{a="it's \"x\"", b="raw \\n \"'\nline"}`},
	{in: `{a="\x41\101\u00e9\U0001F600\n\xff"}`, want: []string{`a="AAé😀\n\xff"`}, out: `{a="AAé😀\n\xff"}`},
	{in: `{a = "", b!~''}`, want: []string{`a=""`, `b!~""`}, out: `{a="", b!~""}`},
	{in: `{sum="by", by="é日", _="�"}`, want: []string{`sum="by"`, `by="é日"`, `_="�"`}},
}

func TestParseSelector_ReadsWhatPromQLReads(t *testing.T) {
	for _, c := range selectors {
		ms, err := labels.ParseSelector(c.in)
		require.NoError(t, err, c.in)
		require.Equal(t, c.want, texts(ms), c.in)
		out := c.out
		if out == "" {
			out = c.in
		}
		require.Equal(t, out, labels.FormatSelector(ms))
		back, err := labels.ParseSelector(out)
		require.NoError(t, err)
		require.Equal(t, c.want, texts(back))
	}
}

func TestParseSelector_ErrorsSayWhere(t *testing.T) {
	for _, c := range []struct {
		in     string
		column int
		reason string
	}{
		{``, 1, `want a metric name or '{', found the end`},
		{`  `, 3, `want a metric name or '{', found the end`},
		{`"up"`, 1, `want a metric name or '{', found '"'`},
		{`5xx`, 1, `a name cannot begin with a digit, quote it`},
		{`up x`, 4, `want the end, found 'x'`},
		{`up{a="b"} offset`, 11, `want the end, found 'o'`},
		{`up{`, 4, `want a label name or '}', found the end`},
		{`{,}`, 2, `want a label name or '}', found ','`},
		{`{a="b",,}`, 8, `want a label name or '}', found ','`},
		{`{a="b" c="d"}`, 8, `want ',' or '}', found 'c'`},
		{`{a}`, 3, `want one of = != =~ !~ after the label name, found '}'`},
		{`{a:b="c"}`, 3, `want one of = != =~ !~ after the label name, found ':'`},
		{`{a=="b"}`, 4, `want a quoted value, found '='`},
		{`{a=b}`, 4, `want a quoted value, found 'b'`},
		{`{a=`, 4, `want a quoted value, found the end`},
		{`{é="b"}`, 2, `want a label name or '}', found 'é'`},
		{`{"é"=b}`, 6, `want a quoted value, found 'b'`},
		{`{a="b}`, 4, `the string does not end`},
		{"{a=\"b\n\"}", 4, `the string does not end`},
		{"{a=`b}", 4, `the string does not end`},
		{`{a="b\q"}`, 6, `unknown escape in a string`},
		{`{a="b\'"}`, 6, `unknown escape in a string`},
		{`{a="\ud800"}`, 5, `unknown escape in a string`},
		{"{a=\"b\xff\"}", 6, `not UTF-8`},
		{"{a=`é\xff`}", 6, `not UTF-8`},
		{`{"\xff"="b"}`, 2, `name is not UTF-8`},
		{`{"\xff"}`, 2, `name is not UTF-8`},
		{`{""="b"}`, 2, `empty name`},
		{`{""}`, 2, `empty name`},
		{`up{__name__="x"}`, 4, `the metric name is set twice`},
		{`up{"x"}`, 4, `the metric name is set twice`},
		{`{"x", "y"}`, 7, `the metric name is set twice`},
		{`{__name__=~"x", "y"}`, 17, `the metric name is set twice`},
		{`{a=~"b("}`, 5, `regular expression "b(": missing closing ) at "b(": syntax error`},
	} {
		ms, err := labels.ParseSelector(c.in)
		require.Nil(t, ms, c.in)
		require.ErrorIs(t, err, labels.ErrSyntax, c.in)
		var e *labels.SelectorError
		require.True(t, errors.As(err, &e), c.in)
		require.Equal(t, c.column, e.Column, c.in)
		require.Contains(t, e.Reason, c.reason, c.in)
	}
	_, err := labels.ParseSelector(`{a=}`)
	require.EqualError(t, err, `selector, column 4: want a quoted value, found '}'`)
}

func TestParseSelector_LimitsAreErrors(t *testing.T) {
	_, err := labels.ParseSelector(`{a=~"` + strings.Repeat("x", labels.MaxRegexpBytes) + `."}`)
	require.ErrorIs(t, err, labels.ErrLimit)

	fits := `{a="` + strings.Repeat("x", labels.MaxSelectorBytes-6) + `"}`
	_, err = labels.ParseSelector(fits)
	require.NoError(t, err)
	_, err = labels.ParseSelector(fits + " ")
	require.ErrorIs(t, err, labels.ErrLimit)
}

func FuzzParseSelector(f *testing.F) {
	for _, c := range selectors {
		f.Add(c.in)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ms, err := labels.ParseSelector(s)
		if err != nil {
			require.Nil(t, ms)
			require.True(t, errors.Is(err, labels.ErrSyntax) || errors.Is(err, labels.ErrLimit))
			return
		}
		text := labels.FormatSelector(ms)
		if len(text) > labels.MaxSelectorBytes { // escapes may be longer than what was read
			return
		}
		back, err := labels.ParseSelector(text)
		require.NoError(t, err, "%q became %q", s, text)
		require.Equal(t, texts(ms), texts(back))
	})
}
