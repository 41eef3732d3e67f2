package tsdb_test

import (
	"context"
	"errors"
	"math"
	"path"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// importAt writes a block of one sample into a directory that nobody has open.
func importAt(t *testing.T, opts *tsdb.Options, at int64) {
	t.Helper()
	w, err := tsdb.NewBlockWriter(fixtureDir, &tsdb.BlockWriterOptions{FS: opts.FS, Clock: opts.Clock})
	require.NoError(t, err)
	require.NoError(t, w.Append(labels.FromStrings("i", "imported"), at, 1))
	_, err = w.Flush(context.Background())
	require.NoError(t, err)
	require.NoError(t, w.Close())
}

// Milliseconds where seconds belong end in the year 55840.
func TestOpen_ABlockOfTheFuture_DoesNotCloseTheHead(t *testing.T) {
	for name, at := range map[string]int64{
		"milliseconds for seconds": testNow.UnixMilli() * 1000,
		"ten years ahead":          testNow.AddDate(10, 0, 0).UnixMilli(),
		"a day ahead":              testNow.AddDate(0, 0, 1).UnixMilli(),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, nil)
			now := testNow.UnixMilli()
			f.commit(sample{`{i="0"}`, now - 1, 0})
			require.NoError(t, f.db.Close())
			importAt(t, f.opts, at)
			for i := range int64(3) {
				f.open()
				require.NoError(t, f.db.Health())
				f.commit(sample{`{i="0"}`, now + i, float64(i)})
				require.Equal(t, int(i)+3, f.count())
				require.NoError(t, f.db.Compact(context.Background()))
				require.NoError(t, f.db.Close())
			}
			f.open()
			require.Equal(t, 5, f.count())
			require.NoError(t, f.db.Flush(context.Background()))
			f.reopen()
			require.Equal(t, 5, f.count())
		})
	}
}

// count is how many samples there are.
func (f *fixture) count() (n int) {
	for _, points := range f.all() {
		n += len(points)
	}
	return n
}

// requireClosed requires that a sample of the present is refused, with what is accepted.
func (f *fixture) requireClosed() {
	f.t.Helper()
	now := f.clock.Now().UnixMilli()
	_, err := f.db.Appender().Append(0, labels.FromStrings("i", "0"), now, 1)
	require.Error(f.t, err)
	require.ErrorIs(f.t, f.db.Health(), tsdb.ErrOutOfBounds)
	s := f.db.Stats()
	require.Equal(f.t, now+time.Hour.Milliseconds(), s.AcceptsTo)
	var bounds *tsdb.BoundsError
	if errors.As(err, &bounds) {
		require.Equal(f.t, tsdb.BoundsError{T: now, From: s.AcceptsFrom, To: s.AcceptsTo}, *bounds)
		require.Greater(f.t, s.AcceptsFrom, s.AcceptsTo)
	}
}

// ahead commits samples before and after the clock goes ahead, and sets it right again.
func (f *fixture) ahead(d time.Duration, flush bool) (want []sample) {
	f.t.Helper()
	want = append(want, sample{`{i="0"}`, testNow.UnixMilli() - 5000, 1}, sample{`{i="1"}`, testNow.UnixMilli() - 4000, 2})
	f.commit(want...)
	f.clock.Set(testNow.Add(d))
	for i := range int64(10) {
		at := f.clock.Now().Add(time.Duration(i) * time.Hour)
		f.clock.Set(at)
		s := sample{`{i="0"}`, at.UnixMilli(), float64(i)}
		f.commit(s)
		want = append(want, s)
	}
	if flush {
		require.NoError(f.t, f.db.Compact(context.Background()))
	}
	f.clock.Set(testNow)
	return want
}

