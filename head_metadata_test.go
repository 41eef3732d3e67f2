package tsdb_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
)

var (
	requests = tsdb.Metadata{Type: tsdb.MetricCounter, Unit: "requests", Help: "Requests so far."}
	sizes    = tsdb.Metadata{Type: tsdb.MetricGauge, Unit: "bytes", Help: "Größe."}
)

// metadataOf is what a database or a Reader says, by labels.
func metadataOf(t require.TestingT, db interface {
	Querier(mint, maxt int64) (*tsdb.Querier, error)
}, ms ...*labels.Matcher) map[string]tsdb.Metadata {
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	list, err := q.Metadata(ctx, ms...)
	require.NoError(t, err)
	all := map[string]tsdb.Metadata{}
	for i, m := range list {
		if i > 0 {
			require.Negative(t, labels.Compare(list[i-1].Labels, m.Labels), "sorted by labels")
		}
		all[m.Labels.String()] = m.Metadata
	}
	require.Len(t, all, len(list))
	return all
}

// describe commits metadata alone.
func (f *fixture) describe(selector string, m tsdb.Metadata) {
	f.t.Helper()
	app := f.db.Appender()
	_, err := app.SetMetadata(0, series(f.t, selector), m)
	require.NoError(f.t, err)
	_, err = app.Commit(ctx)
	require.NoError(f.t, err)
}

func TestMetadata_ComesBackAfterARestart(t *testing.T) {
	f := newFixture(t, nil)
	app := f.db.Appender()
	ref, err := app.Append(0, series(t, `{a="b"}`), 10, 1)
	require.NoError(t, err)
	same, err := app.SetMetadata(ref, labels.Labels{}, requests)
	require.NoError(t, err)
	require.Equal(t, ref, same)
	require.Empty(t, metadataOf(t, f.db), "not committed")
	_, err = app.Commit(ctx)
	require.NoError(t, err)
	f.describe(`{a="c"}`, sizes)

	want := map[string]tsdb.Metadata{`{a="b"}`: requests, `{a="c"}`: sizes}
	check := func() {
		t.Helper()
		require.Equal(t, want, metadataOf(t, f.db))
		require.Equal(t, map[string]tsdb.Metadata{`{a="c"}`: sizes}, metadataOf(t, f.db, labels.NotEqual("a", "b")))
		require.Equal(t, 2, f.db.Stats().SeriesWithMetadata)
	}
	check()
	f.reopen()
	check()
	require.Zero(t, f.db.OpenReport().MetadataUnknown)
	r, err := tsdb.OpenReadOnly(fixtureDir, f.opts)
	require.NoError(t, err)
	require.Equal(t, want, metadataOf(t, r))
	require.NoError(t, r.Close())

	killed := *f
	killed.fs = f.fs.KillClone()
	killed.opts = &tsdb.Options{FS: killed.fs, Clock: f.clock}
	killed.open()
	require.Equal(t, want, metadataOf(t, killed.db))
	f.commit(sample{`{a="c"}`, 20, 1})
	require.NoError(t, killed.db.Close())
}

func TestSetMetadata_LogsWhatIsNew(t *testing.T) {
	f := newFixture(t, nil)
	f.describe(`{a="b"}`, requests)
	before := f.db.Stats().Log.Bytes
	f.describe(`{a="b"}`, requests)
	f.describe(`{a="b"}`, tsdb.Metadata{})
	require.Equal(t, before, f.db.Stats().Log.Bytes, "nothing is new")
	f.reopen()
	before = f.db.Stats().Log.Bytes
	f.describe(`{a="b"}`, requests)
	require.Equal(t, before, f.db.Stats().Log.Bytes, "nor after a restart")

	app := f.db.Appender()
	for _, m := range []tsdb.Metadata{sizes, requests, sizes, {Help: "only help"}, requests} {
		_, err := app.SetMetadata(0, series(t, `{a="b"}`), m)
		require.NoError(t, err)
	}
	_, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, map[string]tsdb.Metadata{`{a="b"}`: requests}, metadataOf(t, f.db), "the last one")
	f.describe(`{a="b"}`, tsdb.Metadata{Type: 200, Unit: "x"})
	require.Equal(t, map[string]tsdb.Metadata{`{a="b"}`: {Unit: "x"}}, metadataOf(t, f.db), "of an unknown type")
}

