package labels_test

import (
	"regexp"
	"regexp/syntax"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/labels"
)

// plain is the expression as the standard library runs it: what Regexp has to equal.
func plain(expr string) (*regexp.Regexp, error) {
	if _, err := regexp.Compile("(?s:" + expr + ")"); err != nil {
		return nil, err
	}
	if _, err := regexp.Compile(expr); err != nil {
		return nil, err
	}
	return regexp.Compile("^(?s:" + expr + ")$")
}

func mustRegexp(t testing.TB, expr string) *labels.Matcher {
	t.Helper()
	m, err := labels.Regexp("l", expr)
	require.NoError(t, err, expr)
	return m
}

// checkSame compares a matcher with the plain expression on one value, and what it
// says about its matches with the matches.
func checkSame(t require.TestingT, m *labels.Matcher, re *regexp.Regexp, v string) {
	want := re.MatchString(v)
	require.Equal(t, want, m.Matches(v), "%q on %q", m.Value(), v)
	if want {
		require.True(t, strings.HasPrefix(v, m.Prefix()), "%q: prefix %q on %q", m.Value(), m.Prefix(), v)
	}
	if set := m.SetMatches(); set != nil {
		require.Equal(t, want, slices.Contains(set, v), "%q: set %q on %q", m.Value(), set, v)
	}
}

var shapes = []struct {
	expr   string
	set    []string
	prefix string
	run    bool // the expression itself has to be run
}{
	{expr: ``, set: []string{""}},
	{expr: `abc`, set: []string{"abc"}, prefix: "abc"},
	{expr: `^abc$`, set: []string{"abc"}, prefix: "abc"},
	{expr: `^(?:^abc$)$`, set: []string{"abc"}, prefix: "abc"},
	{expr: `(?m)^abc$`, set: []string{"abc"}, prefix: "abc"},
	{expr: `a|b|c`, set: []string{"a", "b", "c"}},
	{expr: `foo|bar|foo`, set: []string{"bar", "foo"}},
	{expr: `(foo|bar)`, set: []string{"bar", "foo"}},
	{expr: `prod-(a|b)[12]`, set: []string{"prod-a1", "prod-a2", "prod-b1", "prod-b2"}, prefix: "prod-"},
	{expr: `a[12]`, set: []string{"a1", "a2"}, prefix: "a"},
	{expr: `ab?c`, set: []string{"abc", "ac"}, prefix: "a"},
	{expr: `a{3}`, set: []string{"aaa"}, prefix: "aaa"},
	{expr: `a{1,3}`, set: []string{"a", "aa", "aaa"}, prefix: "a"},
	{expr: `foo|`, set: []string{"", "foo"}},
	{expr: `\Qa.b\E`, set: []string{"a.b"}, prefix: "a.b"},
	{expr: `10\.0\.0\.1`, set: []string{"10.0.0.1"}, prefix: "10.0.0.1"},
	{expr: `(?i)up`, set: []string{"UP", "Up", "uP", "up"}},
	{expr: `(?i)k`, set: []string{"K", "k", "\u212a"}},
	{expr: `abc.*`, prefix: "abc"},
	{expr: `abc.+`, prefix: "abc"},
	{expr: `.*abc`},
	{expr: `.*abc.*`},
	{expr: `.+abc.+`},
	{expr: `a.*b.+c`, prefix: "a"},
	{expr: `.*`},
	{expr: `.+`},
	{expr: `.*.+.+`},
	{expr: `prod-.*|prod-x|staging-.*`},
	{expr: `(prod|pre)-.+`, prefix: "pr"},
	{expr: `(?i)production`},
	{expr: `(?i)123-production.*`, prefix: "123-"},
	{expr: `.*(?i:production).*`},
	{expr: `.*(?i:production)`},
	{expr: `(?i:production)-1`},
	{expr: `[^\x00-\x{10FFFF}]`},
	{expr: `[a-z]+`, run: true},
	{expr: `node-[0-9]+:9100`, prefix: "node-", run: true},
	{expr: `a1|a.c|a[0-9]+x|ab.*`, prefix: "a", run: true},
	{expr: `(?i:productions|x.y)`, run: true},
	{expr: `aX|b.Y|c.Y|d.Y|e.Y|f.Y|g.Y|h.Y|i.Y|j.Y`, run: true},
	{expr: `a.c`, prefix: "a", run: true},
	{expr: `a\bb`, prefix: "ab", run: true},
	{expr: `a$b`, prefix: "ab", run: true},
	{expr: `a^b`, prefix: "ab", run: true},
	{expr: `a?^b`, run: true},
	{expr: `(?-s).*`, run: true},
	{expr: "\uFFFD", run: true},
	{expr: `[\x{D800}a]`, run: true},
	{expr: `(?i:production)x`, run: true},
	{expr: `[ab]{9}`, run: true},
}

