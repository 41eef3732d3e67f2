package labels

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// A plain list has the values that the parser finds in it.
func TestPlainList_IsWhatTheParserFinds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringOfN(rapid.SampledFrom([]rune(`ab.+*?()[]{}^$|\-_ /9ä`)), 0, 4, -1), 1, 8).Draw(t, "values")
		for i := range texts {
			texts[i] = regexp.QuoteMeta(texts[i])
		}
		expr := strings.Join(texts, "|")
		if rapid.Bool().Draw(t, "brackets") {
			expr = "(" + expr + ")"
		}
		values, ok := plainList(expr)
		require.True(t, ok, expr)
		p, err := compilePattern(expr)
		require.NoError(t, err)
		require.Nil(t, p.re)
		require.Equal(t, p.values, values, expr)
	})
}

// What is no plain list is not taken for one.
func TestPlainList_NothingElse(t *testing.T) {
	for _, expr := range []string{"a.c", "a+", "(a|b", "a|b)", "(a)(b)", "(a|(b))", `a\d`, `a\`, "a|[b]", "^a", "a$", "a{2}", "\xff", `\Qa\E`} {
		_, ok := plainList(expr)
		require.False(t, ok, expr)
	}
}

func TestRegexp_ALongListOfADashboard(t *testing.T) {
	var values []string
	for i := range 2000 {
		values = append(values, `pod-`+strconv.Itoa(i)+`\.example-namespace`)
	}
	m, err := Regexp("pod", "("+strings.Join(values, "|")+")")
	require.NoError(t, err)
	require.True(t, m.Matches("pod-1234.example-namespace"))
	require.False(t, m.Matches("pod-12345.example-namespace"))
	require.False(t, m.Matches("pod-1234xexample-namespace"))
	require.False(t, m.Matches(""))
}
