package tsdb_test

import (
	"io/fs"
	"math"
	"path"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/labels"
)

// Late samples in all that is beside append and query: numbers, reports, copies, readers.

func withWindow(o *tsdb.Options) {
	manual(o)
	o.Head.OutOfOrderWindow = time.Hour
}

// lateFixture has samples in order and late ones, of a series that has both and of one that has
// late ones only.
func lateFixture(t *testing.T) (f *fixture, base int64) {
	f = newFixture(t, withWindow)
	base = testNow.UnixMilli()
	f.commit(sample{`{a="b"}`, base, 1})
	f.commit(sample{`{a="b"}`, base - 10*minute, 2}, sample{`{a="b"}`, base - 20*minute, 3})
	require.NoError(t, f.db.Flush(ctx))
	f.commit(sample{`{a="b"}`, base + minute, 4})
	f.commit(sample{`{a="b"}`, base - 5*minute, 5}, sample{`{a="late"}`, base - 30*minute, 6})
	return f, base
}

func TestStats_CountLateSamples(t *testing.T) {
	f, base := lateFixture(t)
	app := f.db.Appender()
	_, err := app.AppendSample(0, series(t, `{a="h"}`), tsdb.Sample{T: base - 40*minute, H: histtest.Draw(modelPick(1))})
	require.NoError(t, err)
	_, err = app.Append(0, series(t, `{a="b"}`), base-2*hour, 1)
	require.ErrorIs(t, err, tsdb.ErrTooOld)
	_, err = app.Append(0, series(t, `{a="b"}`), base-5*minute, 1)
	require.ErrorIs(t, err, tsdb.ErrDuplicateSample)
	_, err = app.Commit(ctx)
	require.NoError(t, err)

	s := f.db.Stats()
	require.EqualValues(t, []uint64{7, 5, 1}, []uint64{s.SamplesAppended, s.LateSamplesAppended, s.LateHistogramsAppended})
	require.EqualValues(t, []uint64{1, 0, 1, 0}, []uint64{s.SamplesTooOld, s.HistogramsTooOld, s.SamplesDuplicate, s.SamplesOutOfBounds})
	require.EqualValues(t, []int64{3, 3, 1}, []int64{s.LateSeries, s.LateSamples, int64(s.LateFlushes)})
	require.Positive(t, s.LateBytes)
	require.Positive(t, s.LateLog.Bytes)
	require.Equal(t, []int64{base + minute - hour, base + 1}, []int64{s.AcceptsFrom, s.AcceptsInOrderFrom})
	require.NoError(t, f.db.SetOutOfOrderWindow(0))
	require.Equal(t, base+1, f.db.Stats().AcceptsFrom)

	require.NoError(t, f.db.Flush(ctx))
	after := f.db.Stats()
	require.EqualValues(t, []int64{0, 0, 0, 2}, []int64{after.LateSeries, after.LateSamples, after.LateBytes, int64(after.LateFlushes)})
}

func TestStats_HeadSizeHasLateSamples(t *testing.T) {
	f := newFixture(t, withWindow)
	f.commit(sample{`{a="b"}`, hour, 1})
	before := f.db.Stats()
	for i := range int64(1000) {
		f.commit(sample{`{a="b"}`, i * 100, float64(i)})
	}
	after := f.db.Stats()
	require.Positive(t, after.LateBytes)
	require.InDelta(t, after.LateBytes, after.HeadSizeBytes-before.HeadSizeBytes, float64(after.LateBytes)/10+4096)
}

