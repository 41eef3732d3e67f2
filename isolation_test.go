package tsdb_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Readers beside writers: a commit is seen whole or not at all, a snapshot stays what it
// was, and nobody waits for ever.

const (
	isoWriters = 4
	isoSeries  = 50 // of a writer, all of them in each of its commits
)

// watched is the limit of a test that takes some seconds on a machine that does nothing else.
const watched = 5 * time.Minute

// watchdog ends the process with the stacks of all goroutines if the test is not over in
// time: what hangs cannot be told to fail.
func watchdog(t *testing.T) {
	t.Helper()
	name := t.Name()
	timer := time.AfterFunc(watched, func() {
		stacks := make([]byte, 4<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		panic(fmt.Sprintf("%s still runs after %v:\n%s", name, watched, stacks))
	})
	t.Cleanup(func() { timer.Stop() })
}

func isoLabels(writer, i int) labels.Labels {
	return labels.FromStrings("__name__", "iso", "writer", strconv.Itoa(writer), "i", strconv.Itoa(i), "odd", strconv.Itoa(i%2))
}

// isoCommit commits batch n of a writer: a sample with value n at time n in each series.
func isoCommit(db *tsdb.DB, refs []tsdb.SeriesRef, writer, n int) error {
	app := db.Appender()
	if n == 1 {
		for i := range refs {
			ref, err := app.Append(0, isoLabels(writer, i), int64(n), float64(n))
			if err != nil {
				return err
			}
			refs[i] = ref
		}
	} else {
		values := make([]float64, len(refs))
		for i := range values {
			values[i] = float64(n)
		}
		if rejected, err := app.AppendBatch(int64(n), refs, values, nil); err != nil || len(rejected) > 0 {
			return fmt.Errorf("append: %w %v", err, rejected)
		}
	}
	res, err := app.Commit(ctx)
	if err == nil && res.Samples != len(refs) {
		err = fmt.Errorf("committed %+v", res)
	}
	return err
}

// isoState is how many commits of each writer a snapshot has.
type isoState [isoWriters]int

// isoRead reads a snapshot and checks that it has whole commits: every series of a
// writer ends with the same one and lacks none before it.
func isoRead(q *tsdb.Querier, mint int, ms ...*labels.Matcher) (state isoState, err error) {
	var series [isoWriters]int
	want := isoSeries
	batch := chunkenc.NewBatch(512)
	var it chunkenc.Iterator
	for s, err := range q.Select(ctx, nil, ms...).All() {
		if err != nil {
			return state, err
		}
		ls := s.Labels()
		for _, m := range ms {
			if !m.Matches(ls.Get(m.Name())) {
				return state, fmt.Errorf("%v does not match %v", ls, m)
			}
			if m.Name() == "odd" {
				want = isoSeries / 2
			}
		}
		w, err := strconv.Atoi(ls.Get("writer"))
		if err != nil {
			return state, err
		}
		n := max(mint, 1)
		for it = s.Iterator(it); it.NextBatch(batch) != chunkenc.ValNone; {
			for k, t := range batch.T {
				if t != int64(n) || batch.V[k] != float64(n) {
					return state, fmt.Errorf("%v has %v at %d, want commit %d", ls, batch.V[k], t, n)
				}
				n++
			}
		}
		if it.Err() != nil {
			return state, it.Err()
		}
		if series[w]++; series[w] > 1 && n-1 != state[w] {
			return state, fmt.Errorf("torn commit: %v ends with commit %d, others with %d", ls, n-1, state[w])
		}
		state[w] = n - 1
	}
	for w, n := range series {
		if n != 0 && n != want {
			return state, fmt.Errorf("torn commit: writer %d has %d of %d series", w, n, want)
		}
	}
	return state, nil
}

// isoReader reads snapshots until the writers are done. It keeps one Querier open over
// many commits and compares what it says in the end.
func isoReader(db *tsdb.DB, seed uint64, done *atomic.Bool) error {
	rng := rand.New(rand.NewPCG(seed, 2))
	odd := labels.Equal("odd", "1")
	one, err := labels.Regexp("writer", "[0-9]")
	if err != nil {
		return err
	}
	var last isoState
	for round := 0; !done.Load(); round++ {
		old, err := db.Querier(math.MinInt64, math.MaxInt64)
		if err != nil {
			return err
		}
		before, err := isoRead(old, 0)
		if err != nil {
			return err
		}
		for k := 0; k < 20 && !done.Load(); k++ {
			mint := 0
			if rng.IntN(4) > 0 { // the newest samples, which are those that move
				mint = max(1, last[0]-rng.IntN(20))
			}
			q, err := db.Querier(int64(mint), math.MaxInt64)
			if err != nil {
				return err
			}
			state, err := isoRead(q, mint, odd)
			if err != nil {
				return err
			}
			again, err := isoRead(q, mint, one)
			if err != nil {
				return err
			}
			for w := range state {
				if state[w] != again[w] {
					return fmt.Errorf("a snapshot moved: %v, then %v", state, again)
				}
				if mint == 0 && state[w] < last[w] {
					return fmt.Errorf("snapshots went back: %v after %v", state, last)
				}
			}
			if mint == 0 {
				last = state
			}
			if err := q.Close(); err != nil {
				return err
			}
		}
		after, err := isoRead(old, 0)
		if err != nil {
			return err
		}
		if before != after {
			return fmt.Errorf("a snapshot that was kept moved: %v, then %v", before, after)
		}
		if err := old.Close(); err != nil {
			return err
		}
	}
	return nil
}

func TestIsolation_CommitsAreSeenWholeAndSnapshotsStand(t *testing.T) {
	watchdog(t)
	f := newFixture(t, func(o *tsdb.Options) {
		o.Head.SamplesPerChunk = 16 // so that chunks fill up under the readers
		o.Limits.MaxFuture = -1
	})
	commits := 1000
	if !sweep.Whole() {
		commits = 300
	}
	var done atomic.Bool
	var readers, writers sync.WaitGroup
	errs := make(chan error, 2*isoWriters)
	for r := range 2 {
		readers.Go(func() { errs <- isoReader(f.db, uint64(r), &done) })
	}
	first, err := f.db.Querier(math.MinInt64, math.MaxInt64) // before everything
	require.NoError(t, err)
	for w := range isoWriters {
		writers.Go(func() {
			refs := make([]tsdb.SeriesRef, isoSeries)
			for n := 1; n <= commits; n++ {
				if err := isoCommit(f.db, refs, w, n); err != nil {
					errs <- fmt.Errorf("writer %d: %w", w, err)
					return
				}
				if n%16 == 0 {
					f.clock.Advance(time.Second) // for the loops that sync and write chunks
				}
			}
			errs <- nil
		})
	}
	writers.Wait()
	done.Store(true)
	readers.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	state, err := isoRead(first, 0)
	require.NoError(t, err)
	require.Equal(t, isoState{}, state, "the Querier of before sees nothing")
	require.NoError(t, first.Close())
	require.Positive(t, f.db.Stats().HeadChunksWritten, "chunks went to files meanwhile")

	whole := isoState{commits, commits, commits, commits}
	for range 2 {
		q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
		require.NoError(t, err)
		state, err := isoRead(q, 0)
		require.NoError(t, err)
		require.Equal(t, whole, state)
		require.NoError(t, q.Close())
		f.reopen()
	}
}

// Series come and go, rolled back or committed, while others list labels.
func TestIsolation_LabelsAreThoseOfWholeCommits(t *testing.T) {
	watchdog(t)
	f := newFixture(t, nil)
	commits := 700
	if !sweep.Whole() {
		commits = 250
	}
	var done atomic.Bool
	var writers, others sync.WaitGroup
	errs := make(chan error, 8)
	writers.Go(func() { // commit n has a series of its own and 10 that share a label
		for n := range commits {
			app := f.db.Appender()
			for i := range 10 {
				ls := labels.FromStrings("__name__", "real", "commit", strconv.Itoa(10_000+n), "i", strconv.Itoa(i))
				if _, err := app.Append(0, ls, int64(n), 1); err != nil {
					errs <- err
					return
				}
			}
			if _, err := app.Commit(ctx); err != nil {
				errs <- err
				return
			}
		}
		errs <- nil
	})
	for g := range 2 {
		others.Go(func() { // rolls series back, of which some are another's as well
			for n := 0; !done.Load(); n++ {
				app := f.db.Appender()
				for i := range 5 {
					for _, ls := range []labels.Labels{
						labels.FromStrings("ghost", strconv.Itoa(n%7), "i", strconv.Itoa(i)),
						labels.FromStrings("__name__", "real", "commit", strconv.Itoa(10_000+n%commits), "i", strconv.Itoa(i)),
					} {
						// The second kind may have a newer sample by now.
						if _, err := app.Append(0, ls, int64(g), 2); err != nil && !isLate(err) {
							errs <- err
							return
						}
					}
				}
				if err := app.Rollback(); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		})
	}
	for range 2 {
		others.Go(func() {
			errs <- neverFalls(&done, func(int) (int, error) { return labelsOfWholeCommits(f.db) })
		})
	}
	writers.Wait()
	done.Store(true)
	others.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
	n, err := labelsOfWholeCommits(f.db)
	require.NoError(t, err)
	require.Equal(t, commits, n)
	require.Equal(t, 10*commits, f.db.Stats().Series, "what was rolled back is gone")
	f.reopen()
	n, err = labelsOfWholeCommits(f.db)
	require.NoError(t, err)
	require.Equal(t, commits, n)
}

// neverFalls counts commits until all is done. What was seen once is seen from then on. count gets
// what was counted last, 0 at first.
func neverFalls[N int | int64](done *atomic.Bool, count func(last N) (N, error)) error {
	for last := N(0); !done.Load(); {
		n, err := count(last)
		if err != nil {
			return err
		}
		if n < last {
			return fmt.Errorf("commits up to %d were seen, and now only up to %d", last, n)
		}
		last = n
	}
	return nil
}

func isLate(err error) bool {
	return errors.Is(err, tsdb.ErrOutOfOrder) || errors.Is(err, tsdb.ErrDuplicateSample)
}

// labelsOfWholeCommits checks that a snapshot lists exactly the labels of the first so
// many commits, and returns how many those are.
func labelsOfWholeCommits(db *tsdb.DB) (int, error) {
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return 0, err
	}
	defer q.Close()
	values, _, err := q.LabelValues(ctx, "commit", nil)
	if err != nil {
		return 0, err
	}
	for n, v := range values {
		if v != strconv.Itoa(10_000+n) {
			return 0, fmt.Errorf("value %d of the commits is %s", n, v)
		}
	}
	if ghosts, _, err := q.LabelValues(ctx, "ghost", nil); err != nil || len(ghosts) > 0 {
		return 0, fmt.Errorf("%w, values of what was rolled back: %v", err, ghosts)
	}
	names, _, err := q.LabelNames(ctx, nil)
	want := "[__name__ commit i]"
	if len(values) == 0 {
		want = "[]"
	}
	if err != nil || fmt.Sprint(names) != want {
		return 0, fmt.Errorf("%w, names %v, with %d commits", err, names, len(values))
	}
	if len(values) == 0 {
		return 0, nil
	}
	newest := labels.Equal("commit", values[len(values)-1])
	is, _, err := q.LabelValues(ctx, "i", nil, newest)
	if err != nil || len(is) != 10 {
		return 0, fmt.Errorf("%w, torn commit: the newest one has %v", err, is)
	}
	n := 0
	for s, err := range q.Select(ctx, nil, newest).All() {
		if err != nil {
			return 0, err
		}
		if !newest.Matches(s.Labels().Get("commit")) {
			return 0, fmt.Errorf("%v does not match", s.Labels())
		}
		n++
	}
	if n != 10 {
		return 0, fmt.Errorf("torn commit: the newest one has %d series", n)
	}
	return len(values), nil
}

func TestSyncCommit_AnyNumberOfWritersLoseNothingToAPowerCut(t *testing.T) {
	for _, count := range []int{1, 8, 64} {
		t.Run(fmt.Sprint(count, " writers"), func(t *testing.T) {
			watchdog(t)
			f := newFixture(t, func(o *tsdb.Options) { o.WAL.Sync = tsdb.SyncCommit() })
			commits := max(10, 400/count)
			var wg sync.WaitGroup
			errs := make(chan error, count)
			for w := range count {
				wg.Go(func() {
					for n := range commits {
						app := f.db.Appender()
						_, err := app.Append(0, labels.FromStrings("w", strconv.Itoa(w)), int64(n), float64(n))
						if err == nil {
							_, err = app.Append(0, labels.FromStrings("w", strconv.Itoa(w), "n", strconv.Itoa(n)), int64(n), 1)
						}
						if err == nil {
							_, err = app.Commit(ctx)
						}
						if err != nil {
							errs <- err
							return
						}
					}
					errs <- nil
				})
			}
			wg.Wait()
			close(errs)
			for err := range errs {
				require.NoError(t, err)
			}
			stats := f.db.Stats()
			require.EqualValues(t, count*commits, stats.Commits)
			require.LessOrEqual(t, stats.Log.Writes, stats.Log.Commits)
			want := f.all()
			require.Len(t, want, count*(commits+1))

			cut := f.fs.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
			db, err := tsdb.Open(fixtureDir, &tsdb.Options{FS: cut, Clock: f.clock})
			require.NoError(t, err)
			r := db.OpenReport()
			require.True(t, r.Clean())
			require.Equal(t, want, dump(t, db, math.MinInt64, math.MaxInt64))
			require.NoError(t, db.Close())
			f.reopen()
			require.Equal(t, want, f.all())
		})
	}
}

// A delete is a commit among others: whoever leads the group that it is in does not wait for what
// its owner does later.
func TestSyncCommit_DeletesAmongCommits(t *testing.T) {
	watchdog(t)
	f := newFixture(t, func(o *tsdb.Options) { o.WAL.Sync = tsdb.SyncCommit() })
	const writers, commits = 8, 40
	write := func(w string) error {
		for n := range commits {
			app := f.db.Appender()
			for _, ls := range []labels.Labels{labels.FromStrings("w", w), labels.FromStrings("gone", "1", "w", w)} {
				if _, err := app.Append(0, ls, int64(n), float64(n)); err != nil {
					return err
				}
			}
			if _, err := app.Commit(ctx); err != nil {
				return err
			}
			if n%2 == 0 {
				continue
			}
			if err := f.db.Delete(ctx, math.MinInt64, math.MaxInt64, labels.Equal("gone", "1"), labels.Equal("w", w)); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make(chan error, writers)
	for w := range writers {
		go func() { errs <- write(strconv.Itoa(w)) }()
	}
	for range writers {
		require.NoError(t, <-errs)
	}
	want := f.all()
	require.Len(t, want, writers, "all that is deleted is gone")
	for ls, samples := range want {
		require.Len(t, samples, commits, ls)
	}
	cut := f.fs.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
	db, err := tsdb.Open(fixtureDir, &tsdb.Options{FS: cut, Clock: f.clock})
	require.NoError(t, err)
	require.Equal(t, want, dump(t, db, math.MinInt64, math.MaxInt64))
	require.NoError(t, db.Close())
}