func TestSetMetadata_OfARolledBackAppenderIsNotThere(t *testing.T) {
	f := newFixture(t, nil)
	f.describe(`{a="b"}`, requests)
	app := f.db.Appender()
	for _, selector := range []string{`{a="b"}`, `{a="c"}`} {
		_, err := app.SetMetadata(0, series(t, selector), sizes)
		require.NoError(t, err)
	}
	require.NoError(t, app.Rollback())
	require.Equal(t, map[string]tsdb.Metadata{`{a="b"}`: requests}, metadataOf(t, f.db))
	require.Equal(t, 1, f.db.Stats().Series)
	f.reopen()
	require.Equal(t, map[string]tsdb.Metadata{`{a="b"}`: requests}, metadataOf(t, f.db))
}

func TestSetMetadata_Errors(t *testing.T) {
	f := newFixture(t, nil)
	b := series(t, `{a="b"}`)
	long := strings.Repeat("x", 2049)
	app := f.db.Appender()
	for _, c := range []struct {
		name string
		ref  tsdb.SeriesRef
		ls   labels.Labels
		m    tsdb.Metadata
		want error
	}{
		{"help of other bytes", 0, b, tsdb.Metadata{Help: "\xff"}, tsdb.ErrInvalidMetadata},
		{"unit of other bytes", 0, b, tsdb.Metadata{Unit: "\xff"}, tsdb.ErrInvalidMetadata},
		{"too long", 0, b, tsdb.Metadata{Unit: long, Help: long}, tsdb.ErrLimit},
		{"as long as it may be", 0, b, tsdb.Metadata{Unit: long[1:], Help: long[1:]}, nil},
		{"no series", 77, labels.Labels{}, requests, tsdb.ErrNotFound},
		{"no name", 0, labels.Labels{}, requests, tsdb.ErrNotFound},
		{"label without a name", 0, labels.FromStrings("", "x"), requests, tsdb.ErrInvalidLabels},
	} {
		_, err := app.SetMetadata(c.ref, c.ls, c.m)
		require.ErrorIs(t, err, c.want, c.name)
	}
	_, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Len(t, metadataOf(t, f.db), 1, "what was refused does no harm")
	_, err = app.SetMetadata(0, b, requests)
	require.ErrorIs(t, err, tsdb.ErrClosed)

	q, err := f.db.Querier(0, 1)
	require.NoError(t, err)
	_, err = q.Metadata(ctx, nil)
	require.ErrorIs(t, err, tsdb.ErrInvalidArgument)
	done, cancel := context.WithCancel(ctx)
	cancel()
	_, err = q.Metadata(done)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, q.Close())
	_, err = q.Metadata(ctx)
	require.ErrorIs(t, err, tsdb.ErrClosed)
}

func TestMetadata_ARefusedSampleDoesNotRefuseIt(t *testing.T) {
	f := newFixture(t, nil)
	f.commit(sample{`{a="b"}`, 10, 1})
	first, second := f.db.Appender(), f.db.Appender()
	for _, app := range []*tsdb.Appender{first, second} {
		_, err := app.Append(0, series(t, `{a="b"}`), 20, 2)
		require.NoError(t, err)
	}
	_, err := second.Append(0, series(t, `{a="c"}`), math.MaxInt64, 2)
	require.ErrorIs(t, err, tsdb.ErrOutOfBounds)
	_, err = second.SetMetadata(0, series(t, `{a="b"}`), requests)
	require.NoError(t, err)
	_, err = second.SetMetadata(0, series(t, `{a="c"}`), sizes)
	require.NoError(t, err)
	_, err = first.Append(0, series(t, `{a="b"}`), 30, 2)
	require.NoError(t, err)
	_, err = first.Commit(ctx)
	require.NoError(t, err)
	res, err := second.Commit(ctx)
	require.NoError(t, err)
	require.Len(t, res.Rejected, 1)
	want := map[string]tsdb.Metadata{`{a="b"}`: requests, `{a="c"}`: sizes}
	require.Equal(t, want, metadataOf(t, f.db))
	f.reopen()
	require.Equal(t, want, metadataOf(t, f.db))
	require.Equal(t, map[string][]point{`{a="b"}`: points(10, 1, 20, 2, 30, 2)}, f.all())
}

