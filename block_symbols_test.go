package tsdb_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// Labels of transient series are made of those of the series before: they are the same as those of
// series that can be held, whatever labels follow each other, in one block and in several.
func TestSelect_LabelsOfTransientSeries(t *testing.T) {
	for seed := range uint64(fewer(20, 6)) {
		r := rand.New(rand.NewPCG(seed, 9))
		m := newMergeTest(t)
		for range 1 + r.IntN(3) {
			of := map[string]blockSeries{}
			for range []int{3, 40, 2000}[r.IntN(3)] {
				var b labels.Builder
				b.Set("id", fmt.Sprint(r.IntN(3000)))
				for _, name := range []string{"a", "ab", "b", "job", "zone"} {
					if r.IntN(3) > 0 {
						b.Set(name, fmt.Sprint(r.IntN(1+r.IntN(2000))))
					}
				}
				of[b.Labels().String()] = only(t, b.Labels().String(), ramp(0, 2, 1))
			}
			var all []blockSeries
			for _, s := range of {
				all = append(all, s)
			}
			m.block(0, 1000, all...)
		}
		db, err := tsdb.Open("data", &tsdb.Options{FS: m.fs, Clock: m.clock, Blocks: tsdb.BlockOptions{Manual: true}})
		require.NoError(t, err)
		q, err := db.Querier(math.MinInt64, math.MaxInt64)
		require.NoError(t, err)
		var want []string
		for s, err := range q.Select(ctx, nil).All() {
			require.NoError(t, err)
			want = append(want, s.Labels().String())
		}
		var got, chunked []string
		var room []labels.Label
		for s, err := range q.Select(ctx, &tsdb.SelectHints{Transient: true}).All() {
			require.NoError(t, err)
			room = s.AppendLabels(room[:0])
			got = append(got, labels.New(room...).String())
		}
		for s, err := range q.SelectChunks(ctx, &tsdb.SelectHints{Transient: true}).All() {
			require.NoError(t, err)
			if r.IntN(3) > 0 { // not all are asked for
				room = s.AppendLabels(room[:0])
				chunked = append(chunked, labels.New(room...).String())
			} else {
				chunked = append(chunked, s.Labels().String())
			}
		}
		require.Equal(t, want, got)
		require.Equal(t, want, chunked)
		require.NoError(t, q.Close())
		require.NoError(t, db.Close())
	}
}
