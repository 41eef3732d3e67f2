package compat

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// Blocks that a BlockWriter makes of samples of all kinds are read and merged by both, whatever the
// order of the samples.
func TestBlockWriter_SamplesOfAllKindsAreReadByBoth(t *testing.T) {
	for i := range scaled(8) {
		starts, ordered, from := i%2 > 0, i%4 > 1, seed(t, 9600+uint64(i))
		t.Run(fmt.Sprintf("%d, start timestamps %v, in order %v", i, starts, ordered), func(t *testing.T) {
			t.Parallel()
			g := newAnyGenerator(from, starts)
			var rows []anyRow
			for range 60 {
				rows = append(rows, g.commit()...)
			}
			if !ordered { // a stale marker has the kind of what was appended before it
				rows = slices.DeleteFunc(rows, func(r anyRow) bool {
					return math.Float64bits(r.V) == staleMarker || r.H != nil && r.H.Stale() || r.FH != nil && r.FH.Stale()
				})
			}
			want, dir := anyData{}, t.TempDir()
			want.add(g.set, rows)
			if !ordered {
				g.r.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
			}
			w, err := tsdb.NewBlockWriter(dir, &tsdb.BlockWriterOptions{MemoryBytes: 1 << 20})
			require.NoError(t, err)
			for _, r := range rows {
				_, err := w.AppendSample(0, g.set[r.series].ours, r.Sample)
				require.NoError(t, err)
			}
			_, err = w.Flush(context.Background())
			require.NoError(t, err)
			require.NoError(t, w.Close())
			for _, reader := range anyWriters(starts) {
				e := reader.open(t, copyDir(t, dir))
				requireEqualAny(t, want.gauges(), e.dumpAny().gauges(), reader.name)
				e.compact()
				requireEqualAny(t, want.gauges(), e.dumpAny().gauges(), reader.name+", merged")
				e.close()
			}
		})
	}
}
