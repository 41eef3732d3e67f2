package compat

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prometheus/prometheus/tsdb/chunks"
	theirrecord "github.com/prometheus/prometheus/tsdb/record"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/record"
)

// Random histograms become the same records, byte for byte, in both, and we read them.
func TestHistogramRecords_AreThoseOfTheReference(t *testing.T) {
	from := seed(t, 7800)
	for i := range scaled(1000) {
		r := rand.New(rand.NewPCG(from, uint64(i)))
		floats, starts := i%2 > 0, i%4 > 1
		all := randomHistograms(r, floats, starts)
		refs := make([]uint64, len(all))
		for j := range all {
			refs[j] = 1 + r.Uint64N(1<<40-1)
			if starts && r.IntN(4) == 0 {
				all[j].st = 0
			}
		}
		want := theirHistogramRecords(all, refs, starts)
		got := ourHistogramRecords(all, refs, starts)
		require.Equal(t, fmt.Sprintf("%x", want), fmt.Sprintf("%x", got), "list %d", i)
		n := 0
		for _, rec := range got {
			n += countHistograms(t, rec)
		}
		require.Equal(t, len(all), n)
	}
}

// ourHistogramRecords is one commit: custom buckets have a record of their own if there are
// no start timestamps.
func ourHistogramRecords(all []histogramSample, refs []uint64, starts bool) (recs [][]byte) {
	for _, custom := range []bool{false, true} {
		typ := record.HistogramType(all[0].float != nil, custom, starts)
		var e record.HistogramEncoder
		rec := e.BeginAt(nil, typ, refs[0], all[0].t)
		if custom {
			rec = e.Begin(nil, typ)
		}
		entries := 0
		for i, s := range all {
			var body []byte
			var here bool
			if s.float != nil {
				body, here = record.AppendFloatHistogram(nil, s.float), s.float.Custom() == custom
			} else {
				body, here = record.AppendHistogram(nil, s.ints), s.ints.Custom() == custom
			}
			if starts { // which have one record for all
				here = !custom
			}
			if here {
				rec = e.Append(rec, refs[i], s.t, s.st, body)
				entries++
			}
		}
		if entries > 0 {
			recs = append(recs, rec)
		}
	}
	return recs
}

func theirHistogramRecords(all []histogramSample, refs []uint64, starts bool) (recs [][]byte) {
	enc := theirrecord.Encoder{EnableSTStorage: starts}
	add := func(rec []byte, entries int) {
		if entries > 0 {
			recs = append(recs, rec)
		}
	}
	if all[0].float != nil {
		var list []theirrecord.RefFloatHistogramSample
		for i, s := range all {
			list = append(list, theirrecord.RefFloatHistogramSample{
				Ref: chunks.HeadSeriesRef(refs[i]), ST: s.st, T: s.t, FH: theirFloatHistogram(s.float),
			})
		}
		rec, custom := enc.FloatHistogramSamples(list, nil)
		add(rec, len(list)-len(custom))
		add(enc.CustomBucketsFloatHistogramSamples(custom, nil), len(custom))
		return recs
	}
	var list []theirrecord.RefHistogramSample
	for i, s := range all {
		list = append(list, theirrecord.RefHistogramSample{
			Ref: chunks.HeadSeriesRef(refs[i]), ST: s.st, T: s.t, H: theirHistogram(s.ints),
		})
	}
	rec, custom := enc.HistogramSamples(list, nil)
	add(rec, len(list)-len(custom))
	add(enc.CustomBucketsHistogramSamples(custom, nil), len(custom))
	return recs
}

func countHistograms(t *testing.T, rec []byte) (n int) {
	t.Helper()
	var d record.HistogramDecoder
	var h histogram.Histogram
	var f histogram.FloatHistogram
	for d.Reset(rec); d.Next(); n++ {
		if d.Floats() {
			require.NoError(t, d.DecodeFloat(&f))
		} else {
			require.NoError(t, d.DecodeInt(&h))
		}
	}
	require.NoError(t, d.Err())
	return n
}
