package index_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/invariants"
	"github.com/seed347100a3/tsdb/internal/waytest"
	"github.com/seed347100a3/tsdb/labels"
)

func intern(m *index.MemPostings, ls labels.Labels) (pairs []index.Pair) {
	for l := range ls.All() {
		pairs = append(pairs, m.Intern(l.Name, l.Value))
	}
	return pairs
}

func add(m *index.MemPostings, ref uint64, nameValuePairs ...string) {
	m.Add(ref, intern(m, labels.FromStrings(nameValuePairs...)))
}

func regexp(t testing.TB, name, expr string) *labels.Matcher {
	m, err := labels.Regexp(name, expr)
	require.NoError(t, err)
	return m
}

func notRegexp(t testing.TB, name, expr string) *labels.Matcher {
	m, err := labels.NotRegexp(name, expr)
	require.NoError(t, err)
	return m
}

func sel(t require.TestingT, m *index.MemPostings, ms ...*labels.Matcher) []uint64 {
	refs, err := m.Select(context.Background(), ms...)
	require.NoError(t, err)
	return refs
}

func TestMemPostings_SelectsBySemanticsOfAbsentLabels(t *testing.T) {
	m := index.NewMemPostings()
	add(m, 1, "__name__", "up", "job", "api")
	add(m, 2, "__name__", "up", "job", "db", "zone", "a")
	add(m, 3, "__name__", "down", "zone", "b")
	add(m, 4)
	for _, c := range []struct {
		want []uint64
		ms   []*labels.Matcher
	}{
		{[]uint64{1, 2, 3, 4}, nil},
		{[]uint64{1, 2}, []*labels.Matcher{labels.Equal("__name__", "up")}},
		{[]uint64{3, 4}, []*labels.Matcher{labels.Equal("job", "")}},
		{[]uint64{1, 2}, []*labels.Matcher{labels.NotEqual("job", "")}},
		{[]uint64{2, 3, 4}, []*labels.Matcher{labels.NotEqual("job", "api")}},
		{[]uint64{2}, []*labels.Matcher{labels.NotEqual("job", "api"), labels.NotEqual("job", "")}},
		{[]uint64{1, 2, 3, 4}, []*labels.Matcher{regexp(t, "job", ".*")}},
		{[]uint64{1, 2}, []*labels.Matcher{regexp(t, "job", ".+")}},
		{[]uint64{1, 3, 4}, []*labels.Matcher{regexp(t, "job", "api|")}},
		{[]uint64{2}, []*labels.Matcher{regexp(t, "job", "d.*")}},
		{[]uint64{1, 2}, []*labels.Matcher{regexp(t, "job", "api|db|x")}},
		{[]uint64{1, 3, 4}, []*labels.Matcher{notRegexp(t, "job", "d.*")}},
		{[]uint64{3, 4}, []*labels.Matcher{notRegexp(t, "job", "api|db")}},
		{[]uint64{2}, []*labels.Matcher{notRegexp(t, "job", "api|"), labels.Equal("zone", "a")}},
		{[]uint64{3}, []*labels.Matcher{labels.Equal("job", ""), labels.NotEqual("zone", "")}},
		{[]uint64{1, 2, 3, 4}, []*labels.Matcher{labels.Equal("absent", "")}},
		{[]uint64{1, 2, 3, 4}, []*labels.Matcher{labels.NotEqual("absent", "x")}},
		{nil, []*labels.Matcher{labels.Equal("absent", "x")}},
		{nil, []*labels.Matcher{labels.NotEqual("absent", "")}},
		{nil, []*labels.Matcher{labels.Equal("job", "api"), labels.Equal("zone", "b")}},
	} {
		require.ElementsMatch(t, c.want, sel(t, m, c.ms...), "%v", c.ms)
	}
	require.Equal(t, []string{"__name__", "job", "zone"}, m.LabelNames(nil))
	require.Equal(t, []string{"api", "db"}, m.LabelValues("job", nil))
	require.Empty(t, m.LabelValues("absent", nil))
}

