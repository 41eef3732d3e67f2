package tsdb_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Samples in and out of order against a map from times to values. They come in any order, are
// deleted, flushed, merged, read by Queriers that were opened before, killed and cut off;
// everything is compared after each step that may change an answer.

const lateSeries = 4

type lateModel struct {
	*rapid.T
	fs    *tsdbtest.MemFS
	clock *tsdbtest.Clock
	db    *tsdb.DB

	wins   bool
	window time.Duration
	budget tsdb.HeadOptions // its MaxSeries and MaxBytes, of which the head may have more
	manual bool             // nothing is done by time alone
	data   [lateSeries]map[int64]anySample
	old    [lateSeries]map[int64]bool // samples that blocks may have
	gone   [lateSeries]map[int64]bool // samples that were deleted
	floor  int64                      // the highest that the head ever began at
	newest int64                      // of all samples that were ever committed, deleted ones, too
	left   bool                       // series may have left the head before the rest of it
	ticked bool                       // what time has made due may be done at any time
	open   map[*tsdb.Querier][]string // Queriers, and what they showed when they were opened
}

func (m *lateModel) openDB() {
	opts := &tsdb.Options{FS: m.fs, Clock: m.clock}
	opts.Limits.MaxFuture = -1
	opts.Blocks.Range, opts.Blocks.Manual = time.Minute, m.manual
	opts.Blocks.MaxRange = rapid.SampledFrom([]time.Duration{time.Minute, 9 * time.Minute}).Draw(m.T, "longest block")
	opts.Head.SamplesPerChunk = rapid.SampledFrom([]int{16, 120}).Draw(m.T, "samples a chunk")
	opts.Head.ReplayWorkers = rapid.IntRange(1, 3).Draw(m.T, "workers")
	opts.WAL.SegmentSize = rapid.SampledFrom([]int64{32 << 10, 1 << 20}).Draw(m.T, "segment")
	opts.WAL.Compression = rapid.SampledFrom(compressions).Draw(m.T, "compression")
	opts.WAL.Sync = rapid.SampledFrom([]tsdb.SyncPolicy{tsdb.SyncCommit(), tsdb.SyncInterval(time.Hour), tsdb.SyncNever()}).Draw(m.T, "sync")
	opts.Head.LastWriteWins = m.wins
	opts.Head.MaxSeries, opts.Head.MaxBytes = m.budget.MaxSeries, m.budget.MaxBytes
	m.drawWindow()
	opts.Head.OutOfOrderWindow = m.window
	db, err := tsdb.Open("data", opts)
	require.NoError(m, err)
	m.db = db
	rep := db.OpenReport()
	require.True(m, rep.Clean() && rep.SamplesUnknown == 0, "%+v", rep)
	m.open = map[*tsdb.Querier][]string{}
}

func (m *lateModel) drawWindow() {
	m.window = rapid.SampledFrom([]time.Duration{0, 30 * time.Second, 3 * time.Minute, time.Hour}).Draw(m.T, "window")
}

// SetWindow changes the window while the database is open.
func (m *lateModel) SetWindow(t *rapid.T) {
	m.drawWindow()
	require.NoError(t, m.db.SetOutOfOrderWindow(m.window))
}

// draw makes a sample of any kind.
func (m *lateModel) draw(t *rapid.T, at int64) anySample {
	s := anySample{T: at}
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		s.H = histtest.Draw(modelPick(rapid.Uint64Range(0, 3).Draw(t, "histogram")))
	case 1:
		s.FH = histtest.Floats(histtest.Draw(modelPick(rapid.Uint64Range(4, 7).Draw(t, "histogram"))))
	default:
		s.V = math.Float64bits(float64(rapid.IntRange(0, 3).Draw(t, "v")))
	}
	if s.digest()>>52%2 == 0 { // of samples that have one time and one value either may stay
		s.ST = s.T - 3
	}
	return s
}

