package tsdb_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Retention by rules against a filter over all samples: what its rule keeps is there, whatever is
// done; what is too old is gone, unless its block has some that is not, or is kept.

type rulesModel struct {
	fs    *tsdbtest.MemFS
	clock *tsdbtest.Clock
	opts  *tsdb.Options
	db    *tsdb.DB
	kept  bool // BlockOptions.Keep keeps everything

	// written has what was appended to each series, or imported, and was not deleted; true: it was
	// too old at some moment, by the rules that there were then.
	written [6]map[int64]bool
}

func (m *rulesModel) open(t require.TestingT) {
	db, err := tsdb.Open("data", m.opts)
	require.NoError(t, err)
	m.db = db
	rep := db.OpenReport()
	require.True(t, rep.Clean(), "%+v", rep)
}

// newest is what durations are counted back from. What the head had counts, also when it is empty,
// and the block gone that it became.
func (m *rulesModel) newest() int64 {
	newest := m.db.Stats().MaxT
	for _, b := range m.db.Blocks() {
		newest = max(newest, b.MaxTime-1)
	}
	return min(newest, m.clock.Now().UnixMilli())
}

// age notes what is too old now.
func (m *rulesModel) age() {
	newest := m.newest()
	for i, ls := range ruledSeries() {
		if d := durationOf(m.opts, ls); d > 0 && newest != math.MinInt64 {
			for at := range m.written[i] {
				m.written[i][at] = m.written[i][at] || at <= newest-d.Milliseconds()
			}
		}
	}
}

// Scrape lets time pass, with samples of some series now and then.
func (m *rulesModel) Scrape(t *rapid.T) {
	step := time.Duration(rapid.Int64Range(1, 8).Draw(t, "minutes")) * time.Minute
	some := rapid.IntRange(1, 63).Draw(t, "series")
	for range rapid.IntRange(1, 30).Draw(t, "n") {
		m.clock.Advance(step)
		app, now := m.db.Appender(), m.clock.Now().UnixMilli()
		for i, ls := range ruledSeries() {
			if some&(1<<i) != 0 {
				_, err := app.AppendSample(0, ls, sampleAt(i, now).sample())
				require.NoError(t, err)
				m.written[i][now] = false
			}
		}
		_, err := app.Commit(ctx)
		require.NoError(t, err)
	}
	m.age()
}

// Late commits samples of the last hour, if a window is open for them.
func (m *rulesModel) Late(t *rapid.T) {
	if m.opts.Head.OutOfOrderWindow == 0 {
		t.Skip("no window")
	}
	type place struct {
		series int
		at     int64
	}
	staged := map[place]bool{}
	app := m.db.Appender()
	for range rapid.IntRange(1, 20).Draw(t, "n") {
		p := place{rapid.IntRange(0, 5).Draw(t, "series"), m.clock.Now().UnixMilli() - rapid.Int64Range(1, 50*minute).Draw(t, "ago")}
		if _, ok := m.written[p.series][p.at]; ok || staged[p] {
			continue
		}
		_, err := app.AppendSample(0, ruledSeries()[p.series], sampleAt(p.series, p.at).sample())
		require.NoError(t, err)
		staged[p] = true
	}
	res, err := app.Commit(ctx)
	require.NoError(t, err)
	require.Empty(t, res.Rejected)
	for p := range staged {
		m.written[p.series][p.at] = false
	}
	m.age()
}

// Import puts a block of some hours ago into the directory.
func (m *rulesModel) Import(t *rapid.T) {
	w, err := tsdb.NewBlockWriter("data", &tsdb.BlockWriterOptions{FS: m.fs, Clock: m.clock})
	require.NoError(t, err)
	from := m.clock.Now().Add(-time.Duration(rapid.IntRange(1, 600).Draw(t, "minutes ago")) * time.Minute)
	for k := range rapid.IntRange(1, 10).Draw(t, "n") {
		at := from.Add(time.Duration(k) * 7 * time.Minute).UnixMilli()
		i := rapid.IntRange(0, 5).Draw(t, "series")
		if _, ok := m.written[i][at]; ok || at > m.clock.Now().UnixMilli() {
			continue
		}
		_, err := w.AppendSample(0, ruledSeries()[i], sampleAt(i, at).sample())
		require.NoError(t, err)
		m.written[i][at] = false
	}
	_, err = w.Flush(ctx)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	m.age()
	require.NoError(t, m.db.Compact(ctx)) // takes the block up
	m.age()
}

func (m *rulesModel) Delete(t *rapid.T) {
	now := m.clock.Now()
	mint := now.Add(-time.Duration(rapid.IntRange(0, 600).Draw(t, "minutes ago")) * time.Minute).UnixMilli()
	maxt := mint + int64(rapid.IntRange(0, 200).Draw(t, "long"))*minute
	job := rapid.SampledFrom([]string{"debug", "app", "bill"}).Draw(t, "job")
	require.NoError(t, m.db.Delete(ctx, mint, maxt, labels.Equal("job", job)))
	for i, ls := range ruledSeries() {
		for at := range m.written[i] {
			if ls.Get("job") == job && at >= mint && at <= maxt {
				delete(m.written[i], at)
			}
		}
	}
}