func TestMemPostings_HidesWhatKeepRefuses(t *testing.T) {
	m := index.NewMemPostings()
	add(m, 1, "a", "1", "b", "1")
	add(m, 2, "a", "2")
	add(m, 3, "a", "1")
	m.Intern("a", "3")
	visible := func(p index.Pair, refs index.Postings) bool {
		all, err := index.Expand(refs)
		require.NoError(t, err)
		require.Equal(t, m.Refs(p), all)
		return slices.Contains(all, 3)
	}
	require.Equal(t, []string{"1"}, m.LabelValues("a", visible))
	require.Equal(t, []string{"a"}, m.LabelNames(visible))
	require.Equal(t, []string{"1", "2"}, m.LabelValues("a", nil), "a pair without series is no value")
}

func TestMemPostings_InternKeepsNothingOfTheCaller(t *testing.T) {
	m := index.NewMemPostings()
	b := []byte("job-value")
	p := m.Intern(string(b[:3]), string(b[4:]))
	require.Equal(t, p, m.Intern("job", "value"))
	for _, n := range []int{0, 1, 127, 128, 129, 2047, 2048, 2049, 1 << 14, 1 << 20} {
		value := strings.Repeat("x", n)
		q := m.Intern(value+"n", value)
		name, got := m.Label(q)
		require.Equal(t, value+"n", name)
		require.Equal(t, value, got)
		require.NotEqual(t, p, q)
	}
	name, value := m.Label(p)
	require.Equal(t, "job=value", name+"="+value)
	name, value = m.Label(0)
	require.Empty(t, name+value)
	_, ok := m.Lookup("job", "other")
	require.False(t, ok)
}