// Late samples count for the budget, and become blocks before they take much of it.
func TestBudget_HasLateSamples(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		withWindow(o)
		o.Head.MaxBytes, o.Blocks.Manual = 1<<20, false
	})
	f.commit(sample{`{a="b"}`, hour, 1})
	for i := int64(0); f.db.Stats().LateBytes < 1<<20; i++ {
		f.commit(sample{`{a="b"}`, hour - 1 - i%hour, float64(i)}, sample{`{a="c"}`, hour - 1 - i%hour, float64(i * i)})
	}
	app := f.db.Appender()
	var err error
	for i := 0; err == nil && i < 100; i++ { // bytes are looked at now and then
		_, err = app.Append(0, labels.FromStrings("a", strconv.Itoa(i)), hour, 1)
	}
	require.ErrorIs(t, err, tsdb.ErrLimit)
	require.NoError(t, app.Rollback())
	f.clock.Advance(2 * time.Second)
	require.EqualValues(t, 1, f.db.Stats().LateFlushes)
	require.Zero(t, f.db.Stats().LateBytes)
}

func TestOpenReport_TellsOfLateSamples(t *testing.T) {
	f, _ := lateFixture(t)
	want := f.all()
	f.reopen()
	r := f.db.OpenReport()
	require.True(t, r.Clean(), "%+v", r)
	require.EqualValues(t, 2, r.LateSamples, "both logs have them")
	require.EqualValues(t, []uint64{0, 0, 0}, []uint64{r.LateUnknown, r.LateInvalid, r.LateVoid})
	require.Positive(t, r.LateSegments)
	require.Positive(t, r.LateBytes)
	require.False(t, r.LateLogRewritten)
	require.Equal(t, want, f.all())

	// A torn end of it costs nothing: the log has what is cut off.
	require.NoError(t, f.db.Close())
	name := lastOf(t, f.fs, "data/wbl")
	for _, cut := range []int{1, 9} {
		data, err := f.fs.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, f.fs.WriteFile(name, data[:len(data)-cut]))
		f.open()
		r = f.db.OpenReport()
		require.True(t, r.Clean(), "%+v", r)
		require.True(t, r.LateLogRewritten)
		require.Len(t, r.Damages, 1)
		require.Contains(t, r.Damages[0].File, "wbl")
		require.True(t, r.Damages[0].Tail)
		require.Equal(t, want, f.all())
		require.NoError(t, f.db.Close())
		name = lastOf(t, f.fs, "data/wbl")
	}
	f.open()
}

// lastOf returns the last file in a directory that has something in it.
func lastOf(t *testing.T, disk fileutil.FS, dir string) (name string) {
	t.Helper()
	entries, err := disk.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if size, err := fileutil.EntrySize(e); err == nil && size > 8 {
			name = path.Join(dir, e.Name())
		}
	}
	require.NotEmpty(t, name)
	return name
}

func TestSnapshot_HasLateSamples(t *testing.T) {
	f, base := lateFixture(t)
	require.NoError(t, f.db.Delete(ctx, base-6*minute, base-5*minute, labels.Equal("a", "b")))
	f.commit(sample{`{a="b"}`, base - 7*minute, 7})
	want := f.all()
	require.NoError(t, f.db.Snapshot(ctx, "copy"))
	f.commit(sample{`{a="b"}`, base - 8*minute, 8}, sample{`{a="other"}`, base - 8*minute, 8})
	after := f.all()

	copied, err := tsdb.Open("copy", f.opts)
	require.NoError(t, err)
	report := copied.OpenReport()
	require.True(t, report.Clean() && len(report.Damages) == 0 && report.LateVoid == 0, "%+v", report)
	require.Equal(t, want, dump(t, copied, math.MinInt64, math.MaxInt64))
	for range 2 { // once flushed they do not come back
		require.NoError(t, copied.Flush(ctx))
		require.Equal(t, want, dump(t, copied, math.MinInt64, math.MaxInt64))
		require.NoError(t, copied.Close())
		copied, err = tsdb.Open("copy", f.opts)
		require.NoError(t, err)
		require.Zero(t, copied.Stats().LateSamples)
		require.Equal(t, want, dump(t, copied, math.MinInt64, math.MaxInt64))
	}
	require.NoError(t, copied.Close())
	require.Equal(t, after, f.all())
}

