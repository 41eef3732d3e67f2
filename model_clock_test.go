package tsdb_test

import (
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

// A program that stamps its samples with a clock which somebody sets, in a directory with
// retention into which others put blocks, on a disk that may be small. Nothing goes but by
// retention of an honest clock, and a clock that is right again is always good enough.

const clockRetention = 4 * time.Hour

type clockModel struct {
	*rapid.T
	fs      *tsdbtest.MemFS
	clock   *tsdbtest.Clock
	opts    *tsdb.Options
	db      *tsdb.DB
	elapsed time.Duration
	byBytes bool
	held    []*tsdb.Querier // queries that are open

	// committed has for each series when each sample was committed, or imported.
	committed [clockSeries]map[int64]time.Duration
	used      [clockSeries]map[int64]bool // times that each series had at some time
}

const clockSeries = 3

func clockLabels(i int) labels.Labels { return labels.FromStrings("i", fmt.Sprint(i)) }

func (m *clockModel) open() {
	m.Helper()
	db, err := tsdb.Open("data", m.opts)
	require.NoError(m, err)
	m.db = db
	rep := db.OpenReport()
	require.True(m, rep.Clean(), "%+v", rep)
}

func (m *clockModel) honest() time.Time { return testNow.Add(m.elapsed) }

// Pass lets time pass, with a sample of each series now and then.
func (m *clockModel) Pass(t *rapid.T) {
	step := time.Duration(rapid.Int64Range(1, 20).Draw(t, "minutes")) * time.Minute
	for range rapid.IntRange(1, 6).Draw(t, "n") {
		m.clock.Advance(step)
		m.elapsed += step
		m.scrape()
	}
}

// scrape commits what is taken of a sample of each series at the time that the clock shows.
func (m *clockModel) scrape() (taken int) {
	m.Helper()
	// No time comes twice: a repeat of a sample that was deleted is accepted and stays deleted.
	m.clock.Advance(time.Millisecond)
	m.elapsed += time.Millisecond
	app, now := m.db.Appender(), m.clock.Now().UnixMilli()
	var staged []int
	for i := range clockSeries {
		if _, err := app.AppendSample(0, clockLabels(i), sampleAt(i, now).sample()); err == nil {
			staged = append(staged, i)
		}
	}
	res, err := app.Commit(ctx)
	if err != nil {
		require.ErrorIs(m, err, tsdb.ErrDiskFull)
		return 0
	}
	late := map[int]bool{}
	for _, r := range res.Rejected {
		late[r.Index] = true
	}
	for k, i := range staged {
		if !late[k] {
			m.committed[i][now], m.used[i][now] = m.elapsed, true
			taken++
		}
	}
	return taken
}

// Jump sets the clock.
func (m *clockModel) Jump(t *rapid.T) {
	const year = 365 * 24 * time.Hour
	off := rapid.SampledFrom([]time.Duration{61 * time.Minute, -time.Hour, 3 * time.Hour, -3 * time.Hour, 26 * time.Hour, 10 * year, -10 * year}).Draw(t, "off")
	m.clock.Set(m.honest().Add(off))
	m.scrape()
}

// Honest sets the clock right. Then the present is taken: times up to Limits.MaxFuture ahead are
// no future, so the jumps are longer than that.
func (m *clockModel) Honest(t *rapid.T) {
	m.clock.Set(m.honest())
	m.letGo() // the head begins where the oldest of them needs it
	require.NoError(t, m.db.Flush(ctx))
	m.clock.Advance(time.Second)
	m.elapsed += time.Second
	require.NotErrorIs(t, m.db.Health(), tsdb.ErrOutOfBounds)
	if wait := time.UnixMilli(m.db.Stats().AcceptsFrom).Sub(m.clock.Now()); wait > 0 {
		require.LessOrEqual(t, wait, time.Hour, "a border that near is waited for")
		m.clock.Advance(wait)
		m.elapsed += wait
	}
	require.Equal(t, clockSeries, m.scrape(), "accepted is from %d to %d", m.db.Stats().AcceptsFrom, m.db.Stats().AcceptsTo)
}

func (m *clockModel) Compact(t *rapid.T) { require.NoError(t, m.db.Compact(ctx)) }

// Import puts a block into the directory, of any time.
func (m *clockModel) Import(t *rapid.T) {
	at := m.honest().Add(time.Duration(rapid.SampledFrom([]int64{-30, -5, -1, 0, 1, 30, 90_000}).Draw(t, "hours")) * time.Hour).UnixMilli()
	closed := rapid.Bool().Draw(t, "closed")
	if closed {
		m.letGo()
		require.NoError(t, m.db.Close())
	}
	w, err := tsdb.NewBlockWriter("data", &tsdb.BlockWriterOptions{FS: m.fs, Clock: m.clock})
	require.NoError(t, err)
	for i := range clockSeries - 1 {
		_, err := w.AppendSample(0, clockLabels(i), sampleAt(i, at).sample())
		require.NoError(t, err)
		m.committed[i][at] = m.elapsed
	}
	_, err = w.Flush(ctx)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	if closed {
		m.open()
	}
	require.NoError(t, m.db.Compact(ctx)) // takes the block up
}

// Delete deletes everything after the present.
func (m *clockModel) Delete(t *rapid.T) {
	from := m.honest().UnixMilli() + 1
	require.NoError(t, m.db.Delete(ctx, from, math.MaxInt64))
	for _, samples := range m.committed {
		for ts := range samples {
			if ts >= from {
				delete(samples, ts)
			}
		}
	}
}

// FullDisk takes the room away for a while: what cannot be done says so, and it goes on when there
// is room again.
func (m *clockModel) FullDisk(t *rapid.T) {
	m.fs.SetCapacity(m.fs.Used() + rapid.Int64Range(0, 6000).Draw(t, "room"))
	for range rapid.IntRange(1, 20).Draw(t, "n") {
		m.clock.Advance(10 * time.Second)
		m.elapsed += 10 * time.Second
		m.scrape()
	}
	if err := m.db.Compact(ctx); err != nil {
		require.ErrorIs(t, err, tsdb.ErrDiskFull)
	}
	if rapid.Bool().Draw(t, "reopen") {
		m.letGo()
		require.NoError(t, m.db.Close())
		m.open()
	}
	m.fs.SetCapacity(0)
	m.clock.Advance(2 * time.Second) // recovery tries again
	m.elapsed += 2 * time.Second
	m.scrape()
	require.NotErrorIs(t, m.db.Health(), tsdb.ErrDiskFull)
	m.letGo() // late samples may wait for them, and the log, which the out-of-order log lacks some of
	require.NoError(t, m.db.Compact(ctx))
}

func (m *clockModel) Reopen(t *rapid.T) {
	m.letGo()
	require.NoError(t, m.db.Close())
	m.open()
}

func (m *clockModel) Kill(*rapid.T) {
	m.letGo()
	old := m.db
	m.fs = m.fs.KillClone()
	m.opts.FS = m.fs
	m.open()
	require.NoError(m, old.Close()) // on the disk that is gone
}

// Check requires all that an honest clock keeps, and nothing else.
func (m *clockModel) Check(t *rapid.T) {
	q, err := m.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	got, err := readAll(q)
	require.NoError(t, err)
	require.NoError(t, q.Close())
	tooOld := m.honest().Add(-clockRetention).UnixMilli()
	for i, samples := range m.committed {
		left := map[int64]bool{}
		for _, p := range got[clockLabels(i).String()] {
			require.Contains(t, samples, p.T, "series %d has a sample that was deleted, or never written", i)
			require.Equal(t, sampleAt(i, p.T).point(), p)
			left[p.T] = true
		}
		for ts, when := range samples {
			if left[ts] {
				continue
			}
			require.True(t, m.byBytes || ts <= tooOld || m.elapsed-when >= clockRetention, "series %d lost %s, of %s ago", i, time.UnixMilli(ts).UTC(), m.elapsed-when)
			delete(samples, ts) // it may be written again
		}
	}
}

func TestModel_WithAClockThatJumps_NothingGoesThatAnHonestOneKeeps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := &clockModel{T: rt, fs: tsdbtest.NewMemFS(), clock: tsdbtest.NewClock(testNow)}
		for i := range m.committed {
			m.committed[i], m.used[i] = map[int64]time.Duration{}, map[int64]bool{}
		}
		m.opts = &tsdb.Options{FS: m.fs, Clock: m.clock}
		m.opts.Blocks = tsdb.BlockOptions{Manual: true, Range: 10 * time.Minute, MaxRange: 30 * time.Minute, Retention: clockRetention}
		if m.byBytes = rapid.Bool().Draw(rt, "by bytes"); m.byBytes {
			m.opts.Blocks.RetentionBytes = 20 << 10
		}
		m.drawWindow(rt)
		m.open()
		rt.Repeat(rapid.StateMachineActions(m))
		m.letGo()
		require.NoError(rt, m.db.Close())
	})
}
