package compat

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// ourBlockOptions are ours with blocks of two, six and eighteen hours.
func ourBlockOptions(o *tsdb.Options) {
	o.Blocks.Range, o.Blocks.MaxRange = 2*time.Hour, 18*time.Hour
	o.Blocks.Manual = true
	o.Head.SamplesPerChunk = 30
	o.WAL.SegmentSize = 128 << 10
}

// openOurBlocks is the opener of ours. Nothing may be damaged.
func openOurBlocks(t testing.TB, dir string) blockEngine {
	t.Helper()
	o := openOurs(t, dir, ourBlockOptions)
	o.requireClean()
	require.Zero(t, o.db.OpenReport().BlocksSetAside)
	return o
}

func (o *ours) delete(mint, maxt int64, ms ...matcher) {
	o.t.Helper()
	require.NoError(o.t, o.db.Delete(context.Background(), mint, maxt, ourMatchers(o.t, ms)...))
}

func (o *ours) flush() {
	o.t.Helper()
	require.NoError(o.t, o.db.Flush(context.Background()))
}

func (o *ours) compact() {
	o.t.Helper()
	require.NoError(o.t, o.db.Compact(context.Background()))
}

func (o *ours) cleanTombstones() {
	o.t.Helper()
	require.NoError(o.t, o.db.CleanTombstones(context.Background()))
}

// requireOursReadsBlocks is what we find in a directory: the same samples, no damage,
// the same after everything is flushed, merged and cleaned, and after opening again.
func requireOursReadsBlocks(t testing.TB, l left) {
	t.Helper()
	e := openOurBlocks(t, copyDir(t, l.dir))
	requireEqual(t, l.want, e.dump(), "ours")
	e.compact()
	requireEqual(t, l.want, e.dump(), "ours, compacted")
	e.flush()
	e.cleanTombstones()
	e.compact()
	requireEqual(t, l.want, e.dump(), "ours, flushed and cleaned")
	dir := e.(*ours).db.Dir()
	e.close()
	e = openOurBlocks(t, dir)
	requireEqual(t, l.want, e.dump(), "ours, opened again")
	e.close()
}

// requireOursReadsOnly is what we find in a directory without changing anything.
func requireOursReadsOnly(t testing.TB, l left) {
	t.Helper()
	before := listing(t, l.dir)
	r, err := tsdb.OpenReadOnly(l.dir, ourOptions(ourBlockOptions))
	require.NoError(t, err)
	q, err := r.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	requireEqual(t, l.want, dumpOurs(t, q), "ours, read-only")
	report := r.OpenReport()
	require.True(t, report.Clean(), "%+v", report)
	require.NoError(t, r.Close())
	require.Equal(t, before, listing(t, l.dir))
}
