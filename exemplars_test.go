package tsdb_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// exemplarOf returns an exemplar that refers to a trace.
func exemplarOf(trace string, t int64, v float64) exemplar.Exemplar {
	return exemplar.Exemplar{Labels: labels.FromStrings("trace_id", trace), T: t, HasT: true, Value: v}
}

// exemplars returns what a fixture's database has in a range, one line an exemplar.
func (f *fixture) exemplars(mint, maxt int64, ms ...*labels.Matcher) (lines []string) {
	f.t.Helper()
	q, err := f.db.Querier(mint, maxt)
	require.NoError(f.t, err)
	defer func() { require.NoError(f.t, q.Close()) }()
	found, err := q.Exemplars(ctx, ms...)
	require.NoError(f.t, err)
	for _, s := range found {
		for _, e := range s.Exemplars {
			lines = append(lines, fmt.Sprintf("%s %s %d %v", s.Labels, e.Labels, e.T, e.Value))
		}
	}
	return lines
}

// commitExemplars commits exemplars of one series.
func (f *fixture) commitExemplars(selector string, es ...exemplar.Exemplar) {
	f.t.Helper()
	app := f.db.Appender()
	for _, e := range es {
		_, err := app.AppendExemplar(0, series(f.t, selector), e)
		require.NoError(f.t, err)
	}
	_, err := app.Commit(ctx)
	require.NoError(f.t, err)
}

func TestExemplars_AreThereAfterAKill(t *testing.T) {
	f := newFixture(t, manual)
	f.commitExemplars(`{a="b"}`, exemplarOf("one", 10, 1), exemplarOf("two", 10, 2), exemplarOf("one", 10, 1), exemplarOf("late", 5, 1))
	f.commit(sample{`{a="b"}`, 20, 2})
	want := []string{`{a="b"} {trace_id="late"} 5 1`, `{a="b"} {trace_id="one"} 10 1`, `{a="b"} {trace_id="two"} 10 2`}
	require.Equal(t, want, f.exemplars(0, 100))
	f.kill()
	require.Equal(t, want, f.exemplars(0, 100))
	require.NoError(t, f.db.Flush(ctx))
	require.Equal(t, want, f.exemplars(0, 100))
	f.kill()
	require.Equal(t, want, f.exemplars(0, 100))
}

// kill leaves the database as a kill of the process does, and opens what is there.
func (f *fixture) kill() {
	f.t.Helper()
	disk := f.fs.KillClone()
	require.NoError(f.t, f.db.Close())
	f.fs, f.opts.FS = disk, disk
	f.open()
}
