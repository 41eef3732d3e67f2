package tsdb_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
)

// A clock that is wrong by years, is set right, and what was written by it is deleted.

const year = 365 * 24 * time.Hour

// wrongClock is one way in which a directory was written by a clock that was ahead.
type wrongClock struct {
	maxFuture time.Duration
	off       time.Duration
	state     string // of what was written meanwhile
	imported  string // how a block of the future came, too
	delete    string // how all of it is deleted
}

func wrongClocks() (all []wrongClock) {
	for _, future := range []time.Duration{0, -1, 20 * year} {
		for _, off := range []time.Duration{26 * time.Hour, 10 * year} {
			for _, state := range []string{"unflushed", "compacted", "flushed", "reopened", "flushed and reopened", "killed"} {
				for _, imported := range []string{"none", "written", "written while closed", "copied", "copied while closed"} {
					for _, way := range []string{"at once", "by series", "whole series", "no more than that"} {
						all = append(all, wrongClock{future, off, state, imported, way})
					}
				}
			}
		}
	}
	return all
}

func TestDelete_OfAWrongClocksFuture_ThePresentIsTakenAgain(t *testing.T) {
	all := wrongClocks()
	for _, i := range sweep.Of(t, 1, 23).Below(len(all)) {
		w := all[i]
		t.Run(fmt.Sprintf("MaxFuture %s, %s, %s, %s, %s", w.maxFuture, w.off, w.state, w.imported, w.delete), func(t *testing.T) {
			t.Parallel()
			f := w.host(t)
			last := w.goWrong(f)
			w.deleteFuture(f, last)
			want := 8
			present := []string{"0", "1", "new", "another"}
			for range 3 {
				require.NoError(t, f.db.Health())
				require.NoError(t, f.tries(present...))
				require.Equal(t, want, f.count())
				require.NoError(t, f.db.Compact(ctx))
				f.reopen()
				require.Equal(t, want, f.count())
				f.clock.Advance(time.Second)
				want += len(present)
			}
			require.NoError(t, f.db.Flush(ctx))
			require.NoError(t, f.db.CleanTombstones(ctx))
			f.reopen()
			require.NoError(t, f.db.Health())
			require.Equal(t, want-len(present), f.count())
		})
	}
}

// host has two series of 20 days ago in a block, and of now in the head: four samples.
func (w *wrongClock) host(t *testing.T) *fixture {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Limits.MaxFuture = w.maxFuture
		o.Blocks.Retention = 30 * 24 * time.Hour
		o.WAL.Sync = tsdb.SyncCommit()
	})
	for _, at := range []int64{testNow.Add(-20 * 24 * time.Hour).UnixMilli(), testNow.UnixMilli() - 5000} {
		f.commit(sample{`{i="0"}`, at, 1}, sample{`{i="1"}`, at, 2})
		if at < testNow.Add(-time.Hour).UnixMilli() {
			require.NoError(t, f.db.Flush(ctx))
		}
	}
	return f
}

// goWrong sets the clock ahead, writes by it, and sets it right. It returns the time of the newest
// sample.
func (w *wrongClock) goWrong(f *fixture) (last int64) {
	f.clock.Set(testNow.Add(w.off))
	for i := range 10 {
		last = f.clock.Now().UnixMilli()
		f.commit(sample{`{i="0"}`, last, float64(i)}, sample{`{i="new"}`, last, float64(i)})
		f.clock.Advance(time.Hour)
	}
	switch w.state {
	case "compacted":
		require.NoError(f.t, f.db.Compact(ctx))
	case "flushed":
		require.NoError(f.t, f.db.Flush(ctx))
	case "reopened":
		f.reopen()
	case "flushed and reopened":
		require.NoError(f.t, f.db.Flush(ctx))
		f.reopen()
	case "killed":
		old := f.db
		f.fs = f.fs.KillClone()
		f.opts.FS = f.fs
		f.open()
		require.NoError(f.t, old.Close())
	}
	at := f.clock.Now().Add(24 * time.Hour)
	switch w.imported {
	case "written":
		importAt(f.t, f.opts, at.UnixMilli())
		require.NoError(f.t, f.db.Compact(ctx))
	case "copied":
		copyFutureBlock(f, at)
		require.NoError(f.t, f.db.Compact(ctx))
	case "written while closed":
		require.NoError(f.t, f.db.Close())
		importAt(f.t, f.opts, at.UnixMilli())
		f.open()
	case "copied while closed":
		require.NoError(f.t, f.db.Close())
		copyFutureBlock(f, at)
		f.open()
	default:
		at = time.UnixMilli(last)
	}
	f.clock.Set(testNow)
	return at.UnixMilli()
}

