package tsdb_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
)

// The lives of metadata against a map: commits, rollbacks, failed commits, flushes with
// checkpoints, snapshots of the head, restarts and kills in any order.

type metadataLife struct {
	*rapid.T
	fs    *tsdbtest.MemFS
	clock *tsdbtest.Clock
	db    *tsdb.DB
	now   int64

	want map[string]tsdb.Metadata // of all that were ever committed
	held map[string]bool          // series that the head cannot have dropped
	last map[string]int64         // newest samples
}

const metadataSeries = 5

func (l *metadataLife) open() {
	opts := &tsdb.Options{FS: l.fs, Clock: l.clock}
	opts.Limits.MaxFuture = -1
	opts.Blocks.Range, opts.Blocks.Manual = time.Minute, true
	opts.WAL.SegmentSize = wal.MinSegmentSize
	opts.Head.ReplayWorkers = rapid.IntRange(1, 3).Draw(l.T, "workers")
	opts.Head.SnapshotThreshold = rapid.SampledFrom([]int64{-1, 0}).Draw(l.T, "snapshots")
	db, err := tsdb.Open(fixtureDir, opts)
	require.NoError(l, err)
	rep := db.OpenReport()
	require.True(l, rep.Clean(), "%+v", rep)
	l.db = db
}

func (l *metadataLife) draw(t *rapid.T) (labels.Labels, tsdb.Metadata) {
	name := fmt.Sprint("m", rapid.IntRange(0, metadataSeries-1).Draw(t, "series"))
	return labels.FromStrings("__name__", name), tsdb.Metadata{
		Type: tsdb.MetricType(rapid.IntRange(0, 2).Draw(t, "type")),
		Unit: rapid.SampledFrom([]string{"", "s"}).Draw(t, "unit"),
		Help: rapid.SampledFrom([]string{"", "One.", "Two."}).Draw(t, "help"),
	}
}

// staged is what an Appender has.
type staged struct {
	metadata map[string]tsdb.Metadata
	last     map[string]int64 // samples
}

// stage puts metadata of some series into an Appender, with samples or without.
func (l *metadataLife) stage(t *rapid.T) (*tsdb.Appender, staged) {
	app, st := l.db.Appender(), staged{map[string]tsdb.Metadata{}, map[string]int64{}}
	l.now += 1000
	for range rapid.IntRange(1, 4).Draw(t, "n") {
		ls, m := l.draw(t)
		ref, err := app.SetMetadata(0, ls, m)
		require.NoError(l, err)
		if m != (tsdb.Metadata{}) {
			st.metadata[ls.String()] = m
		}
		if rapid.Bool().Draw(t, "sample") {
			l.now++
			_, err := app.Append(ref, ls, l.now, 1)
			require.NoError(l, err)
			st.last[ls.String()] = l.now
		}
	}
	return app, st
}

// commit commits what is staged.
func (l *metadataLife) commit(app *tsdb.Appender, st staged) {
	_, err := app.Commit(ctx)
	require.NoError(l, err)
	for name, m := range st.metadata {
		l.want[name], l.held[name] = m, true
	}
	maps.Copy(l.last, st.last)
}

func (l *metadataLife) Commit(t *rapid.T) { l.commit(l.stage(t)) }

func (l *metadataLife) Rollback(t *rapid.T) {
	app, _ := l.stage(t)
	require.NoError(l, app.Rollback())
}

// Fail has the write of a commit fail.
func (l *metadataLife) Fail(t *rapid.T) {
	app, st := l.stage(t)
	failure := errors.New("no luck")
	l.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpWrite {
			return failure
		}
		return nil
	})
	_, err := app.Commit(ctx)
	l.fs.SetHook(nil)
	if err != nil {
		require.ErrorIs(l, err, tsdb.ErrNotCommitted)
		l.sample(t) // or the next empty commit says what this one ended with
		return
	}
	for name, m := range st.metadata { // all of it was known, and nothing was written
		require.Equal(l, l.want[name], m)
	}
	require.Empty(l, st.last)
}

// Flush makes blocks, and a checkpoint of all or of a part of the log. What is idle goes; what has
// samples that no block has stays.
func (l *metadataLife) Flush(t *rapid.T) {
	l.now += rapid.SampledFrom([]int64{0, 10 * minute}).Draw(t, "time passes")
	l.sample(t)
	if rapid.Bool().Draw(t, "whole") {
		require.NoError(l, l.db.Flush(ctx))
	} else {
		require.NoError(l, l.db.Compact(ctx))
	}
	end := int64(math.MinInt64)
	for _, b := range l.db.Blocks() {
		end = max(end, b.MaxTime)
	}
	maps.DeleteFunc(l.held, func(name string, _ bool) bool {
		newest, ok := l.last[name]
		return !ok || newest < end
	})
}

// sample commits a sample of some series.
func (l *metadataLife) sample(t *rapid.T) {
	ls, _ := l.draw(t)
	app := l.db.Appender()
	l.now++
	_, err := app.Append(0, ls, l.now, 1)
	require.NoError(l, err)
	l.commit(app, staged{last: map[string]int64{ls.String(): l.now}})
}

func (l *metadataLife) Snapshot(t *rapid.T) { require.NoError(l, tsdb.TakeHeadSnapshot(l.db)) }

func (l *metadataLife) Reopen(*rapid.T) {
	require.NoError(l, l.db.Close())
	l.open()
}

func (l *metadataLife) Kill(*rapid.T) {
	disk := l.fs.KillClone()
	require.NoError(l, l.db.Close())
	l.fs = disk
	l.open()
}

// Check compares. Of series that left the head a snapshot, or the log, may bring back the last that
// they had.
func (l *metadataLife) Check(*rapid.T) {
	got := metadataOf(l, l.db)
	for name, m := range got {
		require.Equal(l, l.want[name], m, name)
	}
	for name := range l.held {
		require.Contains(l, got, name)
	}
	require.GreaterOrEqual(l, l.db.Stats().SeriesWithMetadata, len(got))
}

func TestMetadata_EqualsAMapThroughRandomLives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := &metadataLife{
			T: t, fs: tsdbtest.NewMemFS(), clock: tsdbtest.NewClock(testNow),
			want: map[string]tsdb.Metadata{}, held: map[string]bool{}, last: map[string]int64{},
		}
		l.open()
		defer func() { require.NoError(l, l.db.Close()) }()
		t.Repeat(map[string]func(*rapid.T){
			"commit": l.Commit, "rollback": l.Rollback, "fail": l.Fail, "flush": l.Flush,
			"snapshot": l.Snapshot, "reopen": l.Reopen, "kill": l.Kill, "": l.Check,
		})
	})
}