// Steady commits samples of one series at equal steps, and then late ones at these times and beside
// them: of such times more is known.
func (m *lateModel) Steady(t *rapid.T) {
	series, step := rapid.IntRange(0, lateSeries-1).Draw(t, "series"), rapid.SampledFrom([]int64{700, 1000}).Draw(t, "step")
	app, first, n := m.db.Appender(), m.newest+1, rapid.Int64Range(3, 20).Draw(t, "samples")
	for i := range n {
		s := m.draw(t, first+i*step)
		_, err := app.AppendSample(0, modelLabels(series), s.sample())
		if m.refusesSeries(err) {
			require.NoError(t, app.Rollback())
			return
		}
		require.NoError(t, err)
		m.data[series][s.T] = s
		m.newest = s.T
	}
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Empty(t, res.Rejected)
	for range rapid.IntRange(0, 3).Draw(t, "commits behind them") {
		m.commit(t, func() (int, anySample) {
			at := first + rapid.Int64Range(0, n).Draw(t, "step of")*step + rapid.SampledFrom([]int64{0, 0, 1, 400}).Draw(t, "beside")
			return series, m.draw(t, at)
		})
	}
	m.compare(t)
}

// Commit commits some samples.
func (m *lateModel) Commit(t *rapid.T) {
	m.commit(t, func() (int, anySample) {
		at := rapid.OneOf(rapid.Int64Range(m.newest-70_000, m.newest+40_000), rapid.Int64Range(-130_000, 300_000)).Draw(t, "t")
		return rapid.IntRange(0, lateSeries-1).Draw(t, "series"), m.draw(t, at)
	})
}

// commit commits some samples of an Appender, and sometimes some of another Appender in between.
func (m *lateModel) commit(t *rapid.T, draw func() (series int, s anySample)) {
	if m.ticked {
		m.flushed()
	}
	app := m.db.Appender()
	type stagedSample struct {
		series int
		anySample
	}
	var staged []stagedSample
	for range rapid.IntRange(1, 40).Draw(t, "samples") {
		var s stagedSample
		s.series, s.anySample = draw()
		if m.window == 0 && m.gone[s.series][s.T] {
			continue // what repeats the newest has no effect, though it is deleted
		}
		_, err := app.AppendSample(0, modelLabels(s.series), s.sample())
		if err == nil {
			staged = append(staged, s)
			continue
		}
		if m.refusesSeries(err) {
			continue
		}
		t.Logf("refused %d %d %x: %v", s.series, s.T, s.digest(), err)
		m.requireRefused(t, s.series, &s.anySample, err)
	}
	if rapid.IntRange(0, 5).Draw(t, "between") == 0 {
		m.Commit(t)
		if m.ticked {
			m.flushed()
		}
	}
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	rejected := map[int]error{}
	for _, r := range res.Rejected {
		rejected[r.Index] = r.Err
	}
	var either []stagedSample // of which the database says whether they count
	for i, s := range staged {
		had, there := m.data[s.series][s.T]
		t.Logf("committed %d %d st %d %x: %v (there %v %x)", s.series, s.T, s.ST, s.digest(), rejected[i], there, had.digest())
		if err := rejected[i]; err != nil {
			m.requireRefused(t, s.series, &s.anySample, err)
			continue
		}
		switch other := had.digest() != s.digest(); {
		case there && other && m.left && m.old[s.series][s.T]:
			either = append(either, s)
		case !there, m.wins && other:
			m.data[s.series][s.T] = s.anySample
			delete(m.old[s.series], s.T)
		case other:
			require.True(t, m.old[s.series][s.T], "the head has another value at %d", s.T)
		}
		m.newest = max(m.newest, s.T)
	}
	for _, s := range either {
		m.settle(t, s.series, s.anySample)
	}
	m.compare(t)
}

// settle learns whether a sample counts of whose series, which left the head before the rest of it,
// a block has another one of its time: that depends on whether the block is one of late samples.
func (m *lateModel) settle(t *rapid.T, series int, s anySample) {
	q, err := m.db.Querier(s.T, s.T)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	got, err := readAll(q)
	require.NoError(t, err)
	if ps := got[modelLabels(series).String()]; len(ps) == 1 && ps[0] == s.point() {
		m.data[series][s.T] = s
	}
}

// refusesSeries reports whether an error says that there is no room for a new series.
func (m *lateModel) refusesSeries(err error) bool {
	return m.budget != (tsdb.HeadOptions{}) && errors.Is(err, tsdb.ErrLimit)
}

