package compat

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	theirlabels "github.com/prometheus/prometheus/model/labels"
	reference "github.com/prometheus/prometheus/tsdb"
)

// metasOf reads every meta.json of a directory, by block.
func metasOf(t testing.TB, dir string) map[string]reference.BlockMeta {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	metas := map[string]reference.BlockMeta{}
	for _, e := range entries {
		if _, err := ulid.ParseStrict(e.Name()); err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name(), "meta.json"))
		require.NoError(t, err)
		var meta reference.BlockMeta
		require.NoError(t, json.Unmarshal(text, &meta))
		require.Equal(t, e.Name(), meta.ULID.String())
		metas[e.Name()] = meta
	}
	return metas
}

// requirePromtoolReads proves that the reference's tool lists what the metas say,
// counts what the blocks have, and dumps exactly want.
func requirePromtoolReads(t testing.TB, l left) {
	t.Helper()
	dir, want := l.dir, l.want
	requireEqual(t, want.changed(point.text), promtoolDump(t, dir), "promtool dump")
	metas := metasOf(t, dir)
	listed := promtoolList(t, dir)
	require.Len(t, listed, len(metas))
	for i, b := range listed {
		meta, ok := metas[b.ULID]
		require.True(t, ok, b.ULID)
		require.Equal(t, meta.MinTime, b.MinTime)
		require.Equal(t, meta.MaxTime, b.MaxTime)
		require.EqualValues(t, meta.MaxTime-meta.MinTime, b.Duration.Milliseconds())
		require.EqualValues(t, meta.Stats.NumSamples, b.Samples)
		require.EqualValues(t, meta.Stats.NumChunks, b.Chunks)
		require.EqualValues(t, meta.Stats.NumSeries, b.Series)
		if i == 0 || !testing.Short() {
			requireAnalyzed(t, dir, b)
		}
	}
}

// requireAnalyzed compares what the tool counts in the index of a block with its series.
func requireAnalyzed(t testing.TB, dir string, b listedBlock) {
	t.Helper()
	a := promtoolAnalyze(t, dir, b.ULID)
	require.Equal(t, b.Series, a.series)
	series := seriesOfBlock(t, filepath.Join(dir, b.ULID))
	require.Len(t, series, a.series)
	names, pairs, pairsOfAll := map[string]map[string]bool{}, map[string]int{}, 0
	named := map[string]int{}
	for _, s := range series {
		s.Range(func(l theirlabels.Label) {
			if names[l.Name] == nil {
				names[l.Name] = map[string]bool{}
			}
			names[l.Name][l.Value] = true
			// A line break in a value breaks the line of the tool's output.
			pair, _, _ := strings.Cut(l.Name+"="+l.Value, "\n")
			pairs[pair]++
			pairsOfAll++
			if l.Name == "__name__" {
				named[l.Value]++
			}
		})
	}
	values := map[string]int{}
	for name, of := range names {
		values[name] = len(of)
	}
	require.Equal(t, len(names), a.names)
	require.Equal(t, len(pairs), a.pairs)
	require.Equal(t, pairsOfAll, a.pairsOfAll)
	require.Equal(t, values, a.valuesOf)
	require.Equal(t, pairs, a.commonPairs)
	require.Equal(t, named, a.seriesNamed)
}

// seriesOfBlock returns the label sets of a block, by key.
func seriesOfBlock(t testing.TB, dir string) map[string]theirlabels.Labels {
	t.Helper()
	block, err := reference.OpenBlock(nil, dir, nil, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, block.Close()) }()
	ir, err := block.Index()
	require.NoError(t, err)
	defer func() { require.NoError(t, ir.Close()) }()
	all := map[string]theirlabels.Labels{}
	builder := theirlabels.NewScratchBuilder(0)
	for ids := reference.AllSortedPostings(t.Context(), ir); ids.Next(); {
		require.NoError(t, ir.Series(ids.At(), &builder, nil))
		all[keyOfTheirs(builder.Labels())] = builder.Labels().Copy()
	}
	return all
}

// requireServerReads proves that a Prometheus that gets a copy of the directory serves
// exactly want, through remote read and through PromQL, and finds nothing wrong.
func requireServerReads(t testing.TB, l left) {
	t.Helper()
	want := l.want
	s := startServer(t, copyDir(t, l.dir))
	s.excuses = l.excuses
	requireEqual(t, want.changed(point.wire), s.dump(), "prometheus")
	newest := int64(math.MinInt64)
	var values float64
	names := map[string]bool{}
	for key, ps := range want {
		names[key] = len(ps) > 0
		for _, p := range ps {
			newest = max(newest, p.T)
			if p.V != staleMarker { // PromQL does not count these
				values++
			}
		}
	}
	// At a time far behind all samples, deleted ones, too: the reference panics where it cuts a
	// chunk off that has several deleted intervals, of which the last one reaches beyond the cut.
	require.Equal(t, values, s.instant(`sum(count_over_time({n=~".+"}[10y]))`, newest+30*24*hour))
	s.requireUndamaged()
	s.stop()
}

// requireReferenceReadsBlocks is what every reader of the reference finds in a
// directory: the same samples, no damage, the same after it has compacted, and nothing
// changed by those that only read. It says which blocks there are.
func requireReferenceReadsBlocks(t testing.TB, l left) {
	t.Helper()
	dir, want := l.dir, l.want
	before := listing(t, dir)
	requireEqual(t, want, dumpReadOnly(t, dir, l.excuses), "reference, read-only")
	require.Equal(t, before, listing(t, dir))
	r := openTheirs(t, copyDir(t, dir), theirBlockOptions)
	r.log.excuses = l.excuses
	requireEqual(t, want, r.dump(), "reference")
	r.compact()
	requireEqual(t, want, r.dump(), fmt.Sprintf("reference, compacted; before: %v", metasOf(t, dir)))
	r.requireUndamaged()
	r.flush()
	r.cleanTombstones()
	requireEqual(t, want, r.dump(), "reference, flushed and cleaned")
	r.requireUndamaged()
	r.close()
}