func TestHead_AClockThatWasAhead_TheFlushedHeadTakesThePresentAgain(t *testing.T) {
	for name, flush := range map[string]bool{"flushed": true, "unflushed": false} {
		for _, d := range []time.Duration{10 * time.Hour, 10 * 365 * 24 * time.Hour} {
			for _, way := range []string{"waiting", "Flush", "Compact", "Delete", "reopening and waiting"} {
				t.Run(name+", "+d.String()+", by "+way, func(t *testing.T) {
					ctx := context.Background()
					f := newFixture(t, nil)
					want := f.ahead(d, flush)
					f.requireClosed()
					switch way {
					case "waiting":
						f.clock.Advance(30 * time.Second)
						f.requireClosed()
						f.clock.Advance(time.Minute)
					case "Flush":
						require.NoError(t, f.db.Flush(ctx))
					case "Compact":
						require.NoError(t, f.db.Compact(ctx))
					case "Delete":
						require.NoError(t, f.db.Delete(ctx, testNow.UnixMilli(), math.MaxInt64))
						want = want[:2]
					default:
						f.reopen()
						f.requireClosed()
						f.clock.Advance(90 * time.Second)
					}
					require.NoError(t, f.db.Health())
					f.commit(sample{`{i="0"}`, f.clock.Now().UnixMilli(), 7}, sample{`{i="1"}`, f.clock.Now().UnixMilli(), 8})
					require.Equal(t, len(want)+2, f.count())
					f.reopen()
					require.NoError(t, f.db.Health())
					require.Equal(t, len(want)+2, f.count(), "nothing is lost, and what was deleted stays away")
					f.commit(sample{`{i="0"}`, f.clock.Now().UnixMilli() + 1, 9})
					require.NoError(t, f.db.Flush(ctx))
					require.NoError(t, f.db.Compact(ctx))
					require.NoError(t, f.db.CleanTombstones(ctx))
					f.reopen()
					require.Equal(t, len(want)+3, f.count())
				})
			}
		}
	}
}

// What the log knows of where the head began must not bring the future back: neither behind a
// restart nor where the process was killed while it left that.
func TestHead_AClockThatWasAhead_AnEmptyHeadTakesThePresentBehindARestart(t *testing.T) {
	for _, future := range []time.Duration{-1, time.Hour} {
		for _, at := range []time.Duration{10 * time.Hour, 1000 * time.Hour} {
			f := newFixture(t, func(o *tsdb.Options) {
				manual(o)
				o.Limits.MaxFuture, o.WAL.Sync = future, tsdb.SyncCommit()
			})
			f.ahead(at, false)
			var disks []*tsdbtest.MemFS
			f.fs.SetHook(func(tsdbtest.Op) error {
				disks = append(disks, f.fs.KillClone())
				return nil
			})
			require.NoError(t, f.db.Delete(ctx, testNow.UnixMilli()+1, math.MaxInt64))
			f.fs.SetHook(nil)
			disks = append(disks, f.fs.KillClone())
			deleted := 0 // on how many disks the future is deleted
			for i, disk := range disks {
				o := *f.opts
				o.FS = disk
				for range 2 {
					db, err := tsdb.Open(fixtureDir, &o)
					require.NoError(t, err)
					if read := dump(t, db, math.MinInt64, math.MaxInt64); len(read[`{i="0"}`]) == 1 {
						deleted++
						require.LessOrEqual(t, db.Stats().AcceptsFrom, testNow.UnixMilli()+1, "before operation %d of %d", i, len(disks))
					}
					require.NoError(t, db.Close())
				}
			}
			require.Greater(t, deleted, 20)
		}
	}
}

// A machine that was just started may show 1970 for a while: that moves no data.
func TestHead_AClockThatIsBehindForAMoment_ChangesNothing(t *testing.T) {
	f := newFixture(t, nil)
	f.commit(sample{`{i="0"}`, testNow.UnixMilli(), 1})
	require.NoError(t, f.db.Flush(context.Background()))
	f.commit(sample{`{i="0"}`, testNow.UnixMilli() + 1, 1})
	blocks := f.db.Blocks()
	f.clock.Set(time.UnixMilli(0))
	f.clock.Advance(40 * time.Second)
	f.requireClosed()
	f.clock.Set(testNow.Add(time.Minute))
	f.clock.Advance(10 * time.Minute)
	require.Equal(t, blocks, f.db.Blocks())
	f.commit(sample{`{i="0"}`, f.clock.Now().UnixMilli(), 1})
}

// Without a limit by the clock one sample far ahead lets the head go of the present, until it is
// deleted.
func TestHead_WithoutMaxFuture_DeletingTheFutureIsEnough(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.Limits.MaxFuture = -1 })
	now := testNow.UnixMilli()
	f.commit(sample{`{i="0"}`, now, 1}, sample{`{i="f"}`, testNow.AddDate(10, 0, 0).UnixMilli(), 1})
	require.NoError(t, f.db.Compact(context.Background()))
	_, err := f.db.Appender().Append(0, labels.FromStrings("i", "0"), now+1, 1)
	var bounds *tsdb.BoundsError
	require.ErrorAs(t, err, &bounds)
	require.Equal(t, f.db.Stats().AcceptsFrom, bounds.From)
	require.NoError(t, f.db.Delete(context.Background(), now+1, math.MaxInt64, labels.Equal("i", "f")))
	f.commit(sample{`{i="0"}`, now + 1, 2})
	f.reopen()
	require.Equal(t, 2, f.count())
}