// A copy behind a checkpoint has late samples from the out-of-order log only.
func TestSnapshot_BehindACheckpoint_HasLateSamples(t *testing.T) {
	f := newFixture(t, withWindow)
	f.commit(sample{`{a="b"}`, 0, 0})
	f.commit(sample{`{a="b"}`, 4 * hour, 1})
	f.commit(sample{`{a="b"}`, 4*hour - 10*minute, 2})
	q, err := f.db.Querier(0, 5*hour) // late samples stay in memory for it
	require.NoError(t, err)
	require.NoError(t, f.db.Compact(ctx))
	f.commit(sample{`{a="b"}`, 4*hour - 20*minute, 3})
	want := f.all()
	require.NoError(t, f.db.Snapshot(ctx, "copy"))
	require.NoError(t, q.Close())
	r, err := tsdb.OpenReadOnly("copy", f.opts)
	require.NoError(t, err)
	require.Equal(t, want, readerDump(t, r))
	require.NoError(t, r.Close())
}

// meddlingFS does something once, when a name is opened or listed.
type meddlingFS struct {
	fileutil.FS
	name string
	do   func()
}

func (m *meddlingFS) meddle(name string) {
	if do := m.do; do != nil && name == m.name {
		m.do = nil
		do()
	}
}

func (m *meddlingFS) Open(name string) (fileutil.File, error) {
	m.meddle(name)
	return m.FS.Open(name)
}

func (m *meddlingFS) ReadDir(name string) ([]fs.DirEntry, error) {
	m.meddle(name)
	return m.FS.ReadDir(name)
}

func TestReader_SeesLateSamplesBesideTheirFlush(t *testing.T) {
	places := func(t *testing.T, f *fixture) []string {
		return []string{lastOf(t, f.fs, "data/wal"), "data/wal", "data/wbl", lastOf(t, f.fs, "data/wbl"), "data/chunks_head", "data"}
	}
	sample0, _ := lateFixture(t)
	for i := range places(t, sample0) {
		f, base := lateFixture(t)
		name := places(t, f)[i]
		want := f.all()
		disk := &meddlingFS{FS: f.fs, name: name, do: func() {
			require.NoError(t, f.db.Flush(ctx))
			f.commit(sample{`{a="b"}`, base - 3*minute, 9})
		}}
		opts := *f.opts
		opts.FS = disk
		r, err := tsdb.OpenReadOnly(fixtureDir, &opts)
		require.NoError(t, err, name)
		require.Nil(t, disk.do, name)
		got := readerDump(t, r)
		if len(got[`{a="b"}`]) == len(want[`{a="b"}`]) { // the commit behind the flush may be seen, or not
			require.Equal(t, want, got, name)
		} else {
			require.Equal(t, f.all(), got, name)
		}
		require.NoError(t, r.Refresh(ctx))
		require.Equal(t, f.all(), readerDump(t, r), name)
		require.NoError(t, r.Close())
	}
}

func TestRetention_ByBytes_CountsTheOutOfOrderLog(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		withWindow(o)
		o.Blocks.RetentionBytes = 1 << 20
	})
	f.commit(sample{`{a="b"}`, 0, 1})
	require.NoError(t, f.db.Flush(ctx))
	f.commit(sample{`{a="b"}`, hour, 1})
	require.NoError(t, f.db.Compact(ctx))
	require.Len(t, f.db.Blocks(), 1)
	require.NoError(t, f.fs.WriteFile("data/wbl/strange", make([]byte, 1<<20)))
	require.NoError(t, f.db.Compact(ctx))
	require.Empty(t, f.db.Blocks())
	require.NoError(t, f.fs.Remove("data/wbl/strange"))
}

func TestCardinality_HasSeriesWithLateSamplesOnly(t *testing.T) {
	f, _ := lateFixture(t)
	c, err := f.db.Cardinality(ctx, tsdb.CardinalityOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 2, c.Series)
}