func TestRegexp_KnowsItsSetAndItsPrefix(t *testing.T) {
	for _, c := range shapes {
		m := mustRegexp(t, c.expr)
		require.Equal(t, c.set, m.SetMatches(), c.expr)
		require.Equal(t, c.prefix, m.Prefix(), c.expr)
		require.Equal(t, c.run, labels.RunsRegexp(m), c.expr)
		require.Equal(t, m.Matches(""), m.MatchesEmpty(), c.expr)
	}
}

func TestRegexp_PrefixOfAnExpressionTooLongToAnalyse(t *testing.T) {
	m := mustRegexp(t, `abc(?:x|y|z)`+strings.Repeat("(d)", 1300))
	require.Equal(t, "abc", m.Prefix())
	require.True(t, labels.RunsRegexp(m))
	require.True(t, m.Matches("abcx"+strings.Repeat("d", 1300)))
	require.False(t, m.Matches("abcx"+strings.Repeat("d", 1299)))
}

func TestRegexp_LongAlternationIsASet(t *testing.T) {
	var hosts []string
	for i := range 200 {
		hosts = append(hosts, "host-"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+string(rune('a'+i/26)))
	}
	slices.Sort(hosts)
	m := mustRegexp(t, strings.Join(hosts, "|"))
	require.Equal(t, hosts, m.SetMatches())
	require.Equal(t, "host-", m.Prefix())
	for _, h := range hosts {
		require.True(t, m.Matches(h))
		require.False(t, m.Matches(h+"-"))
	}
}

// values that lie on both sides of what the expressions of this file say.
var values = []string{
	"", "a", "b", "A", "abc", "ABC", "abcd", "xabc", "xabcx", "ab", "aab", "aaa", "a1", "a3", "prod-a1", "prod-x", "pre-", "pre-a",
	"PRODUCTION", "xProductionx", "123-production", "production-1", "production\r1", "xPRODUCTION", "Productionx", "productionX", "node-12:9100", "node-:9100", "UP", "up", "K", "\u212a",
	"\n", "a\nb", "abc\n", "\xff", "a\xffb", "\uFFFD", "\xe2\x82", "\u65e5\u672c", "a\u65e5c", "foo", "bar", "10.0.0.1", "10x0x0x1", "a.b", "aXb", "ab\nc", "a12bXc", "abababab", "ababababa",
}

func TestRegexp_EqualsThePlainExpression(t *testing.T) {
	for _, c := range shapes {
		re, err := plain(c.expr)
		require.NoError(t, err, c.expr)
		m := mustRegexp(t, c.expr)
		for _, v := range values {
			checkSame(t, m, re, v)
		}
	}
}

