package tsdb_test

import (
	"fmt"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
)

// exemplarModel is what a ring of exemplars must do, in the order of inserts.
type exemplarModel struct {
	most    int
	inserts []modelExemplar
}

type modelExemplar struct {
	series string
	e      exemplar.Exemplar
}

func (m *exemplarModel) insert(x modelExemplar) {
	if slices.ContainsFunc(m.inserts, func(o modelExemplar) bool { return o.series == x.series && o.e.Equal(x.e) }) {
		return
	}
	m.inserts = append(m.inserts, x)
	m.inserts = m.inserts[max(0, len(m.inserts)-m.most):]
}

// lines returns what fixture.exemplars must.
func (m *exemplarModel) lines(mint, maxt int64) (lines []string) {
	sorted := slices.Clone(m.inserts)
	sort.SliceStable(sorted, func(i, k int) bool {
		a, b := sorted[i], sorted[k]
		return a.series < b.series || a.series == b.series && a.e.T < b.e.T
	})
	for _, x := range sorted {
		if mint <= x.e.T && x.e.T <= maxt {
			lines = append(lines, fmt.Sprintf("%s %s %d %v", x.series, x.e.Labels, x.e.T, x.e.Value))
		}
	}
	return lines
}

// exemplarLife is a database and the model of its exemplars.
type exemplarLife struct {
	*fixture
	model exemplarModel
	now   int64 // of samples
}

func (l *exemplarLife) draw(rt *rapid.T) modelExemplar {
	return modelExemplar{
		series: fmt.Sprintf(`{s="%d"}`, rapid.IntRange(0, 3).Draw(rt, "series")),
		e: exemplarOf(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "trace"), rapid.Int64Range(-3, 3).Draw(rt, "time"),
			float64(rapid.IntRange(0, 1).Draw(rt, "value"))),
	}
}

// commit commits exemplars, most often with samples, some of which are refused.
func (l *exemplarLife) commit(rt *rapid.T) {
	app := l.db.Appender()
	var staged []modelExemplar
	for range rapid.IntRange(1, 5).Draw(rt, "exemplars") {
		x := l.draw(rt)
		if rapid.IntRange(0, 3).Draw(rt, "sample") > 0 {
			l.now += int64(rapid.IntRange(-5, 10).Draw(rt, "step")) * minute
			_, _ = app.Append(0, series(l.t, x.series), l.now, 1) // late ones are refused
		}
		_, err := app.AppendExemplar(0, series(l.t, x.series), x.e)
		require.NoError(rt, err)
		staged = append(staged, x)
	}
	if rapid.IntRange(0, 9).Draw(rt, "rollback") == 0 {
		require.NoError(rt, app.Rollback())
		return
	}
	before := l.model
	before.inserts = slices.Clone(before.inserts)
	_, err := app.Commit(ctx)
	require.NoError(rt, err)
	// A repeat counts by what was there when the commit began.
	var fresh []modelExemplar
	for _, x := range staged {
		same := func(o modelExemplar) bool { return o.series == x.series && o.e.Equal(x.e) }
		if !slices.ContainsFunc(before.inserts, same) && !slices.ContainsFunc(fresh, same) {
			fresh = append(fresh, x)
		}
	}
	for _, x := range fresh {
		l.model.insert(x)
	}
}

func (l *exemplarLife) step(rt *rapid.T) {
	samples := l.all()
	switch op := rapid.IntRange(0, 19).Draw(rt, "op"); {
	case op < 11:
		l.commit(rt)
		samples = l.all()
	case op == 11:
		require.NoError(rt, l.db.Compact(ctx))
	case op == 12:
		l.reopen()
	case op == 13:
		require.NoError(rt, tsdb.TakeHeadSnapshot(l.db))
	case op < 16:
		require.NoError(rt, l.db.Flush(ctx))
	default:
		l.kill()
	}
	rep := l.db.OpenReport()
	require.True(rt, rep.Clean(), "%+v", rep)
	require.Zero(rt, rep.ExemplarsUnknown)
	require.Equal(rt, samples, l.all(), "samples do not mind")
	require.Equal(rt, l.model.lines(-2, 2), l.exemplars(-2, 2))
	require.Equal(rt, l.model.lines(-10, 10), l.exemplars(-10, 10))
	require.Equal(rt, len(l.model.inserts), l.db.Stats().Exemplars)
}

// After each of any operations, kills among them, there are the exemplars that there must be.
func TestExemplars_OutliveWhatever(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most := rapid.SampledFrom([]int{1, 2, 3, 5, 8, 13, 1000}).Draw(rt, "most")
		l := &exemplarLife{model: exemplarModel{most: most}, fixture: newFixture(t, func(o *tsdb.Options) {
			manual(o)
			o.Head.MaxExemplars, o.Head.SamplesPerChunk, o.Blocks.Range = most, 16, 10*time.Minute
		})}
		defer func() {
			require.NoError(rt, l.db.Close())
			l.db = nil
		}()
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			l.step(rt)
		}
		require.NoError(rt, l.db.Health())
		require.NoError(rt, l.db.Close())
		report, err := tsdb.Verify(ctx, fixtureDir, &tsdb.VerifyOptions{FS: l.fs, Clock: l.clock})
		require.NoError(rt, err)
		require.Empty(rt, report.Findings)
		l.open()
	})
}
