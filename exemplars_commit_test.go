package tsdb_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

func TestAppendExemplar_ARefusedOneFailsNothingElse(t *testing.T) {
	f := newFixture(t, manual)
	f.commit(sample{`{a="b"}`, 100, 1})
	ls, app := series(t, `{a="b"}`), f.db.Appender()
	long := exemplar.Exemplar{Labels: labels.FromStrings("trace_id", strings.Repeat("é", 121))}
	twice := exemplar.Exemplar{Labels: labels.FromStrings("a", "1", "a", "2")}
	for _, c := range []struct {
		ls   labels.Labels
		e    exemplar.Exemplar
		want error
	}{
		{ls, long, exemplar.ErrLabelLength},
		{ls, twice, tsdb.ErrInvalidLabels},
		{ls, exemplar.Exemplar{Labels: labels.FromStrings("a", "\xff")}, tsdb.ErrInvalidLabels},
		{ls, exemplar.Exemplar{Value: 1, T: 50, HasT: true}, exemplar.ErrNoLabels},
		{labels.Labels{}, exemplarOf("x", 5, 1), tsdb.ErrNotFound},
		{labels.FromStrings("a", "\xff"), exemplarOf("x", 5, 1), tsdb.ErrInvalidLabels},
		{labels.FromStrings("a", strings.Repeat("x", 5000)), exemplarOf("x", 5, 1), tsdb.ErrLimit},
	} {
		_, err := app.AppendExemplar(0, c.ls, c.e)
		require.ErrorIs(t, err, c.want)
	}
	_, err := app.Append(0, ls, 100, 2)
	require.ErrorIs(t, err, tsdb.ErrDuplicateSample)
	ref, err := app.AppendExemplar(0, ls, exemplarOf("good", 50, 1))
	require.NoError(t, err)
	again, err := app.AppendExemplar(ref, labels.Labels{}, exemplarOf("by ref", -7, 1))
	require.NoError(t, err)
	require.Equal(t, ref, again)
	_, err = app.Append(ref, labels.Labels{}, 200, 1)
	require.NoError(t, err)
	_, err = app.Commit(ctx)
	require.NoError(t, err)
	_, err = app.AppendExemplar(0, ls, exemplarOf("over", 1, 1))
	require.ErrorIs(t, err, tsdb.ErrClosed)
	require.Equal(t, []string{`{a="b"} {trace_id="by ref"} -7 1`, `{a="b"} {trace_id="good"} 50 1`}, f.exemplars(math.MinInt64, math.MaxInt64))
	require.Equal(t, points(100, 1, 200, 1), f.all()[`{a="b"}`])
	s := f.db.Stats()
	require.Equal(t, []uint64{2, 6}, []uint64{s.ExemplarsAppended, s.ExemplarsRejected}, "who is asked for labels may have them")
	require.Equal(t, []int{2, 1, 100_000}, []int{s.Exemplars, s.ExemplarSeries, s.MaxExemplars})
}

// Whoever passes on what others sent allows them, for one Appender.
func TestAllowExemplarsWithoutLabels_TakesThoseWithoutLabels(t *testing.T) {
	f := newFixture(t, manual)
	ls, bare := series(t, `{a="b"}`), exemplar.Exemplar{Value: 1, T: 50, HasT: true}
	app := f.db.Appender()
	app.AllowExemplarsWithoutLabels(true)
	_, err := app.AppendExemplar(0, ls, bare)
	require.NoError(t, err)
	_, err = app.AppendExemplar(0, ls, exemplar.Exemplar{Labels: labels.FromStrings("", "x")})
	require.ErrorIs(t, err, tsdb.ErrInvalidLabels)
	app.AllowExemplarsWithoutLabels(false)
	_, err = app.AppendExemplar(0, ls, bare)
	require.ErrorIs(t, err, exemplar.ErrNoLabels)
	app.AllowExemplarsWithoutLabels(true)
	_, err = app.Commit(ctx)
	require.NoError(t, err)
	app.AllowExemplarsWithoutLabels(true) // it has ended: nothing happens
	for i := range int64(20) {
		allowing := f.db.Appender()
		allowing.AllowExemplarsWithoutLabels(true)
		_, err = allowing.Append(0, ls, i, 1)
		require.NoError(t, err)
		_, err = allowing.Commit(ctx)
		require.NoError(t, err)
		next := f.db.Appender()
		_, err = next.AppendExemplar(0, ls, bare)
		require.ErrorIs(t, err, exemplar.ErrNoLabels, "an Appender has it from no other one")
		require.NoError(t, next.Rollback())
	}
	want := []string{`{a="b"} {} 50 1`}
	require.Equal(t, want, f.exemplars(math.MinInt64, math.MaxInt64))
	for range 2 {
		f.kill()
		require.Equal(t, want, f.exemplars(math.MinInt64, math.MaxInt64))
		require.NoError(t, f.db.Flush(ctx))
	}
}