// drawBudget gives some of the runs a budget, and has some of them work by time, too.
func (m *lateModel) drawBudget() {
	m.budget.MaxSeries = rapid.SampledFrom([]int{0, 0, 2, 3}).Draw(m.T, "most series")
	m.budget.MaxBytes = rapid.SampledFrom([]int64{0, 0, 64 << 10, 256 << 10}).Draw(m.T, "most bytes")
	m.manual = rapid.Bool().Draw(m.T, "manual")
}

// Tick lets time pass: near a budget, and where nothing comes any more, what there is becomes
// blocks.
func (m *lateModel) Tick(t *rapid.T) {
	d := time.Duration(rapid.SampledFrom([]int64{1, 5, 70, 200}).Draw(t, "seconds")) * time.Second
	t.Logf("tick %v", d)
	m.left, m.ticked = true, !m.manual
	m.clock.Advance(d)
	m.flushed()
	m.compare(t)
}

// requireRefused holds an error against what there is.
func (m *lateModel) requireRefused(t *rapid.T, series int, s *anySample, err error) {
	had, there := m.data[series][s.T]
	switch {
	case errors.Is(err, tsdb.ErrDuplicateSample):
		require.False(t, m.wins && m.window > 0, "%v", err)
		// A block may have hidden another value that came late; and what came late in the place of
		// another one is not known as one where none are taken any more.
		hidden := m.old[series][s.T] || m.wins && m.window == 0
		require.False(t, there && had.digest() == s.digest() && !hidden, "it repeats what is there")
	case errors.Is(err, tsdb.ErrTooOld):
		require.Positive(t, m.window)
		require.Less(t, s.T, max(m.newest, tsdb.MinValid(m.db)-1)-m.window.Milliseconds())
		var bounds *tsdb.BoundsError
		require.ErrorAs(t, err, &bounds)
		require.Less(t, s.T, bounds.From)
	case errors.Is(err, tsdb.ErrOutOfOrder), errors.Is(err, tsdb.ErrOutOfBounds):
		require.True(t, m.window == 0, "%v: %v, newest %d", s.T, err, m.newest)
	default:
		require.NoError(t, err)
	}
}

func (m *lateModel) Delete(t *rapid.T) {
	t.Logf("delete")

	mint, maxt := int64(math.MinInt64), int64(math.MaxInt64)
	if rapid.IntRange(0, 3).Draw(t, "all times") > 0 {
		mint = rapid.Int64Range(-140_000, 300_000).Draw(t, "from")
		maxt = mint + rapid.Int64Range(0, 90_000).Draw(t, "length")
	}
	matcher := rapid.SampledFrom([]*labels.Matcher{labels.Equal("i", "0"), labels.Equal("odd", "1"), labels.Equal("__name__", "m")}).Draw(t, "matcher")
	require.NoError(t, m.db.Delete(ctx, mint, maxt, matcher))
	for i := range m.data {
		if matcher.Matches(modelLabels(i).Get(matcher.Name())) {
			for at := range m.data[i] {
				if at >= mint && at <= maxt {
					m.gone[i][at] = true
					delete(m.data[i], at)
				}
			}
		}
	}
	m.compare(t)
}

func (m *lateModel) Flush(t *rapid.T) {
	t.Logf("flush")

	require.NoError(t, m.db.Flush(ctx))
	m.flushed()
	m.compare(t)
}

// flushed notes that blocks may have all that there is.
func (m *lateModel) flushed() {
	for i := range m.data {
		for at := range m.data[i] {
			m.old[i][at] = true
		}
	}
}

// LetGo lets go of series that ended, as near the budget.
func (m *lateModel) LetGo(t *rapid.T) {
	t.Logf("let go")

	since := rapid.OneOf(rapid.Just(m.newest), rapid.Int64Range(-130_000, 300_000)).Draw(t, "since")
	m.left = true
	require.NoError(t, tsdb.LetGo(ctx, m.db, since))
	m.flushed()
	m.compare(t)
}

func (m *lateModel) Compact(t *rapid.T) {
	t.Logf("compact")

	require.NoError(t, m.db.Compact(ctx))
	m.flushed()
	m.compare(t)
}

func (m *lateModel) HeadSnapshot(t *rapid.T) {
	t.Logf("headsnapshot")

	if !tsdb.HoldsDeleted(m.db) {
		require.NoError(t, tsdb.TakeHeadSnapshot(m.db))
	}
}

// Open opens a Querier that stays open.
func (m *lateModel) Open(t *rapid.T) {
	t.Logf("open")

	q, err := m.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	m.open[q] = m.textsOf(t, q)
}

