package tsdb_test

import (
	"math"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// What else a clock that jumps must not harm: late samples, queries that stay open, and deletes of
// single series.

// Late commits samples of the last hour. Without a window most are refused.
func (m *clockModel) Late(t *rapid.T) {
	type place struct {
		series int
		at     int64
	}
	var staged []place
	app := m.db.Appender()
	for range rapid.IntRange(1, 5).Draw(t, "samples") {
		p := place{rapid.IntRange(0, clockSeries-1).Draw(t, "series"), m.clock.Now().UnixMilli() - rapid.Int64Range(1, 59*minute).Draw(t, "ago")}
		if _, there := m.committed[p.series][p.at]; there || m.window() == 0 && m.used[p.series][p.at] {
			continue // without a window a repeat of a sample that was deleted is accepted and stays deleted
		}
		if _, err := app.AppendSample(0, clockLabels(p.series), sampleAt(p.series, p.at).sample()); err == nil {
			staged = append(staged, p)
		}
	}
	res, err := app.Commit(ctx)
	if err != nil {
		require.ErrorIs(m, err, tsdb.ErrDiskFull)
		return
	}
	refused := map[int]bool{}
	for _, r := range res.Rejected {
		refused[r.Index] = true
	}
	for i, p := range staged {
		if !refused[i] {
			m.committed[p.series][p.at], m.used[p.series][p.at] = m.elapsed, true
		}
	}
}

func (m *clockModel) window() time.Duration { return m.opts.Head.OutOfOrderWindow }

// Hold leaves a query open.
func (m *clockModel) Hold(t *rapid.T) {
	q, err := m.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	m.held = append(m.held, q)
}

// LetGo closes the queries that are open.
func (m *clockModel) LetGo(*rapid.T) { m.letGo() }

func (m *clockModel) letGo() {
	for _, q := range m.held {
		require.NoError(m, q.Close())
	}
	m.held = nil
}

func (m *clockModel) FlushAll(t *rapid.T) { require.NoError(t, m.db.Flush(ctx)) }

// DeleteSeries deletes all of a series, or what is after the present.
func (m *clockModel) DeleteSeries(t *rapid.T) {
	i := rapid.IntRange(0, clockSeries-1).Draw(t, "series")
	from := m.honest().UnixMilli() + 1
	if rapid.Bool().Draw(t, "all") {
		from = math.MinInt64
	}
	require.NoError(t, m.db.Delete(ctx, from, math.MaxInt64, labels.Equal("i", strconv.Itoa(i))))
	for at := range m.committed[i] {
		if at >= from {
			delete(m.committed[i], at)
		}
	}
}

// drawWindow gives half of the runs a window for late samples.
func (m *clockModel) drawWindow(t *rapid.T) {
	if rapid.Bool().Draw(t, "window") {
		m.opts.Head.OutOfOrderWindow = time.Hour
	}
}