// Exemplars stay when the samples that came with them turn out to be late.
func TestExemplars_AreThereIfSamplesOfTheirCommitAreNot(t *testing.T) {
	f := newFixture(t, manual)
	slow := f.db.Appender()
	_, err := slow.Append(0, series(t, `{a="b"}`), 10, 1)
	require.NoError(t, err)
	_, err = slow.AppendExemplar(0, series(t, `{a="b"}`), exemplarOf("kept", 10, 1))
	require.NoError(t, err)
	f.commit(sample{`{a="b"}`, 20, 1})
	res, err := slow.Commit(ctx)
	require.NoError(t, err)
	require.Len(t, res.Rejected, 1)
	want := []string{`{a="b"} {trace_id="kept"} 10 1`}
	require.Equal(t, want, f.exemplars(0, 10))
	f.kill()
	require.Equal(t, want, f.exemplars(0, 10))
}

func TestExemplars_OfASeriesWithoutSamples(t *testing.T) {
	f := newFixture(t, manual)
	f.commitExemplars(`{a="only"}`, exemplarOf("x", 5, 1))
	want := []string{`{a="only"} {trace_id="x"} 5 1`}
	require.Empty(t, f.all())
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	f.commit(sample{`{a="only"}`, 1, 1})
	f.kill()
	require.NotEmpty(t, f.db.OpenReport().Snapshot)
	report := f.db.OpenReport()
	require.True(t, report.Clean())
	require.Equal(t, points(1, 1), f.all()[`{a="only"}`], "the log names it before the snapshot only")
	require.Equal(t, want, f.exemplars(0, 10))

	// It leaves the head, and its exemplars stay.
	require.NoError(t, f.db.Flush(ctx))
	f.commit(sample{`{a="other"}`, 9 * hour, 1})
	require.NoError(t, f.db.Flush(ctx))
	require.Equal(t, want, f.exemplars(0, 10))
	require.Equal(t, want, f.exemplars(0, 10, labels.Equal("a", "only"), labels.Equal("b", "")))
	require.Empty(t, f.exemplars(0, 10, labels.Equal("a", "other")))
	f.kill()
	require.Equal(t, want, f.exemplars(0, 10))
	require.Zero(t, f.db.OpenReport().ExemplarsUnknown)
}

func TestExemplars_RolledBackOnesAndTheirSeriesAreNotThere(t *testing.T) {
	f := newFixture(t, manual)
	app := f.db.Appender()
	_, err := app.AppendExemplar(0, series(t, `{a="b"}`), exemplarOf("x", 5, 1))
	require.NoError(t, err)
	require.NoError(t, app.Rollback())
	require.Empty(t, f.exemplars(0, 10))
	require.Zero(t, f.db.Stats().Series)
}

// A commit that fails takes its exemplars back: a later one brings them.
func TestExemplars_OfACommitThatFailsAreNotThere(t *testing.T) {
	f := newFixture(t, manual)
	f.commit(sample{`{a="b"}`, 1, 1})
	f.fs.SetCapacity(f.fs.Used())
	app := f.db.Appender()
	_, err := app.AppendExemplar(0, series(t, `{a="b"}`), exemplarOf("x", 5, 1))
	require.NoError(t, err)
	_, err = app.Commit(ctx)
	require.ErrorIs(t, err, tsdb.ErrNotCommitted)
	require.Empty(t, f.exemplars(0, 10))
	f.fs.SetCapacity(0)
	f.commitExemplars(`{a="b"}`, exemplarOf("x", 5, 1))
	want := []string{`{a="b"} {trace_id="x"} 5 1`}
	require.Equal(t, want, f.exemplars(0, 10))
	f.kill()
	require.Equal(t, want, f.exemplars(0, 10))
}

