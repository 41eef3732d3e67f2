package tsdb_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/sweep"
)

// backfill imports samples of the series {i="<first>"} to {i="<last>"}, one every ten
// minutes of [from, to), with the values that scrapes gives them, and adds them to what
// is expected.
func (f *fixture) backfill(want map[string][]point, first, last int, from, to int64) []tsdb.BlockMeta {
	f.t.Helper()
	w, err := tsdb.NewBlockWriter(fixtureDir, &tsdb.BlockWriterOptions{FS: f.opts.FS, Clock: f.opts.Clock})
	require.NoError(f.t, err)
	for i := first; i <= last; i++ {
		ls := series(f.t, fmt.Sprintf(`{i="%d"}`, i))
		known := map[int64]point{}
		for _, p := range want[ls.String()] {
			known[p.T] = p
		}
		for ts := from; ts < to; ts += 10 * minute {
			v := float64(ts) + float64(i)
			require.NoError(f.t, w.Append(ls, ts, v))
			known[ts] = points(float64(ts), v)[0]
		}
		if len(known) > 0 {
			want[ls.String()] = slices.SortedFunc(maps.Values(known), func(a, b point) int { return int(a.T - b.T) })
		}
	}
	metas, err := w.Flush(ctx)
	require.NoError(f.t, err)
	require.NoError(f.t, w.Close())
	return metas
}

// What is imported into the directory of an open database is there after Compact, and
// nothing else changes, whatever part of the head it covers and whatever happens after.
func TestBlockWriter_IntoAnOpenDatabase_LosesNothingOfTheHead(t *testing.T) {
	seeds := uint64(12)
	if !sweep.Whole() {
		seeds = 3
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			f := newFixture(t, func(o *tsdb.Options) {
				manual(o)
				o.Blocks.MaxRange = 18 * time.Hour
			})
			at := testNow.UnixMilli() - 60*hour + rng.Int64N(hour)/minute*minute
			start := at
			for range 40 {
				var text string
				want := f.all()
				switch rng.IntN(6) {
				case 0, 1, 2:
					to := at + rng.Int64N(3*60)*minute
					text = fmt.Sprintf("scrapes to %+d min", (to-start)/minute)
					f.scrapes(3, at, to)
					at = max(at, to)
					want = f.all()
				case 3:
					text = "flush"
					require.NoError(t, f.db.Flush(ctx))
				case 4:
					text = "reopen"
					f.reopen()
				case 5:
					from := at - rng.Int64N(10*60)*minute
					to := from + rng.Int64N(11*60)*minute
					text = fmt.Sprintf("import from %+d to %+d min", (from-start)/minute, (to-start)/minute)
					f.backfill(want, 2, 5, from, to)
					if rng.IntN(4) == 0 {
						f.reopen()
					}
				}
				require.NoError(t, f.db.Compact(ctx))
				require.Equal(t, want, f.all(), text)
			}
			want := f.all()
			f.reopen()
			require.Equal(t, want, f.all())
		})
	}
}

// A database that is opened meanwhile leaves the writer's directory alone, and takes what
// a dead one has left away.
func TestOpen_LeavesABlockWriterAtWorkAlone(t *testing.T) {
	f := newFixture(t, manual)
	w, err := tsdb.NewBlockWriter(fixtureDir, &tsdb.BlockWriterOptions{FS: f.opts.FS, Clock: f.opts.Clock})
	require.NoError(t, err)
	require.NoError(t, w.Append(series(t, `{a="b"}`), 1000, 1))
	dead := filepath.Join(fixtureDir, "tmp-backfill-01ARZ3NDEKTSV4RRFFQ69G5FAV")
	require.NoError(t, f.opts.FS.MkdirAll(dead))
	f.reopen()
	_, err = f.opts.FS.Stat(dead)
	require.Error(t, err)
	metas, err := w.Flush(ctx)
	require.NoError(t, err)
	require.Len(t, metas, 1)
	require.NoError(t, w.Close())
	require.NoError(t, f.db.Compact(ctx))
	require.Equal(t, map[string][]point{`{a="b"}`: points(1000, 1)}, f.all())
}