func (w *wrongClock) deleteFuture(f *fixture, last int64) {
	from, first, end := testNow.UnixMilli()+1, int64(math.MinInt64), int64(math.MaxInt64)
	del := func(mint, maxt int64, ms ...*labels.Matcher) {
		f.t.Helper()
		require.NoError(f.t, f.db.Delete(ctx, mint, maxt, ms...))
	}
	switch w.delete {
	case "at once":
		del(from, end)
	case "no more than that":
		del(testNow.Add(w.off).UnixMilli(), last)
	case "by series":
		for _, s := range []string{"0", "new", "imported"} {
			del(from, end, labels.Equal("i", s))
		}
	default:
		del(from, end, labels.Equal("i", "0"))
		for _, s := range []string{"imported", "new"} { // that were never right
			del(first, end, labels.Equal("i", s))
		}
	}
}

// copyFutureBlock puts a block of another database, whose clock was ahead, too, into the directory:
// it says of itself that its head ended there.
func copyFutureBlock(f *fixture, at time.Time) {
	t := f.t
	t.Helper()
	other := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Limits = f.opts.Limits
	})
	other.clock.Set(at)
	other.commit(sample{`{i="imported"}`, at.UnixMilli(), 1})
	require.NoError(t, other.db.Flush(ctx))
	id := other.db.Blocks()[0].ULID
	var copyDir func(dir string)
	copyDir = func(dir string) {
		entries, err := other.fs.ReadDir(dir)
		require.NoError(t, err)
		require.NoError(t, f.fs.MkdirAll(dir))
		for _, e := range entries {
			name := dir + "/" + e.Name()
			if e.IsDir() {
				copyDir(name)
				continue
			}
			b, err := other.fs.ReadFile(name)
			require.NoError(t, err)
			require.NoError(t, f.fs.WriteFile(name, b))
		}
	}
	copyDir(blockdir.Path(fixtureDir, id))
}

// tries appends at the present and says what is refused.
func (f *fixture) tries(series ...string) (refused error) {
	app := f.db.Appender()
	for _, s := range series {
		if _, err := app.Append(0, labels.FromStrings("i", s), f.clock.Now().UnixMilli(), 7); err != nil {
			refused = fmt.Errorf("series %s: %w", s, err)
		}
	}
	res, err := app.Commit(ctx)
	if err == nil && len(res.Rejected) > 0 {
		err = res.Rejected[0].Err
	}
	if refused == nil {
		refused = err
	}
	return refused
}

// A Querier has from the head what it would let go of: the present is taken when it is closed, also
// where the clock has no say.
func TestDelete_OfAWrongClocksFuture_ThatIsRead_ThePresentIsTakenBehindTheReader(t *testing.T) {
	for _, by := range []string{"waiting", "Flush", "Compact"} {
		t.Run(by, func(t *testing.T) {
			w := wrongClock{maxFuture: -1, off: 10 * year}
			f := w.host(t)
			if by == "waiting" {
				f.opts.Blocks.Manual = false
				f.reopen()
			}
			last := w.goWrong(f)
			q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
			require.NoError(t, err)
			w.delete = "at once"
			w.deleteFuture(f, last)
			require.ErrorIs(t, f.tries("0"), tsdb.ErrOutOfBounds)
			require.NoError(t, q.Close())
			switch by {
			case "waiting":
				f.clock.Advance(90 * time.Second)
			case "Flush":
				require.NoError(t, f.db.Flush(ctx))
			default:
				require.NoError(t, f.db.Compact(ctx))
			}
			require.NoError(t, f.tries("0", "new"))
			require.Equal(t, 6, f.count())
			f.reopen()
			require.Equal(t, 6, f.count())
		})
	}
}

// Forecasts are no mistake: to delete one of them closes and flushes nothing while a newer one
// stays.
func TestDelete_OfAForecast_LeavesTheHeadAsItIs(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Limits.MaxFuture = -1
	})
	now := testNow.UnixMilli()
	f.commit(sample{`{i="0"}`, now, 1}, sample{`{i="a"}`, now + 48*hour, 1}, sample{`{i="b"}`, now + 49*hour, 1})
	require.NoError(t, f.db.Delete(ctx, now+1, math.MaxInt64, labels.Equal("i", "a")))
	require.Empty(t, f.db.Blocks())
	require.NoError(t, f.db.Delete(ctx, now-10, now))
	require.Empty(t, f.db.Blocks())
	require.Equal(t, 1, f.count())
}

