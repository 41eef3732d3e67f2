package tsdb_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/waytest"
	"github.com/seed347100a3/tsdb/labels"
)

// Others who want to read do not wait for the end of a long query beside maintenance.
func TestQuery_LetsOthersRunBesideMaintenance(t *testing.T) {
	f := newFixture(t, manual)
	base := testNow.UnixMilli()
	for i := range 640 {
		f.commit(sample{fmt.Sprintf(`{few="%03d"}`, i), base, 1})
	}
	const chunks = 640
	for from := range int64(chunks) {
		var rows []sample
		for k := range int64(120) {
			rows = append(rows, sample{`{many="samples"}`, base + 120*from + k, float64(k)})
		}
		f.commit(rows...)
	}
	q, err := f.db.Querier(base, base+120*chunks)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()

	n, ways := 0, 0
	count := func() {
		if n++; n%64 == 0 {
			foreground.MakeWay() // once, as a query is under way; the rest is the query's
			ways++
		}
	}
	for what, read := range map[string]func(){
		"series": func() {
			set := q.Select(ctx, nil, labels.Equal("many", ""))
			for set.Next() {
				count()
			}
			require.NoError(t, set.Err())
		},
		"series of chunks": func() {
			set := q.SelectChunks(ctx, nil, labels.Equal("many", ""))
			for set.Next() {
				count()
			}
			require.NoError(t, set.Err())
		},
		"samples": func() {
			set := q.Select(ctx, nil, labels.Equal("many", "samples"))
			require.True(t, set.Next())
			b := chunkenc.NewBatch(120)
			for it := set.At().Iterator(nil); it.NextBatch(b) != chunkenc.ValNone; {
				count()
			}
		},
		"samples of series that are there": func() {
			var all []*tsdb.Series
			for s, err := range q.Select(ctx, nil, labels.Equal("many", "")).All() {
				require.NoError(t, err)
				all = append(all, s)
			}
			var it chunkenc.Iterator
			for _, s := range all {
				it = s.Iterator(it)
				require.Equal(t, chunkenc.ValFloat, it.Next())
				require.Equal(t, chunkenc.ValNone, it.Next())
				count()
			}
		},
		"chunks": func() {
			set := q.SelectChunks(ctx, nil, labels.Equal("many", "samples"))
			require.True(t, set.Next())
			var it *tsdb.ChunkIterator
			for it = set.At().Chunks(nil); it.Next(); {
				count()
			}
			require.NoError(t, it.Err())
		},
	} {
		// After a pause that takes long, as the system has others to run, the next one comes later.
		turns := 0
		for range 100 {
			n, ways = 0, 0
			turns = waytest.Count(read, runtime.Gosched)
			require.Equal(t, 640, n, what)
			if turns >= ways+ways/2 {
				break
			}
		}
		require.GreaterOrEqual(t, turns, ways+ways/2, what)
	}
}