func TestExemplars_NoneAreKeptIfNobodyWantsThem(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Head.MaxExemplars = -1
	})
	f.commit(sample{`{a="b"}`, 1, 1})
	before := f.db.Stats()
	app := f.db.Appender()
	for _, ls := range []labels.Labels{series(t, `{a="b"}`), series(t, `{a="new"}`), {}} {
		ref, err := app.AppendExemplar(0, ls, exemplarOf("x", 5, 1))
		require.ErrorIs(t, err, tsdb.ErrExemplarsOff)
		require.Zero(t, ref)
	}
	_, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Empty(t, f.exemplars(0, 10))
	after := f.db.Stats()
	require.Equal(t, before.Log.Bytes, after.Log.Bytes, "nothing is logged")
	require.Equal(t, before.Series, after.Series)
	require.Zero(t, after.MaxExemplars)
}

func TestSetMaxExemplars_KeepsTheNewestInserts(t *testing.T) {
	f := newFixture(t, manual)
	for i, s := range []string{"a", "b", "a", "c"} {
		f.commitExemplars(fmt.Sprintf(`{s="%s"}`, s), exemplarOf(fmt.Sprint(i), int64(10-i), 0))
	}
	f.db.SetMaxExemplars(2)
	want := []string{`{s="a"} {trace_id="2"} 8 0`, `{s="c"} {trace_id="3"} 7 0`}
	require.Equal(t, want, f.exemplars(0, 100))
	f.db.SetMaxExemplars(0)
	require.Equal(t, 100_000, f.db.Stats().MaxExemplars)
	require.Equal(t, want, f.exemplars(0, 100))
	f.db.SetMaxExemplars(-1)
	require.Empty(t, f.exemplars(0, 100))
	f.db.SetMaxExemplars(3)
	f.commitExemplars(`{s="d"}`, exemplarOf("4", 4, 0))
	require.Equal(t, []string{`{s="d"} {trace_id="4"} 4 0`}, f.exemplars(0, 100))

	// The log still has them all.
	f.opts.Head.MaxExemplars = 4
	f.kill()
	require.Len(t, f.exemplars(0, 100), 4)
}

// A Querier sees what was committed before it was opened.
func TestQuerier_ExemplarsAreThoseOfItsSnapshot(t *testing.T) {
	f := newFixture(t, manual)
	f.commitExemplars(`{a="b"}`, exemplarOf("before", 5, 1))
	q, err := f.db.Querier(0, 10)
	require.NoError(t, err)
	f.commitExemplars(`{a="b"}`, exemplarOf("behind", 6, 1))
	found, err := q.Exemplars(ctx)
	require.NoError(t, err)
	require.Equal(t, []exemplar.Series{{Labels: series(t, `{a="b"}`), Exemplars: []exemplar.Exemplar{exemplarOf("before", 5, 1)}}}, found)
	_, err = q.Exemplars(ctx, nil)
	require.ErrorIs(t, err, tsdb.ErrInvalidArgument)
	require.NoError(t, q.Close())
	_, err = q.Exemplars(ctx)
	require.ErrorIs(t, err, tsdb.ErrClosed)
	require.Len(t, f.exemplars(0, 10), 2)
	require.Len(t, f.exemplars(6, 10), 1)
	require.Empty(t, f.exemplars(7, 10))
}

func TestReader_HasExemplars(t *testing.T) {
	f := newFixture(t, manual)
	f.commitExemplars(`{a="b"}`, exemplarOf("x", 5, 1))
	r, err := tsdb.OpenReadOnly(fixtureDir, f.opts)
	require.NoError(t, err)
	f.commitExemplars(`{a="b"}`, exemplarOf("y", 6, 1))
	count := func() int {
		q, err := r.Querier(0, 10)
		require.NoError(t, err)
		found, err := q.Exemplars(ctx)
		require.NoError(t, errors.Join(err, q.Close()))
		return len(found[0].Exemplars)
	}
	require.Equal(t, 1, count())
	require.NoError(t, r.Refresh(ctx))
	require.Equal(t, 2, count())
	require.NoError(t, r.Close())
}

