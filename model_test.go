package tsdb_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// The engine against the obvious one: a map. Random appends in several Appenders at a
// time, commits, rollbacks, deletes, queries, flushes, merges, reopens, kills and power
// cuts; every answer is compared, and everything after each reopen. The options are drawn
// anew at each reopen: they never change an answer. Bugs 40, 41, 42, 45 and 46 of the
// collection in docs/design are of a kind that this finds.

const (
	modelSeries    = 6
	modelAppenders = 3
)

// modelSample is a sample on its way in an Appender.
type modelSample struct {
	series int
	anySample
	ref tsdb.SeriesRef
}

type model struct {
	*rapid.T
	fs    *tsdbtest.MemFS
	clock *tsdbtest.Clock
	db    *tsdb.DB

	apps   [modelAppenders]*tsdb.Appender
	staged [modelAppenders][]modelSample
	refs   [modelSeries]tsdb.SeriesRef
	logged [modelSeries]tsdb.SeriesRef // of those, the newest that is in the log
	data   [modelSeries][]point        // committed
	last   [modelSeries]point          // the newest that was committed, by its digest, also when it is deleted
	any    [modelSeries]bool           // there is a last

	minValid int64                 // from where on samples are taken
	floor    int64                 // the highest minValid ever: below it the head may know less than last
	from     [modelAppenders]int64 // minValid when an Appender was made
}

func modelLabels(i int) labels.Labels {
	return labels.FromStrings("__name__", "m", "i", fmt.Sprint(i), "odd", fmt.Sprint(i%2))
}

func (m *model) newest(series int) (point, bool) { return m.last[series], m.any[series] }

func (m *model) open() {
	opts := &tsdb.Options{FS: m.fs, Clock: m.clock}
	opts.Limits.MaxFuture = -1
	opts.Blocks.Range, opts.Blocks.Manual = time.Minute, true
	opts.Blocks.MaxRange = rapid.SampledFrom([]time.Duration{time.Minute, 9 * time.Minute, 27 * time.Minute}).Draw(m.T, "longest block")
	opts.Head.SamplesPerChunk = rapid.SampledFrom([]int{16, 30, 120}).Draw(m.T, "samples a chunk")
	opts.Head.ReplayWorkers = rapid.IntRange(1, 4).Draw(m.T, "workers")
	opts.WAL.SegmentSize = rapid.SampledFrom([]int64{32 << 10, 96 << 10, 1 << 20}).Draw(m.T, "segment")
	opts.WAL.Compression = rapid.SampledFrom(compressions).Draw(m.T, "compression")
	opts.WAL.Sync = rapid.SampledFrom([]tsdb.SyncPolicy{tsdb.SyncCommit(), tsdb.SyncInterval(time.Hour), tsdb.SyncRotate(), tsdb.SyncNever()}).Draw(m.T, "sync")
	db, err := tsdb.Open("data", opts)
	require.NoError(m, err)
	m.db = db
	rep := db.OpenReport()
	require.True(m, rep.Clean() && rep.SamplesUnknown == 0, "%+v", rep)
	m.apps, m.staged = [modelAppenders]*tsdb.Appender{}, [modelAppenders][]modelSample{}
	m.refs = m.logged // what the log never saw another series may get
	m.minValid = math.MinInt64 + 1
	for _, b := range db.Blocks() {
		m.minValid = max(m.minValid, b.MaxTime)
	}
	m.floor = max(m.floor, m.minValid)
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
	m.append(t, a, modelSample{series: i, anySample: m.draw(t, ts)})
}

// draw makes a sample of any kind. Of histograms there are a few, so that some come again.
func (m *model) draw(t *rapid.T, ts int64) anySample {
	s := anySample{T: ts}
	if rapid.IntRange(0, 3).Draw(t, "started") == 0 {
		s.ST = ts - rapid.Int64Range(-1, 2).Draw(t, "since")
	}
	odd := []float64{0, 1, math.NaN(), math.Copysign(0, -1), math.Float64frombits(histogram.StaleNaN)}
	switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); kind {
	case 0:
		s.H = histtest.Draw(modelPick(rapid.Uint64Range(0, 7).Draw(t, "histogram")))
	case 1:
		s.FH = histtest.Floats(histtest.Draw(modelPick(rapid.Uint64Range(0, 7).Draw(t, "histogram"))))
	default:
		s.V = math.Float64bits(rapid.OneOf(rapid.SampledFrom(odd), rapid.Float64()).Draw(t, "v"))
	}
	return s
}