// genExpr draws expressions of the kinds that the analysis tells apart.
func genExpr(depth int) *rapid.Generator[string] {
	leaf := rapid.SampledFrom([]string{
		"a", "b", "ab", "k", "K", "1", "-", "é", "日", ".", ".*", ".+", ".?", ".*?", "[ab]", "[^a]", "[a-c]", "[0-9]+", "", "^", "$", `\b`, `\z`, `\A`,
		"(?i:ab)", "(?i:k)", "(?i:a1)", "(?i)b", "(?m)^", "(?m)$", "(?-s:.)", "(?s).", `\x{FFFD}`, "\\n", "(?i:productions)", `\Qa.\E`, `[^\x00-\x{10FFFF}]`,
	})
	if depth == 0 {
		return leaf
	}
	sub := rapid.Deferred(func() *rapid.Generator[string] { return genExpr(depth - 1) })
	repeat := rapid.SampledFrom([]string{"*", "+", "?", "{2}", "{0,2}", "{1,}", "{2,3}"})
	return rapid.OneOf(
		leaf,
		rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(sub, 1, 4).Draw(t, "concat"), "")
		}),
		rapid.Custom(func(t *rapid.T) string {
			return "(?:" + strings.Join(rapid.SliceOfN(sub, 1, 4).Draw(t, "alternate"), "|") + ")"
		}),
		rapid.Custom(func(t *rapid.T) string {
			return "(" + sub.Draw(t, "sub") + ")" + repeat.Draw(t, "repeat")
		}),
	)
}

func TestRegexp_RandomExpressionsEqualThePlainOnes(t *testing.T) {
	atom := rapid.SampledFrom([]string{"a", "b", "c", "A", "B", "k", "K", "\u212a", "1", "-", "é", "日", "\n", "\xff", "\uFFFD", "\xe6\x97", "productions", "PRODUCTIONS", "a."})
	rapid.Check(t, func(t *rapid.T) {
		expr := genExpr(3).Draw(t, "expr")
		re, err := plain(expr)
		m, got := labels.Regexp("l", expr)
		if err != nil {
			require.Error(t, got, expr)
			return
		}
		if got != nil {
			require.ErrorIs(t, got, labels.ErrLimit)
			return
		}
		for range 20 {
			checkSame(t, m, re, strings.Join(rapid.SliceOfN(atom, 0, 6).Draw(t, "value"), ""))
		}
		for _, v := range m.SetMatches() {
			require.True(t, re.MatchString(v), "%q has %q in its set", expr, v)
		}
	})
}

func TestRegexp_ProgramsAreNotLongerThanCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree, err := syntax.Parse(genExpr(4).Draw(t, "expr"), syntax.Perl|syntax.DotNL)
		if err != nil {
			t.Skip()
		}
		counted := labels.CountInstructions(tree)
		prog, err := syntax.Compile(tree.Simplify())
		require.NoError(t, err)
		require.LessOrEqual(t, len(prog.Inst), counted+2, "%v", tree) // fail and match
	})
}