// Many commit at once, some the same exemplars: after a kill there are the same, and of a ring that
// is full the same ones.
func TestExemplars_CommittedAtOnce_AreThereAfterAKill(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Head.MaxExemplars = 40
	})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 60 {
				app := f.db.Appender()
				for s := range 3 {
					ls := labels.FromStrings("s", fmt.Sprint((w*s)%4))
					if _, err := app.AppendExemplar(0, ls, exemplarOf(fmt.Sprint(i%25), int64(i%4), float64(w%2))); err != nil {
						panic(err)
					}
				}
				if _, err := app.Commit(ctx); err != nil {
					panic(err)
				}
				if w == 0 && i == 30 {
					if err := tsdb.TakeHeadSnapshot(f.db); err != nil {
						panic(err)
					}
				}
			}
		})
	}
	wg.Wait()
	want := f.exemplars(0, 10)
	require.Len(t, want, 40)
	f.kill()
	require.Equal(t, want, f.exemplars(0, 10))
	f.opts.Head.SnapshotThreshold = -1
	f.kill()
	require.Equal(t, want, f.exemplars(0, 10))
}

// After a power failure at any write the exemplars are those of a prefix of the commits.
func TestExemplars_AfterAPowerFailure_AreThoseOfAPrefix(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Head.MaxExemplars, o.WAL.Sync = 3, tsdb.SyncNever()
	})
	prefixes := [][]string{nil}
	var disks []*tsdbtest.MemFS
	more := int64(100)
	commit := func() {
		more++
		f.commitExemplars(`{a="b"}`, exemplarOf(fmt.Sprint(more), more, 0))
		prefixes = append(prefixes, f.exemplars(0, 1000))
	}
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpReadDir && strings.HasSuffix(op.Name, "/wal") { // before a checkpoint looks what there is
			commit()
		}
		if op.Kind == tsdbtest.OpCreate && strings.Contains(op.Name, "tmp-checkpoint") {
			for range 3 { // they push out what the checkpoint would have had
				commit()
			}
		}
		disks = append(disks, f.fs.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll}), f.fs.CrashClone(tsdbtest.CrashOptions{Seed: uint64(op.N)}))
		return nil
	})
	for i := range int64(12) {
		f.commit(sample{`{a="b"}`, i * hour, 1})
		commit()
		switch i % 4 {
		case 1:
			require.NoError(t, f.db.Flush(ctx))
		case 3:
			require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
		}
	}
	f.fs.SetHook(nil)
	for _, disk := range disks {
		opts := *f.opts
		opts.FS = disk
		g := &fixture{t: t, fs: disk, opts: &opts}
		g.open()
		require.Contains(t, prefixes, g.exemplars(0, 1000))
		require.NoError(t, g.db.Close())
	}
}

// One commit brings several of each of some new series, one after the other and in turn: each is of
// its own, and labels that are long are in memory once for those in a row.
func TestExemplars_OfNewSeriesInTurn(t *testing.T) {
	f := newFixture(t, manual)
	long := labels.FromStrings("a", strings.Repeat("x", 4000), "b", strings.Repeat("y", 4000))
	app := f.db.Appender()
	app.AllowExemplarsWithoutLabels(true)
	appendTo := func(ls labels.Labels, t0 int64) {
		_, err := app.AppendExemplar(0, ls, exemplar.Exemplar{T: t0})
		require.NoError(t, err)
	}
	for i := range int64(3) {
		appendTo(series(t, `{c="d"}`), i)
		appendTo(long, i)
	}
	appendTo(long, 3) // the tables have their room
	perOne := testing.AllocsPerRun(100, func() { appendTo(long, 4) })
	require.LessOrEqual(t, perOne, 1.0)
	_, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{`{c="d"} {} 0 0`, `{c="d"} {} 1 0`, `{c="d"} {} 2 0`}, f.exemplars(0, 9, labels.Equal("c", "d")))
	require.Len(t, f.exemplars(0, 9, labels.Equal("c", "")), 5)
}