func modelPick(seed uint64) histtest.Pick { return rand.New(rand.NewPCG(seed, 1)).Int64N }

// HeadSnapshot takes a snapshot of the head, with which the next open begins.
func (m *model) HeadSnapshot(t *rapid.T) {
	require.NoError(t, tsdb.TakeHeadSnapshot(m.db))
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
	floats, r := rapid.Bool().Draw(t, "floats"), rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	var mixed mixedSeries
	for k := range rapid.IntRange(10, 80).Draw(t, "n") {
		ts += step
		s := &anySample{T: ts, V: math.Float64bits(float64(k))}
		if !floats {
			s = mixed.next(r, ts)
		}
		m.append(t, a, modelSample{series: i, anySample: *s})
	}
}

func (m *model) append(t *rapid.T, a int, s modelSample) {
	if s.T < m.floor && m.floor > m.minValid {
		return // the head may have forgotten what is deleted there, or not yet
	}
	if m.apps[a] == nil {
		m.apps[a], m.from[a] = m.db.Appender(), m.minValid
	}
	ref := tsdb.SeriesRef(0)
	if rapid.Bool().Draw(t, "by ref") {
		ref = m.refs[s.series]
	}
	got, err := m.apps[a].AppendSample(ref, modelLabels(s.series), s.sample())
	newest, any := m.newest(s.series)
	switch n := len(m.staged[a]); {
	case s.T < m.minValid && m.from[a] < m.minValid:
		// The Appender may not know yet; Commit does.
	case s.T < m.minValid:
		require.ErrorIs(t, err, tsdb.ErrOutOfBounds)
	case (!any || s.T > newest.T) && n > 0 && m.staged[a][n-1].series == s.series:
		// It does not repeat what is committed, so it counts what was staged before.
		last := m.staged[a][n-1]
		if err == nil && got != last.ref { // its series was idle and went since: Commit leaves it out
			require.Less(t, m.from[a], m.minValid)
			break
		}
		require.Equal(t, judgeAgainst(s, point{last.T, last.digest()}), err)
	default:
		require.Equal(t, m.judge(s), err)
	}
	if err == nil {
		m.refs[s.series], s.ref = got, got
		m.staged[a] = append(m.staged[a], s)
	}
}

// judge says what Append or Commit must answer for a sample that is not out of bounds, with
// what is committed.
func (m *model) judge(s modelSample) error {
	newest, any := m.newest(s.series)
	if !any {
		return nil
	}
	return judgeAgainst(s, newest)
}