func TestReplay_MetadataOfForeignLogs(t *testing.T) {
	meta := func(ref uint64, m tsdb.Metadata) []byte {
		return record.AppendMetadata(record.BeginMetadata(nil), ref, m)
	}
	f := withLog(t,
		[][]byte{seriesRecord(1, "a", "b"), meta(1, requests), meta(9, sizes), samplesRecord(1, 10, 1)},
		[][]byte{seriesRecord(5, "a", "b"), meta(5, sizes)},
		[][]byte{meta(6, requests), seriesRecord(6, "a", "c")},
		[][]byte{seriesRecord(7, "a", "nothing"), meta(7, requests), meta(7, tsdb.Metadata{})},
	)
	want := map[string]tsdb.Metadata{`{a="b"}`: sizes, `{a="c"}`: requests}
	require.Equal(t, want, metadataOf(t, f.db))
	rep := f.db.OpenReport()
	require.EqualValues(t, 1, rep.MetadataUnknown)
	require.True(t, rep.Clean())
	f.describe(`{a="b"}`, requests)
	want[`{a="b"}`] = requests
	f.reopen()
	require.Equal(t, want, metadataOf(t, f.db))
	// A checkpoint keeps the order between a series' two numbers.
	require.NoError(t, f.db.Flush(ctx))
	f.commit(sample{`{a="b"}`, 20, 1})
	require.Equal(t, want[`{a="b"}`], metadataOf(t, f.db)[`{a="b"}`])
	f.reopen()
	require.Equal(t, want[`{a="b"}`], metadataOf(t, f.db)[`{a="b"}`])
}

func TestMetadata_IsInSnapshotsOfTheHead(t *testing.T) {
	f := snapshotFixture(t)
	f.describe(`{a="b"}`, requests)
	f.describe(`{a="c"}`, requests)
	f.describe(`{a="no sample"}`, requests)
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	f.describe(`{a="c"}`, sizes)
	f.describe(`{a="later"}`, sizes)
	want := map[string]tsdb.Metadata{
		`{a="b"}`: requests, `{a="c"}`: sizes, `{a="no sample"}`: requests, `{a="later"}`: sizes,
	}
	require.Equal(t, want, metadataOf(t, f.db))
	f.commit(sample{`{a="no sample"}`, 60_000, 1}, sample{`{a="later"}`, 60_000, 1})
	require.NotEmpty(t, bothWays(t, f.fs, *f.opts).Snapshot)
	for _, threshold := range []int64{math.MaxInt64, -1} {
		o := *f.opts
		o.FS, o.Head.SnapshotThreshold = f.fs.KillClone(), threshold
		db, err := tsdb.Open(fixtureDir, &o)
		require.NoError(t, err)
		require.Equal(t, threshold > 0, db.OpenReport().Snapshot != "")
		require.Equal(t, want, metadataOf(t, db))
		require.Zero(t, db.OpenReport().MetadataUnknown)
		require.NoError(t, db.Close())
	}
	report, err := tsdb.Verify(ctx, fixtureDir, &tsdb.VerifyOptions{FS: f.fs})
	require.NoError(t, err)
	require.Empty(t, report.Findings)
}

