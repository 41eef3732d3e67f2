package tsdb_test

import (
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// exemplarOf returns an exemplar that refers to a trace.
func exemplarOf(trace string, t int64, v float64) exemplar.Exemplar {
	return exemplar.Exemplar{Labels: labels.FromStrings("trace_id", trace), T: t, HasT: true, Value: v}
}

// exemplars returns what a fixture's database has in a range, one line an exemplar.
func (f *fixture) exemplars(mint, maxt int64, ms ...*labels.Matcher) (lines []string) {
	f.t.Helper()
	q, err := f.db.Querier(mint, maxt)
	require.NoError(f.t, err)
	defer func() { require.NoError(f.t, q.Close()) }()
	found, err := q.Exemplars(ctx, ms...)
	require.NoError(f.t, err)
	for _, s := range found {
		for _, e := range s.Exemplars {
			lines = append(lines, fmt.Sprintf("%s %s %d %v", s.Labels, e.Labels, e.T, e.Value))
		}
	}
	return lines
}

// commitExemplars commits exemplars of one series.
func (f *fixture) commitExemplars(selector string, es ...exemplar.Exemplar) {
	f.t.Helper()
	app := f.db.Appender()
	for _, e := range es {
		_, err := app.AppendExemplar(0, series(f.t, selector), e)
		require.NoError(f.t, err)
	}
	_, err := app.Commit(ctx)
	require.NoError(f.t, err)
}

func TestExemplars_AreThereAfterAKill(t *testing.T) {
	f := newFixture(t, manual)
	f.commitExemplars(`{a="b"}`, exemplarOf("one", 10, 1), exemplarOf("two", 10, 2), exemplarOf("one", 10, 1), exemplarOf("late", 5, 1))
	f.commit(sample{`{a="b"}`, 20, 2})
	want := []string{`{a="b"} {trace_id="late"} 5 1`, `{a="b"} {trace_id="one"} 10 1`, `{a="b"} {trace_id="two"} 10 2`}
	require.Equal(t, want, f.exemplars(0, 100))
	f.kill()
	require.Equal(t, want, f.exemplars(0, 100))
	require.NoError(t, f.db.Flush(ctx))
	require.Equal(t, want, f.exemplars(0, 100))
	f.kill()
	require.Equal(t, want, f.exemplars(0, 100))
}

// kill leaves the database as a kill of the process does, and opens what is there.
func (f *fixture) kill() {
	f.t.Helper()
	disk := f.fs.KillClone()
	require.NoError(f.t, f.db.Close())
	f.fs, f.opts.FS = disk, disk
	f.open()
}

// A checkpoint has exemplars of the commits that it covers, and the log behind it those of later
// ones. What came, went, and came again behind it must not be in it: in its old place it would keep
// the later ones from theirs.
func TestExemplars_OfALogBehindACheckpointComeInTheirOrder(t *testing.T) {
	for name, before := range map[string]func(f *fixture){
		"running":             func(*fixture) {},
		"after a kill":        (*fixture).kill,
		"after a clean close": (*fixture).reopen,
		"after a snapshot": func(f *fixture) {
			require.NoError(f.t, tsdb.TakeHeadSnapshot(f.db))
			f.kill()
			require.NotEmpty(f.t, f.db.OpenReport().Snapshot)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, func(o *tsdb.Options) {
				manual(o)
				o.Head.MaxExemplars = 3
			})
			f.commit(sample{`{a="b"}`, 0, 1}, sample{`{a="b"}`, 4 * hour, 1})
			f.commitExemplars(`{a="b"}`, exemplarOf("before", 0, 0))
			for range 8 {
				f.reopen() // each begins a segment
			}
			for _, trace := range []string{"z", "1", "3", "a", "b", "1", "2", "3"} {
				f.commitExemplars(`{a="b"}`, exemplarOf(trace, 0, 0))
			}
			want := []string{`{a="b"} {trace_id="1"} 0 0`, `{a="b"} {trace_id="2"} 0 0`, `{a="b"} {trace_id="3"} 0 0`}
			require.Equal(t, want, f.exemplars(0, 0))
			before(f)
			require.NoError(t, f.db.Compact(ctx))
			require.EqualValues(t, 1, f.db.Stats().Checkpoints)
			f.opts.Head.SnapshotThreshold = -1
			f.kill()
			require.Equal(t, want, f.exemplars(0, 0))
		})
	}
}

// The number that exemplars of another engine get, which has no commits, is that of the newest one
// before them. So a checkpoint that covers no segment of theirs has them only behind all others
// that came before.
func TestExemplars_OfAnotherEngineBehindACheckpointComeInTheirOrder(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Head.MaxExemplars = 3
	})
	f.commit(sample{`{a="b"}`, 0, 1}, sample{`{a="b"}`, 4 * hour, 1})
	for range 8 {
		f.reopen() // each begins a segment
	}
	f.commitExemplars(`{a="b"}`, exemplarOf("first", 0, 0))
	require.NoError(t, f.db.Close())
	segments := namesUnder(f.fs, "wal/0")
	var enc record.ExemplarEncoder
	theirs := enc.Append(enc.Begin(nil), 1000, 0, 0, labels.FromStrings("trace_id", "theirs"))
	name := fmt.Sprintf("wal/%08d", len(segments))
	require.NoError(t, written(name, string(foreignRecords(t, seriesRecord(1000, "a", "b"), theirs)))(f.fs))
	f.open()
	f.commitExemplars(`{a="b"}`, exemplarOf("third", 0, 0))
	require.NoError(t, f.db.Compact(ctx))
	require.EqualValues(t, 1, f.db.Stats().Checkpoints)
	require.Contains(t, namesUnder(f.fs, "wal/0"), segments[len(segments)-1], "the first one is behind the checkpoint")
	f.kill()
	f.commitExemplars(`{a="b"}`, exemplarOf("fourth", 0, 0))
	want := []string{`{a="b"} {trace_id="theirs"} 0 0`, `{a="b"} {trace_id="third"} 0 0`, `{a="b"} {trace_id="fourth"} 0 0`}
	require.Equal(t, want, f.exemplars(0, 0))
}

// What another commit is about to bring is no repeat yet: that commit may fail.
func TestExemplars_OfACommitThatFailsAreNoRepeats(t *testing.T) {
	f := newFixture(t, manual)
	f.commit(sample{`{a="b"}`, 10, 1})
	first, second := f.db.Appender(), f.db.Appender()
	_, err := first.AppendExemplar(0, series(t, `{a="b"}`), exemplarOf("x", 5, 1))
	require.NoError(t, err)
	var once sync.Once
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind != tsdbtest.OpWrite || !strings.Contains(op.Name, "wal/") {
			return nil
		}
		once.Do(func() {
			_, err := second.AppendExemplar(0, series(t, `{a="b"}`), exemplarOf("x", 5, 1))
			require.NoError(t, err)
		})
		return syscall.ENOSPC
	})
	_, err = first.Commit(ctx)
	require.ErrorIs(t, err, tsdb.ErrNotCommitted)
	f.fs.SetHook(nil)
	_, err = second.Append(0, series(t, `{a="b"}`), 20, 1)
	require.NoError(t, err)
	_, err = second.Commit(ctx)
	require.NoError(t, err)
	require.Len(t, f.exemplars(0, 10), 1)
}
