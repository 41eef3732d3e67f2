package tsdb_test

import (
	"math"
	"strings"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// What a block had must not come back from the log, or from another block, when it goes:
// neither what was deleted nor what was too old.

// oneBlock has a block of two series at base and a head behind it.
func oneBlock(t *testing.T, change func(*tsdb.Options)) (f *fixture, base int64) {
	f = newFixture(t, func(o *tsdb.Options) {
		manual(o)
		if change != nil {
			change(o)
		}
	})
	base = (testNow.UnixMilli() - 20*hour) / (2 * hour) * (2 * hour)
	f.commit(sample{`{a="x"}`, base, 1}, sample{`{a="y"}`, base, 2})
	f.commit(sample{`{a="x"}`, base + 4*hour, 3})
	return f, base
}

// Deletes of all that a block has, or that a flush would have made one of, hold when there
// is no such block any more.
func TestDelete_OfAWholeBlockHoldsWhenTheBlockGoes(t *testing.T) {
	for name, flushedBefore := range map[string]bool{"of a block": true, "of what a flush would write": false} {
		t.Run(name, func(t *testing.T) {
			f, base := oneBlock(t, nil)
			if flushedBefore {
				require.NoError(t, f.db.Compact(ctx))
				require.Len(t, f.db.Blocks(), 1)
			}
			require.NoError(t, f.db.Delete(ctx, math.MinInt64, base+hour))
			require.NoError(t, f.db.CleanTombstones(ctx))
			require.NoError(t, f.db.Compact(ctx))
			require.Empty(t, f.db.Blocks())
			want := map[string][]point{`{a="x"}`: points(float64(base+4*hour), 3)}
			for range 3 {
				require.Equal(t, want, f.all())
				f.reopen()
			}
		})
	}
}

// A block that cannot go, because the log cannot be shortened before, rests: Compact tells
// of it and ends.
func TestCompact_ABlockThatCannotGoIsNotTriedForEver(t *testing.T) {
	f, base := oneBlock(t, nil)
	foreignBlock(t, f, base+3*hour) // or the block would be the newest, which is left alone
	require.NoError(t, f.db.Compact(ctx))
	require.NoError(t, f.db.Delete(ctx, math.MinInt64, base+hour))
	failed := errors.New("no checkpoint today")
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind.Mutates() && strings.Contains(op.Name, "tmp-checkpoint") {
			return failed
		}
		return nil
	})
	require.ErrorIs(t, f.db.Compact(ctx), failed)
	f.fs.SetHook(nil)
	require.NoError(t, f.db.Compact(ctx))
	require.Len(t, f.db.Blocks(), 1)
}

// What blocks have is forgotten before 1970 as well.
func TestFlush_OfNegativeTimesEmptiesTheHead(t *testing.T) {
	f := newFixture(t, manual)
	f.scrapes(2, -20*hour, -10*hour)
	want := f.all()
	require.NoError(t, f.db.Flush(ctx))
	require.Equal(t, want, f.all())
	f.commit(sample{`{i="new"}`, -hour, 1})
	require.NoError(t, f.db.Flush(ctx))
	require.Equal(t, 1, f.db.Stats().Series, "series without samples are gone")
}

func TestRetention_WhatIsTooOldStaysAway(t *testing.T) {
	f, base := oneBlock(t, func(o *tsdb.Options) { o.Blocks.RetentionBytes = 1 })
	require.NoError(t, f.db.Compact(ctx))
	require.Empty(t, f.db.Blocks(), "the head alone is larger than the limit")
	want := map[string][]point{`{a="x"}`: points(float64(base+4*hour), 3)}
	for range 3 {
		require.Equal(t, want, f.all())
		f.reopen()
	}
}

// A block that a reader holds while its successor is rewritten again is in nobody's list
// of parents any more. The next start knows it by its sources.
func TestCompact_ABlockThatAReaderHoldsDoesNotComeBack(t *testing.T) {
	f, base := oneBlock(t, nil)
	require.NoError(t, f.db.Flush(ctx))
	q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	held := dumpQuerier(t, q)
	for _, a := range []string{"y", "x"} {
		require.NoError(t, f.db.Delete(ctx, base, base, labels.Equal("a", a)))
		require.NoError(t, f.db.CleanTombstones(ctx))
	}
	want := map[string][]point{`{a="x"}`: points(float64(base+4*hour), 3)}
	require.Equal(t, want, f.all())
	f.reopen()
	require.Equal(t, want, f.all())
	require.Equal(t, held, dumpQuerier(t, q), "the reader goes on")
	require.NoError(t, q.Close())
}

// One sample from long ago makes neither many blocks nor a long loop.
func TestFlush_TimesThatAreFarApart(t *testing.T) {
	f := newFixture(t, manual)
	f.commit(sample{`{a="x"}`, -6795364578871345152, 1}, sample{`{a="y"}`, -5 * hour, 1})
	f.commit(sample{`{a="x"}`, testNow.UnixMilli(), 1})
	want := f.all()
	require.NoError(t, f.db.Compact(ctx))
	require.Len(t, f.db.Blocks(), 2)
	require.Equal(t, want, f.all())
	f.reopen()
	require.Equal(t, want, f.all())
}

// foreignBlock puts a block of another database into the directory of f.
func foreignBlock(t *testing.T, f *fixture, at int64) {
	w, err := tsdb.NewBlockWriter("other", &tsdb.BlockWriterOptions{FS: f.fs, Clock: f.clock})
	require.NoError(t, err)
	require.NoError(t, w.Append(series(t, `{a="foreign"}`), at, 1))
	ms, err := w.Flush(ctx)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	name := "/" + ms[0].ULID.String()
	require.NoError(t, f.fs.Rename("other"+name, fixtureDir+name))
}

// A block from somewhere else that reaches into the head says nothing about what the log
// is good for, now and at the next start.
func TestCompact_Bug43_AForeignBlockInTheTimeOfTheHeadCostsNothing(t *testing.T) {
	f, base := oneBlock(t, nil)
	foreignBlock(t, f, base+hour)
	require.NoError(t, f.fs.MkdirAll(fixtureDir+"/01HF7Q8ZK0000000000000TES9"))
	require.ErrorIs(t, f.db.Compact(ctx), tsdb.ErrCorrupt, "one that is no block is told")
	want := f.all()
	require.Len(t, want, 3, "and does not keep others out")
	require.NoError(t, f.fs.Remove(fixtureDir+"/01HF7Q8ZK0000000000000TES9"))
	for range 3 {
		f.reopen()
		require.Equal(t, want, f.all())
		require.NoError(t, f.db.Compact(ctx))
	}
	require.NoError(t, f.db.Flush(ctx))
	require.Equal(t, want, f.all())
}
