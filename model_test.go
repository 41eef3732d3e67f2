package tsdb_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// The engine against the obvious one: a map. Random appends in several Appenders at a
// time, commits, rollbacks, queries, reopens, kills and power cuts; every answer is
// compared, and everything after each reopen. The options are drawn anew at each
// reopen: they never change an answer.

const (
	modelSeries    = 6
	modelAppenders = 3
)

// modelSample is a sample on its way in an Appender.
type modelSample struct {
	series int
	t      int64
	v      float64
}

type model struct {
	*rapid.T
	fs    *tsdbtest.MemFS
	clock *tsdbtest.Clock
	db    *tsdb.DB

	apps   [modelAppenders]*tsdb.Appender
	staged [modelAppenders][]modelSample
	refs   [modelSeries]tsdb.SeriesRef
	data   [modelSeries][]point // committed
}

func modelLabels(i int) labels.Labels {
	return labels.FromStrings("__name__", "m", "i", fmt.Sprint(i), "odd", fmt.Sprint(i%2))
}

func (m *model) newest(series int) (point, bool) {
	if d := m.data[series]; len(d) > 0 {
		return d[len(d)-1], true
	}
	return point{}, false
}

func (m *model) open() {
	opts := &tsdb.Options{FS: m.fs, Clock: m.clock}
	opts.Limits.MaxFuture = -1
	opts.Blocks.Range = time.Minute
	opts.Head.SamplesPerChunk = rapid.SampledFrom([]int{16, 30, 120}).Draw(m.T, "samples a chunk")
	opts.Head.ReplayWorkers = rapid.IntRange(1, 4).Draw(m.T, "workers")
	opts.WAL.SegmentSize = rapid.SampledFrom([]int64{32 << 10, 96 << 10, 1 << 20}).Draw(m.T, "segment")
	opts.WAL.Compression = rapid.SampledFrom([]tsdb.Compression{tsdb.CompressionSnappy, tsdb.CompressionZstd, tsdb.CompressionNone}).Draw(m.T, "compression")
	opts.WAL.Sync = rapid.SampledFrom([]tsdb.SyncPolicy{tsdb.SyncCommit(), tsdb.SyncInterval(time.Hour), tsdb.SyncRotate(), tsdb.SyncNever()}).Draw(m.T, "sync")
	db, err := tsdb.Open("data", opts)
	require.NoError(m, err)
	m.db = db
	rep := db.OpenReport()
	require.True(m, rep.Clean(), "%+v", rep)
	m.apps, m.staged = [modelAppenders]*tsdb.Appender{}, [modelAppenders][]modelSample{}
	for i := range m.refs {
		if len(m.data[i]) == 0 {
			m.refs[i] = 0 // the log never saw it, so another series may get it
		}
	}
}

// Append stages a sample, biased to where decisions change: around the newest one and
// around the ends of chunks' ranges.
func (m *model) Append(t *rapid.T) {
	a := rapid.IntRange(0, modelAppenders-1).Draw(t, "appender")
	i := rapid.IntRange(0, modelSeries-1).Draw(t, "series")
	newest, any := m.newest(i)
	base := int64(0)
	if any {
		base = newest.T
	}
	ts := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) int64 { return base + rapid.Int64Range(-1, 3).Draw(t, "near") }),
		rapid.Custom(func(t *rapid.T) int64 { return base + rapid.Int64Range(1, 20_000).Draw(t, "step") }),
		rapid.Custom(func(t *rapid.T) int64 { return (base/60_000+1)*60_000 + rapid.Int64Range(-1, 1).Draw(t, "edge") }),
	).Draw(t, "t")
	v := rapid.OneOf(rapid.SampledFrom([]float64{0, 1, math.NaN(), math.Copysign(0, -1)}), rapid.Float64()).Draw(t, "v")
	m.append(t, a, modelSample{i, ts, v})
}

// Burst appends a run of samples to one series, so that chunks fill up.
func (m *model) Burst(t *rapid.T) {
	a := rapid.IntRange(0, modelAppenders-1).Draw(t, "appender")
	i := rapid.IntRange(0, modelSeries-1).Draw(t, "series")
	newest, any := m.newest(i)
	ts := int64(-30_000)
	if any {
		ts = newest.T
	}
	step := rapid.Int64Range(1, 3000).Draw(t, "step")
	for k := range rapid.IntRange(10, 80).Draw(t, "n") {
		ts += step
		m.append(t, a, modelSample{i, ts, float64(k)})
	}
}

func (m *model) append(t *rapid.T, a int, s modelSample) {
	if m.apps[a] == nil {
		m.apps[a] = m.db.Appender()
	}
	ref := tsdb.SeriesRef(0)
	if rapid.Bool().Draw(t, "by ref") {
		ref = m.refs[s.series]
	}
	got, err := m.apps[a].Append(ref, modelLabels(s.series), s.t, s.v)
	want := m.judge(s)
	newest, any := m.newest(s.series)
	isNew := !any || s.t > newest.T // else it repeats what is committed, whatever was staged before
	if n := len(m.staged[a]); isNew && n > 0 && m.staged[a][n-1].series == s.series {
		want = judgeAgainst(s, point{m.staged[a][n-1].t, math.Float64bits(m.staged[a][n-1].v)})
	}
	require.Equal(t, want, err)
	if err == nil {
		m.refs[s.series] = got
		m.staged[a] = append(m.staged[a], s)
	}
}

