package tsdb_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

func dumpChunks(t *testing.T, q *tsdb.Querier) map[string][]point {
	all := map[string][]point{}
	var it *tsdb.ChunkIterator
	for s, err := range q.SelectChunks(ctx, &tsdb.SelectHints{Transient: true}).All() {
		require.NoError(t, err)
		it = s.Chunks(it)
		for it.Next() {
			samples := it.At().Chunk.Iterator(nil)
			for samples.Next() != chunkenc.ValNone {
				ts, v := samples.At()
				all[s.Labels().String()] = append(all[s.Labels().String()], point{ts, math.Float64bits(v)})
			}
		}
		require.NoError(t, it.Err())
	}
	return all
}

// Blocks have numbers of their own for the same labels, and series come and go: what is
// read is what was written, in order, whether series are held or not.
func TestMerge_BlocksAndHeadWithOtherSymbolsEach(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.Blocks.Manual = true })
	const hour = 3_600_000
	start := testNow.UnixMilli() - 8*hour
	start -= start % (2 * hour)
	want := map[string][]point{}
	for place := range int64(4) { // three blocks and the head
		var rows []sample
		for i := range int64(60) {
			if (i+place)%5 == 0 {
				continue
			}
			name := fmt.Sprintf(`{__name__="m%d",host="h%d",only="%d"}`, i%3, i/3, place*(i%7/6))
			at := start + 2*hour*place + 1
			rows = append(rows, sample{name, at, float64(i)}, sample{name, at + hour, float64(place)})
		}
		f.commit(rows...)
		for _, r := range rows {
			key := series(t, r.series).String()
			want[key] = append(want[key], point{r.t, math.Float64bits(r.v)})
		}
		if place < 3 {
			require.NoError(t, f.db.Flush(ctx))
		}
	}
	require.Len(t, f.db.Blocks(), 3)
	q, err := f.db.Querier(start, start+8*hour)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()

	var held []*tsdb.Series
	for s, err := range q.Select(ctx, nil).All() {
		require.NoError(t, err)
		held = append(held, s)
	}
	got, one := map[string][]point{}, map[string][]point{}
	for i, s := range held {
		if i > 0 {
			require.Negative(t, labels.Compare(held[i-1].Labels(), s.Labels()))
		}
		got[s.Labels().String()] = readPoints(t, s)
	}
	for s, err := range q.Select(ctx, &tsdb.SelectHints{Transient: true}).All() {
		require.NoError(t, err)
		one[labels.New(s.AppendLabels(nil)...).String()] = readPoints(t, s)
	}
	require.Equal(t, want, got)
	require.Equal(t, want, one)
	require.Equal(t, want, dumpChunks(t, q))
}

func readPoints(t *testing.T, s *tsdb.Series) (ps []point) {
	it := s.Iterator(nil)
	for it.Next() != chunkenc.ValNone {
		ts, v := it.At()
		ps = append(ps, point{ts, math.Float64bits(v)})
	}
	require.NoError(t, it.Err())
	return ps
}
