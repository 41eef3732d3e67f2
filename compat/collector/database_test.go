package collector

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// openDB opens an empty database until the test ends.
func openDB(t *testing.T) *tsdb.DB {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// stored is all that a database has as text: samples, exemplars, metadata.
type stored struct{ samples, exemplars, metadata []string }

// dump reads a database. Times are in seconds since origin.
func dump(t *testing.T, db *tsdb.DB) (all stored) {
	t.Helper()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	for s, err := range q.Select(t.Context(), nil).All() {
		require.NoError(t, err)
		it := s.Iterator(nil)
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			line := fmt.Sprintf("%s %s %s", s.Labels(), seconds(it.AtT()), valueOf(it, kind))
			if it.AtST() != 0 {
				line += ", since " + seconds(it.AtST())
			}
			all.samples = append(all.samples, line)
		}
		require.NoError(t, it.Err())
	}
	exemplars, err := q.Exemplars(t.Context())
	require.NoError(t, err)
	for _, s := range exemplars {
		for _, e := range s.Exemplars {
			all.exemplars = append(all.exemplars, fmt.Sprintf("%s %s %s %v", s.Labels, seconds(e.T), e.Labels, e.Value))
		}
	}
	metadata, err := q.Metadata(t.Context())
	require.NoError(t, err)
	for _, s := range metadata {
		all.metadata = append(all.metadata, fmt.Sprintf("%s %s %q %q", s.Labels, s.Metadata.Type, s.Metadata.Unit, s.Metadata.Help))
	}
	return all
}

func seconds(t int64) string { return fmt.Sprintf("%gs", float64(t-origin)/1000) }

func valueOf(it chunkenc.Iterator, kind chunkenc.ValueType) string {
	var h histogram.FloatHistogram
	switch kind {
	case chunkenc.ValHistogram:
		var ints histogram.Histogram
		it.AtHistogram(&ints)
		ints.ToFloat(&h)
	case chunkenc.ValFloatHistogram:
		it.AtFloatHistogram(&h)
	default:
		_, v := it.At()
		if tsdb.IsStale(v) {
			return "stale"
		}
		return fmt.Sprint(v)
	}
	if h.Stale() {
		return "stale histogram"
	}
	scale := fmt.Sprintf("schema %d", h.Schema)
	if h.Custom() {
		scale += fmt.Sprintf(", bounds %v", h.CustomValues)
	}
	return fmt.Sprintf("histogram %s, count %v, sum %v, zero %v, positive%s, negative%s",
		scale, h.Count, h.Sum, h.ZeroCount, buckets(h.PositiveSpans, h.PositiveBuckets), buckets(h.NegativeSpans, h.NegativeBuckets))
}

// buckets are those that count something, by index.
func buckets(spans []histogram.Span, counts []float64) string {
	var b strings.Builder
	index := int32(0)
	for _, s := range spans {
		index += s.Offset
		for range s.Length {
			if counts[0] != 0 {
				fmt.Fprintf(&b, " %d:%v", index, counts[0])
			}
			index, counts = index+1, counts[1:]
		}
	}
	return b.String()
}

// without leaves out the lines that have a text.
func without(lines []string, text string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(line, text) })
}

// notSince leaves out, in the lines that have a text, since when values have been counted.
func notSince(lines []string, text string) []string {
	lines = slices.Clone(lines)
	for i, line := range lines {
		if strings.Contains(line, text) {
			lines[i], _, _ = strings.Cut(line, ", since ")
		}
	}
	return lines
}