func TestVerify_TellsOfMetadataWithoutASeries(t *testing.T) {
	f := withLog(t, [][]byte{
		seriesRecord(1, "a", "b"), record.AppendMetadata(record.BeginMetadata(nil), 9, requests),
		{byte(record.TypeMetadata), 1, 1, 9},
	})
	report, err := tsdb.Verify(ctx, fixtureDir, &tsdb.VerifyOptions{FS: f.fs})
	require.NoError(t, err)
	var notes, damages int
	for _, found := range report.Findings {
		if found.Severity == tsdb.SeverityDamage {
			damages++
		} else if strings.Contains(found.What, "1 entries of metadata") {
			notes++
		}
	}
	require.Equal(t, 1, damages, "a record that makes no sense")
	require.Equal(t, 1, notes)
	require.Len(t, f.db.OpenReport().Damages, 1)
}

// A commit of metadata stays needed when its samples are in a block.
func TestMetadata_OutlivesTheCheckpoint(t *testing.T) {
	f := newFixture(t, manual)
	app := f.db.Appender()
	_, err := app.SetMetadata(0, series(t, `{a="b"}`), requests)
	require.NoError(t, err)
	_, err = app.Append(0, series(t, `{a="b"}`), 1, 1)
	require.NoError(t, err)
	_, err = app.Commit(ctx)
	require.NoError(t, err)
	f.describe(`{a="gone"}`, sizes)
	f.commit(sample{`{a="b"}`, 2, 1})
	app = f.db.Appender()
	_, err = app.SetMetadata(0, series(t, `{a="b"}`), sizes)
	require.NoError(t, err)
	_, err = app.Append(0, series(t, `{a="b"}`), 3, 1)
	require.NoError(t, err)
	_, err = app.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, f.db.Stats().SeriesWithMetadata)
	f.commit(sample{`{a="b"}`, 10 * hour, 1})
	require.NoError(t, f.db.Flush(ctx))
	require.NotZero(t, f.db.Stats().Checkpoints)
	want := map[string]tsdb.Metadata{`{a="b"}`: sizes}
	require.Equal(t, want, metadataOf(t, f.db))
	require.Equal(t, 1, f.db.Stats().SeriesWithMetadata, "it went with its series")
	f.reopen()
	require.Equal(t, sizes, metadataOf(t, f.db)[`{a="b"}`])
	f.describe(`{a="gone"}`, requests)
	f.reopen()
	require.Equal(t, requests, metadataOf(t, f.db)[`{a="gone"}`])
}

// Commits of one series at a time: memory has what the log has.
func TestMetadata_OfManyWritersIsWhatTheLogHas(t *testing.T) {
	f := newFixture(t, nil)
	names := []labels.Labels{series(t, `{a="b"}`), series(t, `{a="c"}`), series(t, `{a="d"}`)}
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for k := range 60 {
				app := f.db.Appender()
				for _, ls := range names {
					if _, err := app.SetMetadata(0, ls, tsdb.Metadata{Unit: fmt.Sprint(w), Help: fmt.Sprint(k % 7)}); err != nil {
						t.Error(err)
					}
				}
				if _, err := app.Commit(ctx); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		all := metadataOf(t, f.db)
		require.LessOrEqual(t, len(all), len(names))
	}
	writers.Wait()
	want := metadataOf(t, f.db)
	require.Len(t, want, len(names))
	f.reopen()
	require.Equal(t, want, metadataOf(t, f.db))
}

// A commit may be written and not applied yet when a checkpoint begins that drops its records.
func TestMetadata_OfACommitThatIsBeingAppliedIsInTheCheckpoint(t *testing.T) {
	f := newFixture(t, manual)
	f.commit(sample{`{a="b"}`, 10, 1})
	app := f.db.Appender()
	_, err := app.SetMetadata(0, series(t, `{a="b"}`), requests)
	require.NoError(t, err)
	written, goOn := make(chan struct{}), make(chan struct{})
	tsdb.HoldApply(app, func() { close(written); <-goOn })
	done := make(chan error, 2)
	go func() {
		_, err := app.Commit(ctx)
		done <- err
	}()
	<-written
	go func() { done <- tsdb.Checkpoint(f.db) }()
	for tsdb.Waiting(f.db) == 0 { // the checkpoint does, for the commit
		runtime.Gosched()
	}
	close(goOn)
	require.NoError(t, <-done)
	require.NoError(t, <-done)
	require.Len(t, metadataOf(t, f.db), 1)
	f.kill()
	require.Len(t, metadataOf(t, f.db), 1)
}

