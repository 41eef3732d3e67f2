package compat

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	reference "github.com/prometheus/prometheus/tsdb"
)

// theirBlockOptions are the reference's with blocks of two, six and eighteen hours.
func theirBlockOptions(o *reference.Options) {
	o.MinBlockDuration = (2 * time.Hour).Milliseconds()
	o.MaxBlockDuration = 9 * o.MinBlockDuration
	o.RetentionDuration = 0 // for ever
	o.SamplesPerChunk = 30
	o.WALSegmentSize = 128 << 10
}

// openTheirBlocks is the opener of the reference.
func openTheirBlocks(t testing.TB, dir string) blockEngine {
	t.Helper()
	return openTheirs(t, dir, theirBlockOptions)
}

// delete deletes. The reference sorts the matchers, in a goroutine for the head and one for each
// block, all of them in the one list that the caller gave: a data race, by which about one delete in
// 500 took series that no matcher chooses. Matchers that are sorted already stay where they are.
func (r *theirs) delete(mint, maxt int64, ms ...matcher) {
	r.t.Helper()
	sorted := theirMatchers(r.t, ms)
	ix, err := r.db.Head().Index()
	require.NoError(r.t, err)
	_, err = reference.PostingsForMatchers(r.t.Context(), ix, sorted...)
	require.NoError(r.t, err)
	require.NoError(r.t, ix.Close())
	require.NoError(r.t, r.db.Delete(context.Background(), mint, maxt, sorted...))
}

// flush makes a block of each two hours of the head.
func (r *theirs) flush() {
	r.t.Helper()
	const blockRange = 2 * hour
	h := r.db.Head()
	for last := h.MaxTime(); h.MinTime() <= last; {
		mint := h.MinTime()
		maxt := min((mint/blockRange+1)*blockRange-1, last)
		require.NoError(r.t, r.db.CompactHead(reference.NewRangeHead(h, mint, maxt)))
		require.Greater(r.t, h.MinTime(), mint)
	}
}

func (r *theirs) compact() {
	r.t.Helper()
	r.db.EnableCompactions()
	require.NoError(r.t, r.db.Compact(context.Background()))
	r.db.DisableCompactions()
}

func (r *theirs) cleanTombstones() {
	r.t.Helper()
	require.NoError(r.t, r.db.CleanTombstones())
}