func TestMemPostings_SelectStopsWithItsContext(t *testing.T) {
	m := index.NewMemPostings()
	for i := range 5000 {
		add(m, uint64(i+1), "n", fmt.Sprint(i))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := m.Select(ctx)
	require.ErrorIs(t, err, context.Canceled)

	polled := &waytest.EndingContext{Context: context.Background(), Left: 3}
	_, err = m.Select(polled, regexp(t, "n", ".*[0-9].*x?"), regexp(t, "n", ".+5"))
	require.ErrorIs(t, err, context.Canceled)
}

func TestMemPostings_LongListsAreSelectedLikeShortOnes(t *testing.T) {
	m := index.NewMemPostings()
	rnd := rand.New(rand.NewSource(1))
	want := map[string][]uint64{}
	ref := uint64(0)
	for range 50_000 {
		ref += uint64(rnd.Intn(3)*rnd.Intn(200) + 1)
		var ls []string
		for name, mod := range map[string]int{"all": 1, "half": 2, "some": 50, "few": 5000} {
			if rnd.Intn(mod) == 0 {
				ls = append(ls, name, "x")
				want[name] = append(want[name], ref)
			}
		}
		add(m, ref, ls...)
	}
	names := slices.Sorted(maps.Keys(want))
	for _, a := range names {
		require.Equal(t, want[a], sel(t, m, labels.Equal(a, "x")))
		for _, b := range names {
			both := slices.DeleteFunc(slices.Clone(want[a]), func(r uint64) bool {
				_, found := slices.BinarySearch(want[b], r)
				return !found
			})
			require.Equal(t, both, append([]uint64{}, sel(t, m, labels.Equal(a, "x"), labels.Equal(b, "x"))...), a+b)
			without := slices.DeleteFunc(slices.Clone(want[a]), func(r uint64) bool {
				_, found := slices.BinarySearch(want[b], r)
				return found
			})
			require.Equal(t, without, append([]uint64{}, sel(t, m, labels.Equal(a, "x"), labels.NotEqual(b, "x"))...), a+b)
		}
	}
}

func TestMemPostings_RefsFarApartAreSelectedToo(t *testing.T) {
	m := index.NewMemPostings()
	var even, odd []uint64
	for i := range uint64(200) {
		ref := i*(index.MaxRef/200) + 1
		add(m, ref, "i", fmt.Sprint(i), "parity", fmt.Sprint(i%2))
		if i%2 == 0 {
			even = append(even, ref)
		} else {
			odd = append(odd, ref)
		}
	}
	require.Equal(t, even, sel(t, m, regexp(t, "i", ".*[02468]")))
	require.Equal(t, odd, sel(t, m, regexp(t, "i", ".+"), notRegexp(t, "i", ".*[02468]")))
	require.Equal(t, odd, sel(t, m, labels.Equal("parity", "1"), regexp(t, "i", "[0-9]+")))
	require.Panics(t, func() { add(m, index.MaxRef+1) })
	require.Panics(t, func() { add(m, 0) })
}

func TestMemPostings_AddAllEqualsAdd(t *testing.T) {
	one, all := index.NewMemPostings(), index.NewMemPostings()
	series := map[uint64][]index.Pair{}
	var refs []uint64
	for _, m := range []*index.MemPostings{one, all} {
		add(m, 1, "job", "a")
		add(m, 2, "job", "a", "i", "2")
	}
	for i := range uint64(3000) {
		ref := i*3 + 5
		ls := labels.FromStrings("job", "a", "i", fmt.Sprint(i%700), "b", fmt.Sprint(i%3))
		one.Add(ref, intern(one, ls))
		series[ref] = intern(all, ls)
		refs = append(refs, ref)
	}
	all.AddAll(func(yield func(uint64, []index.Pair) bool) {
		for _, ref := range refs {
			if !yield(ref, series[ref]) {
				return
			}
		}
	})
	require.Equal(t, sel(t, one), sel(t, all))
	for _, name := range one.LabelNames(nil) {
		require.Equal(t, one.LabelValues(name, nil), all.LabelValues(name, nil))
		for _, value := range one.LabelValues(name, nil) {
			eq := labels.Equal(name, value)
			require.Equal(t, sel(t, one, eq), sel(t, all, eq))
		}
	}
	require.LessOrEqual(t, all.SizeBytes(), one.SizeBytes())
}

// The model is a map of label sets.
func TestMemPostings_EqualAMapOfLabelSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := index.NewMemPostings()
		model := map[uint64]labels.Labels{}
		pairs := map[uint64][]index.Pair{}
		next := uint64(1)
		label := rapid.Custom(func(t *rapid.T) labels.Label {
			return labels.Label{
				Name:  rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name"),
				Value: rapid.StringMatching(`[xy]{0,3}`).Draw(t, "value"),
			}
		})
		var releases []func()
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				set := map[string]string{}
				for _, l := range rapid.SliceOfN(label, 0, 4).Draw(t, "labels") {
					set[l.Name] = l.Value
				}
				ref := next + rapid.Uint64Range(0, 300).Draw(t, "gap")
				if rapid.IntRange(0, 9).Draw(t, "order") == 0 {
					ref = rapid.Uint64Range(1, next).Draw(t, "old ref")
				}
				if _, ok := model[ref]; ok {
					return
				}
				next = max(next, ref+1)
				ls := labels.FromMap(set)
				model[ref], pairs[ref] = ls, intern(m, ls)
				m.Add(ref, pairs[ref])
			},
			"remove": func(t *rapid.T) {
				odds := rapid.Uint64Range(1, 4).Draw(t, "odds")
				dead := func(ref uint64) bool { return ref%odds == 0 }
				var gone []index.Pair
				for ref := range model {
					if dead(ref) {
						gone = append(gone, pairs[ref]...)
						delete(model, ref)
						delete(pairs, ref)
					}
				}
				m.Remove(dead, gone...)
			},
			"pin":     func(*rapid.T) { releases = append(releases, m.Pin()) },
			"release": func(*rapid.T) { releases = releaseFirst(releases) },
			"select": func(t *rapid.T) {
				var ms []*labels.Matcher
				for range rapid.IntRange(0, 3).Draw(t, "matchers") {
					ms = append(ms, drawMatcher(t))
				}
				require.Equal(t, modelSelect(model, ms), append([]uint64{}, sel(t, m, ms...)...))
			},
			"": func(t *rapid.T) { requireModel(t, model, pairs, m) },
		})
	})
}