// A Querier that reads what the head would let go of keeps it, and the present waits.
func TestHead_AheadOfTheClock_WaitsForReaders(t *testing.T) {
	f := newFixture(t, nil)
	want := f.ahead(10*time.Hour, false)
	q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	require.NoError(t, f.db.Flush(context.Background()))
	f.requireClosed()
	set := q.Select(context.Background(), nil)
	n := 0
	for s, err := range set.All() {
		require.NoError(t, err)
		for it := s.Iterator(nil); it.Next() != 0; n++ {
		}
	}
	require.Len(t, want, n)
	require.NoError(t, q.Close())
	require.NoError(t, f.db.Flush(context.Background()))
	require.NoError(t, f.db.Health())
	f.commit(sample{`{i="0"}`, f.clock.Now().UnixMilli(), 7})
	require.Equal(t, len(want)+1, f.count())
}

func TestBoundsError_SaysWhatIsAcceptedAndWhichUnitWasMeant(t *testing.T) {
	now := testNow.UnixMilli()
	e := tsdb.BoundsError{From: now - 1000, To: now + 1000}
	for unit, at := range map[string]int64{"seconds": now / 1000, "microseconds": now * 1000, "nanoseconds": now * 1_000_000} {
		e.T = at
		require.ErrorContains(t, &e, "looks like "+unit)
		require.ErrorIs(t, &e, tsdb.ErrOutOfBounds)
	}
	e.T = now - 24*3600*1000
	require.EqualError(t, &e, "sample time out of bounds: 1699913600000 (2023-11-13T22:13:20Z); accepted are times from 1699999999000 (2023-11-14T22:13:19Z) to 1700000001000 (2023-11-14T22:13:21Z)")
	e = tsdb.BoundsError{T: math.MinInt64, From: math.MinInt64 + 1, To: math.MaxInt64 - 1}
	require.EqualError(t, &e, "sample time out of bounds: the beginning; accepted are times from the beginning to the end")
}

// Each way in which a sample is refused for its time tells it, and what Stats says is accepted.
func TestBoundsError_ComesWithEachSample(t *testing.T) {
	f := newFixture(t, manual)
	f.commit(sample{`{i="0"}`, 100, 1})
	require.NoError(t, f.db.Flush(ctx))
	accepted := f.db.Stats()
	require.Equal(t, []int64{101, testNow.Add(time.Hour).UnixMilli()}, []int64{accepted.AcceptsFrom, accepted.AcceptsTo})
	app := f.db.Appender()
	known, err := app.Append(0, labels.FromStrings("i", "1"), 200, 1)
	require.NoError(t, err)
	for _, at := range []int64{math.MinInt64, 100, accepted.AcceptsTo + 1, math.MaxInt64} {
		ls := labels.FromStrings("i", "2")
		_, floats := app.Append(0, ls, at, 1)
		_, started := app.AppendSample(0, ls, tsdb.Sample{T: at, ST: 1, V: 1})
		_, histograms := app.AppendSample(0, ls, tsdb.Sample{T: at, H: &histogram.Histogram{}})
		refused := []error{floats, started, histograms}
		if at > 200 { // or the series has a newer one, which is said first
			rejects, err := app.AppendBatch(at, []tsdb.SeriesRef{known}, []float64{1}, nil)
			require.NoError(t, err)
			require.Len(t, rejects, 1)
			refused = append(refused, rejects[0].Err)
		}
		for _, err := range refused {
			require.ErrorIs(t, err, tsdb.ErrOutOfBounds)
			var bounds *tsdb.BoundsError
			require.ErrorAs(t, err, &bounds)
			require.Equal(t, tsdb.BoundsError{T: at, From: accepted.AcceptsFrom, To: accepted.AcceptsTo}, *bounds)
		}
	}
	require.NoError(t, app.Rollback())
}