func (m *rulesModel) Keep(*rapid.T) { m.kept = !m.kept }

func (m *rulesModel) Flush(t *rapid.T) { require.NoError(t, m.db.Flush(ctx)) }

func (m *rulesModel) Reopen(t *rapid.T) {
	require.NoError(t, m.db.Close())
	if rapid.Bool().Draw(t, "other rules") {
		m.drawRules(t)
	}
	m.open(t)
	m.age()
}

func (m *rulesModel) Kill(t *rapid.T) {
	old := m.db
	m.fs = m.fs.KillClone()
	m.opts.FS = m.fs
	m.open(t)
	require.NoError(t, old.Close()) // on the disk that is gone
}

func (m *rulesModel) drawRules(t *rapid.T) {
	durations := rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour, 3 * time.Hour, 7 * time.Hour})
	selectors := rapid.SampledFrom([]string{`{job="debug"}`, `{job!="debug"}`, `{i="1"}`, `{job=~"a.*|b.*",i="0"}`, `{nowhere="x"}`, `{nowhere=""}`, `{}`})
	m.opts.Blocks.RetentionRules = nil
	for range rapid.IntRange(0, 3).Draw(t, "rules") {
		r := rule(selectors.Draw(t, "selector"), durations.Draw(t, "duration"))
		m.opts.Blocks.RetentionRules = append(m.opts.Blocks.RetentionRules, r)
	}
	m.opts.Blocks.Retention = durations.Draw(t, "rest")
}

// Compact requires that nothing is left that is too old: but for the block that it is in.
func (m *rulesModel) Compact(t *rapid.T) {
	m.age()
	require.NoError(t, m.db.Compact(ctx))
	m.age() // what was imported may be newest
	if m.kept {
		return
	}
	require.NoError(t, m.db.Compact(ctx))
	newest, blocks := m.newest(), m.db.Blocks()
	if len(blocks) == 0 {
		return
	}
	last := slices.MaxFunc(blocks, func(a, b tsdb.BlockMeta) int { return int(a.MaxTime - b.MaxTime) }).MaxTime
	got := m.read(t)
	for _, ls := range ruledSeries() {
		d := durationOf(m.opts, ls).Milliseconds()
		for _, p := range got[ls.String()] {
			covered := p.T >= m.db.Stats().AcceptsFrom // in the head
			for _, b := range blocks {
				covered = covered || b.MinTime <= p.T && p.T < b.MaxTime && (d <= 0 || b.MaxTime > newest-d+1 || b.MaxTime == last)
			}
			require.True(t, covered, "%s has %s, of %s ago", ls, time.UnixMilli(p.T).UTC(), time.Duration(newest-p.T)*time.Millisecond)
		}
	}
	merges := m.db.Stats().Merges
	require.NoError(t, m.db.Compact(ctx))
	require.Equal(t, merges, m.db.Stats().Merges, "nothing is left to do")
}

// Check requires all that rules keep, and nothing that was not written.
func (m *rulesModel) Check(t *rapid.T) {
	m.age()
	got := m.read(t)
	for i, ls := range ruledSeries() {
		there := map[int64]bool{}
		for _, p := range got[ls.String()] {
			require.Contains(t, m.written[i], p.T, "%s has a sample that was deleted, or never written", ls)
			require.Equal(t, sampleAt(i, p.T).point(), p)
			there[p.T] = true
		}
		for at, old := range m.written[i] {
			require.True(t, old && !m.kept || there[at], "%s lost %s, of %s ago", ls, time.UnixMilli(at).UTC(), time.Duration(m.newest()-at)*time.Millisecond)
			if !there[at] {
				delete(m.written[i], at) // it may be written again
			}
		}
	}
}

func (m *rulesModel) read(t *rapid.T) map[string][]point {
	q, err := m.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	got, err := readAll(q)
	require.NoError(t, err)
	require.NoError(t, q.Close())
	return got
}

func TestModel_WithRetentionRules_IsAFilterOverAllSamples(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := &rulesModel{fs: tsdbtest.NewMemFS(), clock: tsdbtest.NewClock(testNow)}
		for i := range m.written {
			m.written[i] = map[int64]bool{}
		}
		m.opts = ruledOptions(m.fs, m.clock)
		m.opts.Head.OutOfOrderWindow = rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(rt, "window")
		m.opts.Blocks.Keep = func(tsdb.BlockMeta) bool { return m.kept }
		m.drawRules(rt)
		m.open(rt)
		rt.Repeat(rapid.StateMachineActions(m))
		require.NoError(rt, m.db.Close())
	})
}
