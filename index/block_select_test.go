package index_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/labels"
)

// blockOf writes an index of label sets, which it sorts and of which it drops
// repetitions. It returns the set of each id.
func blockOf(t testing.TB, sets []labels.Labels) (*index.Reader, map[uint64]labels.Labels) {
	seen := make(map[labels.Labels]bool)
	var distinct []labels.Labels
	for _, set := range sets {
		if !seen[set] {
			seen[set] = true
			distinct = append(distinct, set)
		}
	}
	c := newContent(distinct)
	fsys := newSparseFS(nil)
	w := newWriter(t, fsys, c.symbols...)
	byID := make(map[uint64]labels.Labels)
	for n, ls := range c.series {
		id, err := w.AddSeries(ls, contentChunks(n))
		require.NoError(t, err)
		byID[uint64(id)] = distinct[n]
	}
	return finish(t, fsys, w), byID
}

func matches(set labels.Labels, ms []*labels.Matcher) bool {
	for _, m := range ms {
		if !m.Matches(set.Get(m.Name())) {
			return false
		}
	}
	return true
}

// What a selection finds is what looking at each series finds.
func TestReader_SelectsWhatMatches(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		names := []string{"a", "b", "job", "value"}
		text := rapid.StringMatching(`[a-c]{1,3}|job|x{120,140}`)
		sets := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) labels.Labels {
			var ls []labels.Label
			for _, name := range names {
				if rapid.Bool().Draw(rt, "has "+name) {
					ls = append(ls, labels.Label{Name: name, Value: text.Draw(rt, name)})
				}
			}
			return labels.New(ls...)
		}), 0, 200).Draw(rt, "sets")
		r, byID := blockOf(t, sets)
		for range 10 {
			ms := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) *labels.Matcher {
				typ := labels.MatchType(rapid.IntRange(0, 3).Draw(rt, "type"))
				value := rapid.OneOf(text, rapid.SampledFrom([]string{"", ".*", ".+", "a.*", ".*b", "a|bc|c", "a?", "[ab]+", "x.*"})).Draw(rt, "right side")
				m, err := labels.NewMatcher(typ, rapid.SampledFrom(append(names, "none")).Draw(rt, "name"), value)
				require.NoError(rt, err)
				return m
			}), 0, 4).Draw(rt, "matchers")
			ids, err := r.Select(context.Background(), ms...)
			require.NoError(rt, err)
			found := make(map[uint64]bool)
			for i, id := range ids {
				require.True(rt, i == 0 || ids[i-1] < id)
				found[id] = true
			}
			for id, set := range byID {
				require.Equal(rt, matches(set, ms), found[id], "%s by %v", set, ms)
			}
			requireSameIDs(rt, r, ids, ms)
		}
	})
}

// Thousands of values: entries between those whose place is in memory, values of
// several batches, bitmaps and sorted unions.
func TestReader_SelectsAmongManyValues(t *testing.T) {
	ctx := context.Background()
	var sets []labels.Labels
	for i := range 5000 {
		sets = append(sets, labels.FromStrings("id", fmt.Sprintf("user-%05d", i), "even", fmt.Sprint(i%2 == 0), "name", fmt.Sprintf("n%d", i%7)))
	}
	r, byID := blockOf(t, sets)
	for _, selector := range []string{
		`{id=~"user-0[01].*"}`, `{id=~".*7"}`, `{id=~".*7", even="true"}`, `{id!~".*7", even="false"}`,
		`{id=~"user-00001|user-04999|user-99999|aaa|zzz"}`, `{even!=""}`, `{even=~"t.*", name!="n3"}`, `{id="user-02048", name="n4"}`,
		`{id=~"user-.*", name=~"n[1-4]"}`, `{id=""}`, `{none=""}`, `{none!=""}`,
	} {
		ms, err := labels.ParseSelector(selector)
		require.NoError(t, err)
		ids, err := r.Select(ctx, ms...)
		require.NoError(t, err)
		n := 0
		for _, set := range byID {
			if matches(set, ms) {
				n++
			}
		}
		require.Len(t, ids, n, selector)
		for _, id := range ids {
			require.True(t, matches(byID[id], ms), selector)
		}
		requireSameIDs(t, r, ids, ms)
	}
	values, err := r.LabelValues(ctx, "id")
	require.NoError(t, err)
	require.Len(t, values, 5000)
	require.Equal(t, "user-04999", values[4999])
	values, err = r.LabelValues(ctx, "none")
	require.NoError(t, err)
	require.Empty(t, values)
}

func TestReader_AllSeriesSeeksForward(t *testing.T) {
	r, byID := blockOf(t, func() (sets []labels.Labels) {
		for i := range 1000 {
			sets = append(sets, labels.FromStrings("i", fmt.Sprintf("%04d", i)))
		}
		return sets
	}())
	ids, err := r.Select(context.Background())
	require.NoError(t, err)
	require.Len(t, ids, len(byID))
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		got, want := r.AllSeries(), index.NewPostings(ids)
		target := uint64(0)
		for {
			target += rnd.Uint64N(500)
			more := want.Seek(target)
			require.Equal(t, more, got.Seek(target))
			if !more {
				break
			}
			require.Equal(t, want.At(), got.At())
			if rnd.IntN(2) == 0 {
				more = want.Next()
				require.Equal(t, more, got.Next())
				if !more {
					break
				}
				require.Equal(t, want.At(), got.At())
			}
		}
		require.NoError(t, got.Err())
	}
}