// A clock that falls back by years, as that of a machine whose battery is empty, and is set right.
// What was written meanwhile can be deleted; nothing else is gone.
func TestHead_AClockThatWasYearsBehind_ThePresentIsTakenAtOnce(t *testing.T) {
	for _, state := range []string{"unflushed", "flushed", "reopened"} {
		for _, hand := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, by hand %t", state, hand), func(t *testing.T) {
				w := wrongClock{}
				f := w.host(t)
				f.opts.Blocks.Manual = hand
				f.reopen()
				if state == "flushed" {
					require.NoError(t, f.db.Flush(ctx))
				}
				wrong := testNow.Add(-10 * year)
				f.clock.Set(wrong)
				f.requireClosed()
				f.clock.Advance(2 * time.Minute)
				if hand {
					require.NoError(t, f.db.Flush(ctx))
				}
				for range 10 {
					require.NoError(t, f.tries("0", "1", "new"))
					f.clock.Advance(10 * time.Minute)
				}
				if state == "reopened" {
					f.reopen()
				}
				require.Equal(t, 4+30, f.count())
				f.clock.Set(testNow.Add(2 * time.Hour))
				require.NoError(t, f.tries("0", "1", "new"))
				require.NoError(t, f.db.Compact(ctx))
				require.Equal(t, 4+30+3, f.count(), "what is of ten years ago was written two hours ago")
				require.NoError(t, f.db.Delete(ctx, wrong.UnixMilli(), wrong.Add(24*time.Hour).UnixMilli()))
				f.clock.Advance(time.Second)
				require.NoError(t, f.tries("0", "1", "new"))
				require.Equal(t, 4+6, f.count())
				require.NoError(t, f.db.Flush(ctx))
				require.NoError(t, f.db.Compact(ctx))
				f.reopen()
				require.NoError(t, f.db.Health())
				require.Equal(t, 4+6, f.count())
			})
		}
	}
}

func TestOpen_ABlockThatIsCopiedFromAHeadOfTheFuture_DoesNotCloseTheHead(t *testing.T) {
	w := wrongClock{}
	f := w.host(t)
	require.NoError(t, f.db.Close())
	copyFutureBlock(f, testNow.Add(10*year))
	f.open()
	require.NoError(t, f.db.Health())
	require.NoError(t, f.tries("0", "new"))
	require.Equal(t, 4+1+2, f.count(), "what the log has is there")
	f.reopen()
	require.Equal(t, 4+1+2, f.count())
}

// A flush by a clock that is ahead, which a crash ends, is opened by one that is right: the block
// that the list of blocks does not have yet may be taken for one that somebody brought. Nothing is
// lost by that, and nothing that was deleted comes back.
func TestOpen_AFlushByAWrongClock_IsCutAnywhere(t *testing.T) {
	w := wrongClock{}
	f := w.host(t)
	f.clock.Set(testNow.Add(10 * year))
	for range 5 {
		at := f.clock.Now().UnixMilli()
		f.commit(sample{`{i="0"}`, at, 1}, sample{`{i="new"}`, at, 1})
		f.clock.Advance(time.Hour)
	}
	require.NoError(t, f.db.Delete(ctx, testNow.UnixMilli(), math.MaxInt64, labels.Equal("i", "new")))
	whole := f.all()
	states := disksDuring(f.fs, func() { require.NoError(t, f.db.Flush(ctx)) })
	require.Equal(t, whole, f.all())
	for i, fs := range states {
		g := &fixture{t: t, fs: fs, clock: f.clock, opts: &tsdb.Options{FS: fs}}
		g.clock.Set(testNow)
		*g.opts = *f.opts
		g.opts.FS = fs
		g.open()
		require.Equal(t, whole, g.all(), "state %d of %d", i, len(states))
		require.NoError(t, g.db.Flush(ctx))
		require.NoError(t, g.tries("0", "new"), "state %d of %d", i, len(states))
		g.reopen()
		require.Equal(t, 9+2, g.count(), "state %d of %d", i, len(states))
		require.NoError(t, g.db.Close())
	}
}