// A series without a sample is there until blocks are made, behind a restart, too.
func TestMetadata_WithoutASampleStaysUntilBlocksAreMade(t *testing.T) {
	f := newFixture(t, manual)
	f.describe(`{a="only"}`, requests)
	want := map[string]tsdb.Metadata{`{a="only"}`: requests}
	for range 2 {
		look := tsdb.Flusher(f.db)
		look()
		look()
		require.Equal(t, want, metadataOf(t, f.db))
		f.kill()
	}
	f.commit(sample{`{a="b"}`, 1, 1}, sample{`{a="b"}`, 10 * hour, 1})
	require.NoError(t, f.db.Flush(ctx))
	require.Empty(t, metadataOf(t, f.db))
	require.Equal(t, 1, f.db.Stats().Series)

	// Also where there are blocks, none of which is of the head.
	f = newFixture(t, manual)
	backfill(t, f, `{a="b"}`, tsdb.Sample{T: 1, V: 1})
	f.describe(`{a="only"}`, requests)
	f.reopen()
	require.Len(t, f.db.Blocks(), 1)
	tsdb.Flusher(f.db)()
	require.Equal(t, want, metadataOf(t, f.db))
}

// Where there is no room it goes.
func TestMetadata_WithoutASampleMakesRoomForSeries(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Head.MaxSeries = 2
	})
	f.describe(`{a="1"}`, requests)
	f.describe(`{a="2"}`, requests)
	tsdb.Flusher(f.db)()
	require.Empty(t, metadataOf(t, f.db))
	f.commit(sample{`{a="3"}`, 1, 1}, sample{`{a="4"}`, 1, 1})
}

// Series whose samples are in blocks of late samples leave the head, whatever is known of them.
func TestMetadata_OfLateSeriesKeepsNoneInTheHead(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Head.OutOfOrderWindow = 24 * time.Hour
	})
	f.commit(sample{`{a="b"}`, 1, 1}, sample{`{a="b"}`, 10 * hour, 1})
	require.NoError(t, f.db.Flush(ctx))
	for round := range 3 {
		app := f.db.Appender()
		for i := range 10 {
			ls := labels.FromStrings("late", fmt.Sprint(round, " ", i))
			_, err := app.Append(0, ls, 5*hour, 1)
			require.NoError(t, err)
			_, err = app.SetMetadata(0, ls, requests)
			require.NoError(t, err)
		}
		_, err := app.Commit(ctx)
		require.NoError(t, err)
		require.NoError(t, f.db.Flush(ctx))
		tsdb.Flusher(f.db)()
		require.LessOrEqual(t, f.db.Stats().Series, 1, "round %d", round)
	}
}

// Nor do series stay that the log still has behind a restart, and whose samples are in blocks.
func TestMetadata_OfSeriesInBlocksKeepsNoneInTheHead(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.WAL.SegmentSize = 32 << 10
	})
	for i := range int64(40) {
		app := f.db.Appender()
		for k := range 50 {
			ls := labels.FromStrings("gone", fmt.Sprint(i, " ", k))
			_, err := app.Append(0, ls, i*hour/4, 1)
			require.NoError(t, err)
			_, err = app.SetMetadata(0, ls, requests)
			require.NoError(t, err)
		}
		_, err := app.Commit(ctx)
		require.NoError(t, err)
		tsdb.Flusher(f.db)()
	}
	before := f.db.Stats().Series
	f.kill()
	require.Greater(t, f.db.Stats().Series, before, "the log has them")
	tsdb.Flusher(f.db)()
	require.LessOrEqual(t, f.db.Stats().Series, before)
}