func TestReader_StopsWhenTheContextDoes(t *testing.T) {
	r := openFleet(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	re, err := labels.Regexp("pod", ".*7")
	require.NoError(t, err)
	_, err = r.Select(ctx, re)
	require.ErrorIs(t, err, context.Canceled)
	_, err = r.Select(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = r.LabelValues(ctx, "pod")
	require.ErrorIs(t, err, context.Canceled)
	_, err = r.LabelNames(ctx)
	require.ErrorIs(t, err, context.Canceled)
	n := 0
	err = r.Verify(ctx, func(uint64, []index.SymbolPair, []index.ChunkMeta) error { n++; return nil })
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, n)
}

func TestReader_CanBeUsedByMany(t *testing.T) {
	r := openBlock(t, blockVectors(t)[1].raw)
	v := blockVectors(t)[1]
	want := ask(t, openBlock(t, v.raw), v)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if got := ask(t, r, v); len(got) != len(want) {
				t.Error("answers differ")
			}
			if err := r.Verify(context.Background(), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// requireSameIDs checks that SelectIDs finds what Select found.
func requireSameIDs(t require.TestingT, r *index.Reader, want []uint64, ms []*labels.Matcher) {
	ids, err := r.SelectIDs(context.Background(), ms...)
	require.NoError(t, err)
	require.Equal(t, len(want), ids.Len(), "%v", ms)
	for _, id := range want {
		got, ok := ids.Next()
		require.True(t, ok)
		require.Equal(t, id, got, "%v", ms)
	}
	_, ok := ids.Next()
	require.False(t, ok)
	require.Zero(t, ids.Len())
}

func TestReader_SelectIDsOfAnotherBuilder(t *testing.T) {
	for _, v := range blockVectors(t) {
		r := openBlock(t, v.raw)
		for _, ms := range [][]*labels.Matcher{nil, {labels.NotEqual("__name__", "")}, {labels.Equal("no", "such")}} {
			want, err := r.Select(context.Background(), ms...)
			require.NoError(t, err)
			requireSameIDs(t, r, want, ms)
		}
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := openBlock(t, blockVectors(t)[1].raw).SelectIDs(ended)
	require.ErrorIs(t, err, context.Canceled)
}

// What stands in one list or one bitmap is packed from there: eight bytes for each series are
// never allocated.
func TestReader_SelectIDsTakesLittleMemory(t *testing.T) {
	const n = 20_000
	var sets []labels.Labels
	for i := range n {
		sets = append(sets, labels.FromStrings("all", "same", "id", fmt.Sprintf("user-%05d", i)))
	}
	r, _ := blockOf(t, sets)
	for selector, most := range map[string]uint64{
		`{}`:              4 * n,
		`{all="same"}`:    4 * n,
		`{id=~"user-.*"}`: 24 * n, // each value's list is found at its own place, and they are joined
	} {
		ms, err := labels.ParseSelector(selector)
		require.NoError(t, err)
		least := uint64(math.MaxUint64)
		for range 5 {
			var ids index.IDs
			least = min(least, allocatedBy(func() { ids, err = r.SelectIDs(context.Background(), ms...) }))
			require.NoError(t, err)
			require.Equal(t, n, ids.Len())
		}
		t.Logf("%s: %d bytes", selector, least)
		require.Less(t, least, most, selector)
	}
}

func TestReader_ReadingASeriesAllocatesNothing(t *testing.T) {
	r := openBlock(t, blockVectors(t)[1].raw)
	ids, err := r.Select(context.Background())
	require.NoError(t, err)
	ls, cs, err := r.Series(ids[0], nil, nil)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		ls, cs, err = r.Series(ids[len(ids)-1], ls[:0], cs[:0])
	}))
	require.NoError(t, err)
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { _, err = r.Symbol(ls[0].Value) }), 1.0, "the string")
	require.NoError(t, err)
	text := make([]byte, 0, 64)
	require.Zero(t, testing.AllocsPerRun(100, func() { text, err = r.AppendSymbol(text[:0], ls[0].Value) }))
	symbol, err := r.Symbol(ls[0].Value)
	require.NoError(t, err)
	require.Equal(t, symbol, string(text))
	require.NoError(t, err)
}

// Verify finds what checksums cannot: an index that says something else than it should,
// with all checksums right.
func TestReader_VerifyComparesListsWithSeries(t *testing.T) {
	v := blockVectors(t)[0]
	toc := v.raw[len(v.raw)-52:]
	from, to := be64(toc[32:]), be64(toc[40:])
	for i := from; i < to; i++ {
		data := append([]byte(nil), v.raw...)
		data[i]++
		r, err := index.OpenReader(newSparseFS(fixChecksums(data)), "index")
		if err == nil {
			err = r.Verify(context.Background(), nil)
		}
		if err != nil {
			requireDamage(t, err)
		}
		require.Equal(t, isListChecksum(v, i), err == nil, "offset %d", i)
	}
}

// isListChecksum tells whether a byte belongs to the checksum of a list, which
// fixChecksums mends.
func isListChecksum(v blockVector, off uint64) bool {
	at := be64(v.raw[len(v.raw)-52+32:])
	for _, l := range v.Postings {
		at = (at + 3) / 4 * 4
		end := at + 8 + 4*uint64(len(l.SeriesIDs))
		if off >= end && off < end+4 {
			return true
		}
		at = end + 4
	}
	return false
}

func be64(b []byte) (v uint64) {
	for _, c := range b[:8] {
		v = v<<8 | uint64(c)
	}
	return v
}
