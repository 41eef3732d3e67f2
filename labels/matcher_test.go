package labels_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/labels"
)

func TestMatcher_TypesMatchAndRefuse(t *testing.T) {
	for _, c := range []struct {
		typ          labels.MatchType
		value        string
		matches, not []string
		set          []string
		prefix, text string
	}{
		{labels.MatchEqual, "a", []string{"a"}, []string{"", "b", "aa"}, []string{"a"}, "a", `l="a"`},
		{labels.MatchEqual, "", []string{""}, []string{"a"}, []string{""}, "", `l=""`},
		{labels.MatchNotEqual, "a", []string{"", "b"}, []string{"a"}, []string{"a"}, "a", `l!="a"`},
		{labels.MatchNotEqual, "", []string{"a"}, []string{""}, []string{""}, "", `l!=""`},
		{labels.MatchRegexp, "ab|ac", []string{"ab", "ac"}, []string{"", "a", "abc", "xab"}, []string{"ab", "ac"}, "a", `l=~"ab|ac"`},
		{labels.MatchNotRegexp, "ab|ac", []string{"", "a", "abc", "xab"}, []string{"ab", "ac"}, []string{"ab", "ac"}, "a", `l!~"ab|ac"`},
		{labels.MatchRegexp, ".*", []string{"", "a", "\n"}, nil, nil, "", `l=~".*"`},
		{labels.MatchNotRegexp, ".+", []string{""}, []string{"a"}, nil, "", `l!~".+"`},
	} {
		m, err := labels.NewMatcher(c.typ, "l", c.value)
		require.NoError(t, err)
		require.Equal(t, "l", m.Name())
		require.Equal(t, c.value, m.Value())
		require.Equal(t, c.typ, m.Type())
		require.Equal(t, c.set, m.SetMatches(), c.text)
		require.Equal(t, c.prefix, m.Prefix(), c.text)
		require.Equal(t, c.text, m.String())
		for _, v := range c.matches {
			require.True(t, m.Matches(v), "%s %q", m, v)
		}
		for _, v := range c.not {
			require.False(t, m.Matches(v), "%s %q", m, v)
		}
		require.Equal(t, m.Matches(""), m.MatchesEmpty(), c.text)
	}
}

func TestMatcher_ConstructorsAgreeWithNewMatcher(t *testing.T) {
	re, err := labels.Regexp("l", "a.*")
	require.NoError(t, err)
	not, err := labels.NotRegexp("l", "a.*")
	require.NoError(t, err)
	for _, m := range []*labels.Matcher{labels.Equal("l", "a"), labels.NotEqual("l", "a"), re, not} {
		same, err := labels.NewMatcher(m.Type(), m.Name(), m.Value())
		require.NoError(t, err)
		require.Equal(t, m, same)
	}
}

func TestNewMatcher_UnknownTypeIsAnError(t *testing.T) {
	_, err := labels.NewMatcher(4, "l", "a")
	require.ErrorIs(t, err, labels.ErrSyntax)
	_, err = labels.NewMatcher(-1, "l", "a")
	require.ErrorIs(t, err, labels.ErrSyntax)
	require.Equal(t, "MatchType(4)", labels.MatchType(4).String())
}
