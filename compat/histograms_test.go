package compat

import (
	"context"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	theirhist "github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/storage"
	reference "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"

	"github.com/seed347100a3/tsdb"
)

// histogramWriters are the ways in which the reference writes histograms.
func histogramWriters() map[string]func(*reference.Options) {
	return map[string]func(*reference.Options){
		"histograms":                func(*reference.Options) {},
		"room for start timestamps": func(o *reference.Options) { o.EnableHistogramSTEncoding = true },
		"start timestamps":          withStarts,
	}
}

// withStarts makes the reference keep the start timestamps of samples of all kinds.
func withStarts(o *reference.Options) {
	secondEncoding(o)
	o.EnableHistogramSTEncoding = true
}

// histogramWorld makes a directory of the reference with five hours of floats, and leaves it open
// with the given options.
func histogramWorld(t *testing.T, base uint64, change func(*reference.Options)) *world {
	w := newWorld(t, openTheirBlocks, plan{Seed: seed(t, base), Series: 20})
	w.append(20, 5*hour)
	w.e.flush()
	w.e.close()
	w.e = openTheirs(t, w.dir, theirBlockOptions, change)
	return w
}

// appendHistograms appends to series of histograms of every kind and one of floats for ten hours.
func (w *world) appendHistograms() {
	w.t.Helper()
	var set []series
	for _, name := range []string{"integer", "float_counts", "gauge", "custom", "float_custom", "float"} {
		set = append(set, newSeries("__name__", name))
	}
	for k := range int64(60) {
		w.g.now += 10 * minute
		start := w.g.now - w.g.now%hour - 1
		app := w.theirs().db.AppenderV2(context.Background())
		add := func(i int, h *theirhist.Histogram, fh *theirhist.FloatHistogram) {
			_, err := app.Append(0, set[i].theirs, start, w.g.now, float64(k), h, fh, storage.AppendV2Options{})
			require.NoError(w.t, err)
		}
		add(0, tsdbutil.GenerateTestHistogram(k), nil)
		add(1, nil, tsdbutil.GenerateTestFloatHistogram(k))
		add(2, tsdbutil.GenerateTestGaugeHistogram(30-k%20), nil)
		add(3, tsdbutil.GenerateTestCustomBucketsHistogram(k), nil)
		add(4, nil, tsdbutil.GenerateTestCustomBucketsFloatHistogram(k))
		add(5, nil, nil)
		require.NoError(w.t, app.Commit())
	}
}

// requireOursReadsAny opens a directory, read-write and read-only, and verifies it: nothing is
// damaged, nothing is unread, and all is there. Hints are compared.
func requireOursReadsAny(t *testing.T, dir string, want anyData) *ours {
	t.Helper()
	r, err := tsdb.OpenReadOnly(dir, ourOptions(ourBlockOptions))
	require.NoError(t, err)
	q, err := r.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	requireEqualAny(t, want, dumpOursAny(t, q), "ours, read-only")
	require.NoError(t, r.Close())
	verified, err := tsdb.Verify(t.Context(), dir, nil)
	require.NoError(t, err)
	require.True(t, verified.Clean(), "%+v", verified.Findings)

	o := openOurBlocks(t, dir).(*ours)
	report := o.db.OpenReport()
	require.Empty(t, report.UnreadRecords)
	require.Zero(t, report.SamplesInvalid)
	require.Zero(t, report.SamplesUnknown)
	require.NoError(t, o.db.Health())
	requireEqualAny(t, want, o.dumpAny(), "ours")
	return o
}

// requireHistogramsKept does to a directory of the reference all that changes blocks, and gives
// it back.
func requireHistogramsKept(t *testing.T, dir string, all anyData) {
	o := requireOursReadsAny(t, dir, all)
	o.compact()
	require.True(t, slices.ContainsFunc(o.db.Blocks(), func(b tsdb.BlockMeta) bool { return b.Compaction.Level > 1 }), "nothing was merged")
	merged := o.dumpAny()
	requireEqualAny(t, all.promising(merged), merged, "ours, merged")

	// In the middle of chunks, which are written again without.
	mint, maxt := worldStart+8*hour+1, worldStart+9*hour
	o.delete(mint, maxt, everything)
	want := all.without(mint, maxt).gauges()
	key := newSeries("__name__", "integer").key
	require.Len(t, want[key], len(all[key])-6, "of 60 in 10 h, an hour was deleted")
	requireEqualAny(t, want, o.dumpAny().gauges(), "ours, deleted from")
	o.cleanTombstones()
	requireEqualAny(t, want, o.dumpAny().gauges(), "ours, cleaned")
	o.flush()
	o.compact()
	requireEqualAny(t, want, o.dumpAny().gauges(), "ours, flushed")
	o.close()
	o = openOurBlocks(t, dir).(*ours)
	requireEqualAny(t, want, o.dumpAny().gauges(), "ours, opened again")
	o.close()

	r := openTheirs(t, dir, theirBlockOptions)
	requireEqualAny(t, want, r.dumpAny().gauges(), "the reference, behind us")
	r.requireUndamaged()
	r.close()
}

// Blocks of the reference with histograms are read as it reads them, and so is what becomes of
// them when we merge, delete and clean.
func TestHistograms_InBlocksOfTheReference_AreReadAndKept(t *testing.T) {
	t.Parallel()
	for name, change := range histogramWriters() {
		t.Run(name, func(t *testing.T) {
			w := histogramWorld(t, 3800, change)
			w.appendHistograms()
			w.e.flush()
			all := w.theirs().dumpAny()
			require.Len(t, all[newSeries("__name__", "integer").key], 60)
			w.e.close()
			requireHistogramsKept(t, w.dir, all)
		})
	}
}

// The same of histograms in the log and in head chunks only, after a close and after a kill. What
// counts is what the reference finds at its next start: without EnableSTStorage start timestamps
// are in its head and not in its log.
func TestHistograms_InTheHeadOfTheReference_AreReadAndKept(t *testing.T) {
	t.Parallel()
	for name, change := range histogramWriters() {
		t.Run(name, func(t *testing.T) {
			w := histogramWorld(t, 3810, change)
			w.appendHistograms()
			killed := copyDir(t, w.dir)
			w.e.close()
			for _, dir := range []string{w.dir, killed} {
				again := openTheirs(t, copyDir(t, dir), theirBlockOptions, change)
				all := again.dumpAny()
				require.Len(t, all[newSeries("__name__", "integer").key], 60)
				again.close()
				requireHistogramsKept(t, dir, all)
			}
		})
	}
}