func TestRegexp_BadSyntaxIsAnError(t *testing.T) {
	for _, expr := range []string{`(`, `a)|(b`, `[a`, `*`, `a{2000}`, `\Qopen`, `\`, "a\xff", `(?<n>`, `\p{Nope}`} {
		_, err := labels.Regexp("l", expr)
		require.ErrorIs(t, err, labels.ErrSyntax, expr)
		require.ErrorContains(t, err, "regular expression", expr)
		_, err = labels.NotRegexp("l", expr)
		require.ErrorIs(t, err, labels.ErrSyntax, expr)
	}
}

func TestRegexp_LimitsHoldOnBothSides(t *testing.T) {
	mustRegexp(t, strings.Repeat("a?", labels.MaxRegexpBytes/8))
	mustRegexp(t, strings.Repeat("a", labels.MaxRegexpBytes))
	_, err := labels.Regexp("l", strings.Repeat("a", labels.MaxRegexpBytes)+".")
	require.ErrorIs(t, err, labels.ErrLimit)
	mustRegexp(t, strings.Repeat("a", labels.MaxListBytes))
	_, err = labels.Regexp("l", strings.Repeat("a", labels.MaxListBytes+1))
	require.ErrorIs(t, err, labels.ErrLimit)

	mustRegexp(t, strings.Repeat("[a-z]{999}", 9))
	_, err = labels.Regexp("l", strings.Repeat("[a-z]{999}", 11))
	require.ErrorIs(t, err, labels.ErrLimit)

	mustRegexp(t, strings.Repeat(`\pL`, 64))
	_, err = labels.Regexp("l", strings.Repeat(`\pL`, 65))
	require.ErrorIs(t, err, labels.ErrLimit)
	mustRegexp(t, `(?i)[а-яё]+ [α-ω]+ [一-龥]+`)
	mustRegexp(t, strings.Repeat(`[b-\x{1e942}]`, 300))

	mustRegexp(t, strings.Repeat("(", 900)+strings.Repeat(")", 900))
	for depth := 990; depth < 1010; depth++ { // the parser's own limit lies among them
		if _, err = labels.Regexp("l", strings.Repeat("(x+", depth)+strings.Repeat(")", depth)); err != nil {
			require.ErrorIs(t, err, labels.ErrLimit)
		}
	}
	require.Error(t, err)
}

func TestRegexp_HostileExpressionsEndSoonAndSmall(t *testing.T) {
	alternation := strings.TrimSuffix(strings.Repeat("value|", 100_000), "|")
	hostile := map[string]string{
		"optional chain":      `(a?){1000}a{1000}`,
		"long alternation":    alternation,
		"deep groups":         strings.Repeat("(", 64<<10) + strings.Repeat(")", 64<<10),
		"deep short groups":   strings.Repeat("(", 2047) + strings.Repeat(")", 2047),
		"tiny captures":       strings.Repeat("(a)", 1365),
		"tiny classes":        strings.Repeat("[ab]", 1023),
		"gaps":                strings.Repeat("a.*", 1365),
		"optional gaps":       strings.Repeat("(a.*)?", 682),
		"letters":             strings.Repeat(`\pL`, 1365),
		"folded letters":      `(?i)` + strings.Repeat(`\pL`, 1364),
		"letter alternatives": strings.TrimSuffix(strings.Repeat(`\pL+|`, 800), "|"),
		"folded ranges":       `(?i)` + strings.Repeat("[B-\U0001e942]", 511),
		"folded hex ranges":   `(?mi-s:` + strings.Repeat(`[b-\x{1e942}]`, 300) + `)`,
		"few folded ranges":   `(?i)` + strings.Repeat("[B-\U0001e942]", 2),
		"few letters":         strings.Repeat(`[\pL\pN]`, 32),
		"folded alternatives": `(?i)` + strings.TrimSuffix(strings.Repeat("abcdefgh|", 450), "|"),
		"products":            strings.TrimSuffix(strings.Repeat("[ab]{8}|", 500), "|"),
		"nested repeats":      `((a{10}){10}){10}`,
		"repeated literal":    strings.Repeat(`a{1000}`, 9),
		"repeated alternates": `(?:` + strings.TrimSuffix(strings.Repeat("ab|", 20), "|") + `){100}`,
	}
	for name, expr := range hostile {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			_, err := labels.Regexp("l", expr)
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			if err != nil {
				require.ErrorIs(t, err, labels.ErrLimit)
			}
			allocated := after.TotalAlloc - before.TotalAlloc
			t.Logf("%v, %d KiB, %v", took, allocated>>10, err != nil)
			require.Less(t, allocated, uint64(16<<20))
			require.Less(t, took, 5*time.Second, "it must end; how soon is for benchmarks")
		})
	}
}

func FuzzRegexp(f *testing.F) {
	for i, c := range shapes {
		f.Add(c.expr, values[i%len(values)])
	}
	f.Add(`(a?){1000}a{1000}`, "aaaa")
	f.Add(`a)|(b`, "a")
	f.Fuzz(func(t *testing.T, expr, v string) {
		m, err := labels.Regexp("l", expr)
		if err != nil {
			return
		}
		re, err := plain(expr)
		require.NoError(t, err)
		checkSame(t, m, re, v)
		for _, v := range m.SetMatches() {
			require.True(t, re.MatchString(v), "%q has %q in its set", expr, v)
		}
	})
}