// Whatever a kill or a power cut leaves of it: nothing is lost, nothing that was deleted is back,
// and the present is taken the next time.
func TestHead_LeavingTheFuture_IsCutAnywhere(t *testing.T) {
	for name, flush := range map[string]bool{"flushed": true, "unflushed": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *tsdb.Options) {
				manual(o)
				o.WAL.Sync = tsdb.SyncCommit()
			})
			want := len(f.ahead(10*time.Hour, flush))
			f.clock.Set(testNow.Add(11 * time.Hour)) // so that the delete itself leaves nothing
			require.NoError(t, f.db.Delete(ctx, testNow.UnixMilli(), math.MaxInt64, labels.Equal("i", "1")))
			require.NoError(t, f.db.Delete(ctx, testNow.Add(11*time.Hour).UnixMilli(), testNow.Add(12*time.Hour).UnixMilli()))
			f.clock.Set(testNow)
			whole := f.all()
			require.Less(t, f.count(), want, "the delete met something")
			states := disksDuring(f.fs, func() { require.NoError(t, f.db.Flush(ctx)) })
			require.Greater(t, len(states), 40)
			require.Equal(t, whole, f.all())
			for i, fs := range states {
				g := &fixture{t: t, fs: fs, clock: tsdbtest.NewClock(testNow), opts: &tsdb.Options{FS: fs}}
				g.opts.Clock = g.clock
				manual(g.opts)
				g.open()
				require.Equal(t, whole, g.all(), "state %d of %d", i, len(states))
				require.NoError(t, g.db.Flush(ctx))
				require.NoError(t, g.db.Health(), "state %d of %d", i, len(states))
				g.commit(sample{`{i="0"}`, testNow.UnixMilli() + 1, 1})
				g.reopen()
				require.Equal(t, len(whole[`{i="0"}`])+1, len(g.all()[`{i="0"}`]), "state %d of %d", i, len(states))
				require.NoError(t, g.db.Compact(ctx))
				require.Equal(t, len(whole[`{i="0"}`])+1, len(g.all()[`{i="0"}`]), "state %d of %d", i, len(states))
				require.NoError(t, g.db.Close())
			}
		})
	}
}

// A program that staged a sample while the clock was ahead commits it while the head leaves the
// future: it is there and stays, or it is refused.
func TestHead_LeavingTheFuture_ACommitThatComesMeanwhileIsSeenOrRefused(t *testing.T) {
	for _, part := range []string{"data/tmp-block-*/*", "data/tmp-checkpoint*/*", "data/01*/meta.json.tmp"} {
		t.Run(part, func(t *testing.T) {
			f := newFixture(t, manual)
			want := f.ahead(10*time.Hour, true)
			f.clock.Set(testNow.Add(200 * time.Hour))
			late := f.db.Appender()
			_, err := late.Append(0, labels.FromStrings("i", "late"), f.clock.Now().UnixMilli(), 1)
			require.NoError(t, err)
			f.clock.Set(testNow)
			tried, taken := false, 0
			f.fs.SetHook(func(op tsdbtest.Op) error {
				if hit, _ := path.Match(part, op.Name); op.Kind != tsdbtest.OpWrite || tried || !hit {
					return nil
				}
				tried = true
				res, err := late.Commit(context.Background())
				if err == nil {
					taken = res.Samples
				}
				return err
			})
			require.NoError(t, f.db.Flush(context.Background()))
			f.fs.SetHook(nil)
			require.True(t, tried)
			require.Equal(t, len(want)+taken, f.count(), "%d samples were taken", taken)
			require.NoError(t, f.db.Flush(context.Background()))
			require.NoError(t, f.db.Health())
			f.commit(sample{`{i="late"}`, f.clock.Now().UnixMilli(), 7})
			require.Equal(t, len(want)+taken+1, f.count())
			f.reopen()
			require.Equal(t, len(want)+taken+1, f.count())
		})
	}
}

// One write that failed keeps the head from nothing: as long as it is ahead of the clock no commit
// could show that the log can be written again.
func TestHead_AheadOfTheClock_IsLeftAfterAWriteThatFailed(t *testing.T) {
	fs, clock := faultfs.New(tsdbtest.NewMemFS()), tsdbtest.NewClock(testNow)
	db, err := tsdb.Open("data", &tsdb.Options{FS: fs, Clock: clock, Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	commit := func() error {
		app := db.Appender()
		if _, err := app.Append(0, labels.FromStrings("a", "b"), clock.Now().UnixMilli(), 1); err != nil {
			return err
		}
		_, err := app.Commit(ctx)
		return err
	}
	clock.Set(testNow.AddDate(10, 0, 0))
	require.NoError(t, commit())
	clock.Set(clock.Now().Add(time.Second))
	fs.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpWrite}, Sticky: true})
	require.ErrorIs(t, commit(), tsdb.ErrNotCommitted)
	fs.Lift()
	clock.Set(testNow.Add(time.Second))
	require.Error(t, commit(), "the head is ahead")
	require.NoError(t, db.Flush(ctx))
	require.NoError(t, db.Health())
	clock.Advance(time.Second)
	require.NoError(t, commit())
	require.NoError(t, db.Close())
}