// Close closes the Queriers that are open.
func (m *lateModel) Close(t *rapid.T) {
	t.Logf("close")

	for q, texts := range m.open {
		require.Equal(t, texts, m.textsOf(t, q), "the answer of an open Querier has changed")
		require.NoError(t, q.Close())
	}
	m.open = map[*tsdb.Querier][]string{}
}

// textsOf reads all samples of a Querier.
func (m *lateModel) textsOf(t *rapid.T, q *tsdb.Querier) []string {
	all, err := readAll(q)
	require.NoError(t, err)
	var texts []string
	for i := range lateSeries {
		for _, p := range all[modelLabels(i).String()] {
			texts = append(texts, modelLabels(i).String(), time.UnixMilli(p.T).String(), time.UnixMilli(int64(p.V)).String())
		}
	}
	return texts
}

// compare reads everything, and a part, and the labels of a part.
func (m *lateModel) compare(t *rapid.T) {
	m.compareRange(t, math.MinInt64, math.MaxInt64)
	from := rapid.Int64Range(-140_000, 300_000).Draw(t, "from")
	m.compareRange(t, from, from+rapid.Int64Range(0, 60_000).Draw(t, "long"))
}

func (m *lateModel) compareRange(t *rapid.T, mint, maxt int64) {
	m.floor = max(m.floor, tsdb.MinValid(m.db))
	q, err := m.db.Querier(mint, maxt)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	got, err := readAll(q)
	require.NoError(t, err)
	want, values := map[string][]point{}, []string(nil)
	for i := range m.data {
		var ps []point
		for at, s := range m.data[i] {
			if at >= mint && at <= maxt {
				ps = append(ps, s.point())
			}
		}
		if len(ps) > 0 {
			slices.SortFunc(ps, func(a, b point) int { return int(a.T - b.T) })
			want[modelLabels(i).String()] = ps
			values = append(values, modelLabels(i).Get("i"))
		}
	}
	require.Equal(t, want, got, "%+v\n%+v", m.db.OpenReport(), m.db.Blocks())
	listed, _, err := q.LabelValues(ctx, "i", nil)
	require.NoError(t, err)
	require.True(t, slices.Equal(values, listed), "%v, want %v", listed, values)
}

func (m *lateModel) Reopen(t *rapid.T) {
	t.Logf("reopen")

	m.Close(t)
	require.NoError(t, m.db.Close())
	m.openDB()
	m.compare(t)
}

// Kill ends the process without a word: what was written stays.
func (m *lateModel) Kill(t *rapid.T) {
	t.Logf("kill")
	m.crash(t, m.fs.KillClone())
}

// PowerCut comes after a Sync, so that nothing committed may be missing.
func (m *lateModel) PowerCut(t *rapid.T) {
	t.Logf("powercut")

	require.NoError(t, m.db.Sync())
	m.crash(t, m.fs.CrashClone(tsdbtest.CrashOptions{Seed: rapid.Uint64().Draw(t, "seed")}))
}

func (m *lateModel) crash(t *rapid.T, disk *tsdbtest.MemFS) {
	m.Close(t)
	old := m.db
	m.fs = disk
	m.openDB()
	require.NoError(t, old.Close())
	m.compare(t)
}

func TestModel_LateSamplesEqualAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &lateModel{T: t, fs: tsdbtest.NewMemFS(), clock: tsdbtest.NewClock(testNow), floor: math.MinInt64, wins: rapid.Bool().Draw(t, "last write wins")}
		for i := range m.data {
			m.data[i], m.old[i], m.gone[i] = map[int64]anySample{}, map[int64]bool{}, map[int64]bool{}
		}
		m.drawBudget()
		m.openDB()
		defer func() { _ = m.db.Close() }()
		t.Repeat(map[string]func(*rapid.T){
			"commit": m.Commit, "commit more": m.Commit, "steady": m.Steady, "delete": m.Delete, "flush": m.Flush, "let go": m.LetGo, "compact": m.Compact,
			"snapshot": m.HeadSnapshot, "tick": m.Tick, "window": m.SetWindow, "open": m.Open, "close": m.Close,
			"reopen": m.Reopen, "kill": m.Kill, "power cut": m.PowerCut,
		})
		m.Close(t)
	})
}