// judge says what Append or Commit must answer for a sample, with what is committed.
func (m *model) judge(s modelSample) error {
	newest, any := m.newest(s.series)
	if !any {
		return nil
	}
	return judgeAgainst(s, newest)
}

func judgeAgainst(s modelSample, newest point) error {
	switch {
	case s.t < newest.T:
		return tsdb.ErrOutOfOrder
	case s.t == newest.T && math.Float64bits(s.v) != newest.V:
		return tsdb.ErrDuplicateSample
	default:
		return nil
	}
}

func (m *model) Commit(t *rapid.T) {
	a := rapid.IntRange(0, modelAppenders-1).Draw(t, "appender")
	if m.apps[a] == nil {
		t.Skip("nothing appended")
	}
	want := tsdb.CommitResult{}
	for i, s := range m.staged[a] {
		if err := m.judge(s); err != nil {
			want.Rejected = append(want.Rejected, tsdb.Reject{Index: i, Err: err})
			continue
		}
		if newest, any := m.newest(s.series); !any || s.t > newest.T {
			m.data[s.series] = append(m.data[s.series], point{s.t, math.Float64bits(s.v)})
			want.Samples++
		}
	}
	got, err := m.apps[a].Commit(ctx)
	require.NoError(t, err)
	require.Equal(t, want, got)
	m.apps[a], m.staged[a] = nil, nil
}

func (m *model) Rollback(t *rapid.T) {
	a := rapid.IntRange(0, modelAppenders-1).Draw(t, "appender")
	if m.apps[a] == nil {
		t.Skip("nothing appended")
	}
	require.NoError(t, m.apps[a].Rollback())
	m.apps[a], m.staged[a] = nil, nil
}

// WriteChunks puts full chunks into files, as the loop does in time.
func (m *model) WriteChunks(t *rapid.T) {
	require.NoError(t, tsdb.WriteHeadChunks(m.db))
}

func (m *model) Reopen(t *rapid.T) {
	require.NoError(t, m.db.Close())
	m.open()
	m.compare(t, math.MinInt64, math.MaxInt64)
}

// Kill ends the process without a word: what was written stays.
func (m *model) Kill(t *rapid.T) {
	m.crash(t, m.fs.KillClone())
}

// PowerCut comes after a Sync, so that nothing committed may be missing.
func (m *model) PowerCut(t *rapid.T) {
	require.NoError(t, m.db.Sync())
	seed := rapid.Uint64().Draw(t, "seed")
	m.crash(t, m.fs.CrashClone(tsdbtest.CrashOptions{Seed: seed}))
}

func (m *model) crash(t *rapid.T, disk *tsdbtest.MemFS) {
	old := m.db
	m.fs = disk
	m.open()
	require.NoError(t, old.Close()) // on the disk that is gone; it must only not leak
	m.compare(t, math.MinInt64, math.MaxInt64)
}

func (m *model) Query(t *rapid.T) {
	mint := rapid.Int64Range(-70_000, 200_000).Draw(t, "mint")
	maxt := rapid.Int64Range(-70_000, 400_000).Draw(t, "maxt")
	m.compare(t, mint, maxt)
	odd := rapid.IntRange(0, 1).Draw(t, "odd")
	m.compare(t, mint, maxt, labels.Equal("odd", fmt.Sprint(odd)))
	re, err := labels.Regexp("i", rapid.SampledFrom([]string{"[0-2]", "1|5", ".*", "[^3]"}).Draw(t, "regex"))
	require.NoError(t, err)
	m.compare(t, mint, maxt, re, labels.NotEqual("i", "2"))
}

func (m *model) compare(t *rapid.T, mint, maxt int64, ms ...*labels.Matcher) {
	want := map[string][]point{}
	for i, data := range m.data {
		ls := modelLabels(i)
		match := true
		for _, matcher := range ms {
			match = match && matcher.Matches(ls.Get(matcher.Name()))
		}
		for _, p := range data {
			if match && p.T >= mint && p.T <= maxt {
				want[ls.String()] = append(want[ls.String()], p)
			}
		}
	}
	q, err := m.db.Querier(mint, maxt)
	require.NoError(t, err)
	got, err := readAll(q, ms...)
	require.NoError(t, errors.Join(err, q.Close()))
	require.Equal(t, want, got)
}

func (m *model) Check(t *rapid.T) {
	require.NoError(t, m.db.Health())
}

func TestModel_TheEngineEqualsAMap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{T: rt, fs: tsdbtest.NewMemFS(), clock: tsdbtest.NewClock(testNow)}
		m.open()
		rt.Repeat(rapid.StateMachineActions(m))
		require.NoError(rt, m.db.Close())
	})
}