func releaseFirst(releases []func()) []func() {
	if len(releases) == 0 {
		return nil
	}
	releases[0]()
	return releases[1:]
}

func drawMatcher(t *rapid.T) *labels.Matcher {
	typ := rapid.SampledFrom([]labels.MatchType{
		labels.MatchEqual, labels.MatchNotEqual, labels.MatchRegexp, labels.MatchNotRegexp,
	}).Draw(t, "type")
	value := rapid.SampledFrom([]string{"", "x", "xy", "y", "yyx"}).Draw(t, "value")
	if typ >= labels.MatchRegexp {
		value = rapid.SampledFrom([]string{"", "x.*", ".*y", "x|y|xx", "x|", ".+", ".*", "xy?x*"}).Draw(t, "expr")
	}
	m, err := labels.NewMatcher(typ, rapid.SampledFrom([]string{"a", "b", "d"}).Draw(t, "name"), value)
	require.NoError(t, err)
	return m
}

func modelSelect(model map[uint64]labels.Labels, ms []*labels.Matcher) []uint64 {
	refs := []uint64{}
	for ref, ls := range model {
		if !slices.ContainsFunc(ms, func(m *labels.Matcher) bool { return !m.Matches(ls.Get(m.Name())) }) {
			refs = append(refs, ref)
		}
	}
	slices.Sort(refs)
	return refs
}

func requireModel(t *rapid.T, model map[uint64]labels.Labels, pairs map[uint64][]index.Pair, m *index.MemPostings) {
	values := map[string]map[string]bool{}
	for ref, ls := range model {
		i := 0
		for l := range ls.All() {
			name, value := m.Label(pairs[ref][i])
			require.Equal(t, l, labels.Label{Name: name, Value: value})
			if values[name] == nil {
				values[name] = map[string]bool{}
			}
			values[name][value] = true
			i++
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(values)), m.LabelNames(nil))
	for name := range values {
		require.Equal(t, slices.Sorted(maps.Keys(values[name])), m.LabelValues(name, nil))
	}
}

func TestMemPostings_AppendLabels_IsWhatLabelsEncode(t *testing.T) {
	m := index.NewMemPostings()
	long := strings.Repeat("x", 300)
	for _, ls := range []labels.Labels{
		{},
		labels.FromStrings("a", "b"),
		labels.FromStrings("__name__", "up", "job", "api", "long", long, long, "short"),
	} {
		encoded := m.AppendLabels(nil, intern(m, ls))
		require.Equal(t, ls.AppendEncoded(nil), encoded)
		again, err := labels.FromEncoded(encoded)
		require.NoError(t, err)
		require.Equal(t, ls, again)
	}
}

func TestSelect_AllocatesNothingForAFewSeries(t *testing.T) {
	if invariants.Enabled {
		t.Skip("with the race detector pools forget what they were given")
	}
	m := index.NewMemPostings()
	for ref := range uint64(100) {
		add(m, ref+1, "job", "a", "n", fmt.Sprint(ref))
	}
	one := []*labels.Matcher{labels.Equal("n", "7")}
	found := 0
	count := func(refs []uint64) error { found += len(refs); return nil }
	require.Zero(t, testing.AllocsPerRun(100, func() { _ = m.Selected(context.Background(), count, one...) }))
	require.Equal(t, 101, found)
}
