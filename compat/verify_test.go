package compat

import (
	"math"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// requireVerified proves that Verify finds no damage in a good directory, whoever wrote it,
// and that Cardinality counts what promtool counts.
func requireVerified(t testing.TB, l left) {
	t.Helper()
	report, err := tsdb.Verify(t.Context(), l.dir, nil)
	require.NoError(t, err)
	for _, f := range report.Findings {
		require.Less(t, f.Severity, tsdb.SeverityDamage, "%+v", f)
	}
	metas := metasOf(t, l.dir)
	require.Len(t, report.Blocks, len(metas))
	r, err := tsdb.OpenReadOnly(l.dir, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, r.Close()) }()
	deletedFrom := map[string]bool{} // a kill may come between the tombstones and the meta that counts them
	for _, b := range r.Blocks() {
		deletedFrom[b.ULID.String()] = b.Stats.NumTombstones > 0
	}
	for name, meta := range metas {
		c, err := r.Cardinality(t.Context(), tsdb.CardinalityOptions{Block: ulid.MustParseStrict(name), Limit: math.MaxInt, Chunks: true})
		if deletedFrom[name] || err != nil { // what is deleted is not counted; a block that another one replaces is not read
			continue
		}
		require.EqualValues(t, meta.Stats.NumSeries, c.Series)
		require.EqualValues(t, meta.Stats.NumChunks, c.Chunks)
		require.EqualValues(t, meta.Stats.NumSamples, c.Samples)
		a := promtoolAnalyze(t, l.dir, name)
		require.Equal(t, a.names, c.LabelNames)
		require.Equal(t, a.pairs, c.LabelPairs)
		require.EqualValues(t, a.pairsOfAll, c.LabelPairEntries)
		values := map[string]int{}
		for _, n := range c.Names {
			values[n.Name] = int(n.Count)
		}
		require.Equal(t, a.valuesOf, values)
		named := map[string]int{}
		for _, n := range c.Metrics {
			named[n.Name] = int(n.Count)
		}
		require.Equal(t, a.seriesNamed, named)
		if testing.Short() {
			return
		}
	}
}