func judgeAgainst(s modelSample, newest point) error {
	switch {
	case s.T < newest.T:
		return tsdb.ErrOutOfOrder
	case s.T == newest.T && s.digest() != newest.V:
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
	got, err := m.apps[a].Commit(ctx)
	require.NoError(t, err)
	rejected := map[int]error{}
	for _, r := range got.Rejected {
		rejected[r.Index] = r.Err
	}
	require.Len(t, rejected, len(got.Rejected))
	samples := 0
	for i, s := range m.staged[a] {
		newest, any := m.newest(s.series)
		switch {
		case s.T < m.minValid: // never; why is told by what the head still knows
			if err := rejected[i]; err == nil {
				require.True(t, any && s.T == newest.T && s.digest() == newest.V, "%+v was committed before %d", s, m.minValid)
			}
			continue
		case errors.Is(rejected[i], tsdb.ErrNotFound) && m.from[a] < m.minValid:
			continue // the series was idle and went since
		}
		require.Equal(t, m.judge(s), rejected[i], "%+v", s)
		if rejected[i] == nil && (!any || s.T > newest.T) {
			m.data[s.series] = append(m.data[s.series], s.point())
			m.last[s.series], m.any[s.series], m.logged[s.series] = point{s.T, s.digest()}, true, s.ref
			samples++
		}
	}
	require.Equal(t, samples, got.Samples)
	m.apps[a], m.staged[a] = nil, nil
}

// Delete deletes a range, biased to the ends of blocks and to everything there is.
func (m *model) Delete(t *rapid.T) {
	mint, maxt := int64(math.MinInt64), int64(math.MaxInt64)
	if !rapid.Bool().Draw(t, "all times") {
		mint = rapid.Int64Range(-2, 8).Draw(t, "from")*60_000 + rapid.Int64Range(-20_000, 1).Draw(t, "more")
		maxt = mint + rapid.SampledFrom([]int64{0, 1, 59_999, 60_000, 300_000}).Draw(t, "length")
	}
	matcher := rapid.SampledFrom([]*labels.Matcher{
		labels.Equal("i", "0"), labels.Equal("i", "3"), labels.Equal("odd", "1"), labels.Equal("__name__", "m"), labels.Equal("i", "none"),
	}).Draw(t, "matcher")
	require.NoError(t, m.db.Delete(ctx, mint, maxt, matcher))
	for i := range m.data {
		if matcher.Matches(modelLabels(i).Get(matcher.Name())) {
			m.data[i] = slices.DeleteFunc(m.data[i], func(p point) bool { return p.T >= mint && p.T <= maxt })
		}
	}
}

func (m *model) Flush(t *rapid.T) {
	require.NoError(t, m.db.Flush(ctx))
	m.truncated()
}

func (m *model) Compact(t *rapid.T) {
	require.NoError(t, m.db.Compact(ctx))
	m.truncated()
}

func (m *model) CleanTombstones(t *rapid.T) {
	require.NoError(t, m.db.CleanTombstones(ctx))
	for _, b := range m.db.Blocks() {
		require.Zero(t, b.Stats.NumTombstones)
	}
}

// truncated learns where the head begins now: never earlier than before, nor behind the
// newest sample of all.
func (m *model) truncated() {
	minValid, end := tsdb.MinValid(m.db), int64(math.MinInt64+1)
	for i, p := range m.last {
		if m.any[i] {
			end = max(end, p.T+1)
		}
	}
	require.True(m, m.minValid <= minValid && minValid <= max(end, m.minValid), "from %d to %d, samples end at %d", m.minValid, minValid, end)
	m.minValid, m.floor = minValid, max(m.floor, minValid)
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
	require.NoError(t, err)
	require.Equal(t, want, got)
	// A series may still be known when all its samples are deleted.
	values, _, err := q.LabelValues(ctx, "i", nil, ms...)
	require.NoError(t, errors.Join(err, q.Close()))
	require.True(t, slices.IsSorted(values) && len(slices.Compact(slices.Clone(values))) == len(values), "%v", values)
	for i := range m.data {
		ls := modelLabels(i)
		if want[ls.String()] != nil {
			require.Contains(t, values, ls.Get("i"))
		}
	}
	for _, v := range values {
		i, err := strconv.Atoi(v)
		require.NoError(t, err)
		require.True(t, i < modelSeries && m.any[i], "value %s, of no series", v)
		for _, matcher := range ms {
			require.True(t, matcher.Matches(modelLabels(i).Get(matcher.Name())), "value %s", v)
		}
	}
}

func (m *model) Check(t *rapid.T) {
	require.NoError(t, m.db.Health())
}

func TestModel_TheEngineEqualsAMap(t *testing.T) {
	t.Parallel()
	rounds := 12 // of as many checks as the flag of rapid says
	if !sweep.Whole() {
		rounds = 1
	}
	for range rounds {
		rapid.Check(t, func(rt *rapid.T) {
			m := &model{T: rt, floor: math.MinInt64 + 1, fs: tsdbtest.NewMemFS(), clock: tsdbtest.NewClock(testNow)}
			m.open()
			rt.Repeat(rapid.StateMachineActions(m))
			require.NoError(rt, m.db.Close())
		})
	}
}
