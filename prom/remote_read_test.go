package prom_test

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/prompb"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	ourhistogram "github.com/seed347100a3/tsdb/histogram"
	tsdblabels "github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom"
	"github.com/seed347100a3/tsdb/remote"
)

// requireSameCounts compares samples of which some were given without their empty buckets.
func requireSameCounts(t *testing.T, want, got mixed) {
	t.Helper()
	require.Equal(t, want.t, got.t)
	require.Equal(t, want.kind(), got.kind(), "at %d", want.t)
	switch {
	case want.h != nil:
		require.True(t, want.h.Copy().Compact(0).Equals(got.h.Compact(0)), "at %d: want %v, got %v", want.t, want.h, got.h)
	case want.fh != nil:
		require.True(t, want.fh.Copy().Compact(0).Equals(got.fh.Compact(0)), "at %d: want %v, got %v", want.t, want.fh, got.fh)
	default:
		require.Equal(t, math.Float64bits(want.v), math.Float64bits(got.v), "at %d", want.t)
	}
}

// readSamples asks for an answer in samples and decodes it as the reference does.
func readSamples(t *testing.T, h http.Handler) map[string][]mixed {
	t.Helper()
	req := prompb.ReadRequest{Queries: []*prompb.Query{{
		StartTimestampMs: 0, EndTimestampMs: math.MaxInt64 / 2,
		Matchers: []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".+"}},
	}}}
	text, err := req.Marshal()
	require.NoError(t, err)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/v1/read", bytes.NewReader(s2.EncodeSnappy(nil, text))))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	text, err = s2.Decode(nil, w.Body.Bytes())
	require.NoError(t, err)
	var res prompb.ReadResponse
	require.NoError(t, res.Unmarshal(text))
	require.Len(t, res.Results, 1)
	all := map[string][]mixed{}
	for _, s := range res.Results[0].Timeseries {
		var samples []mixed
		for _, p := range s.Samples {
			samples = append(samples, mixed{t: p.Timestamp, v: p.Value})
		}
		for _, p := range s.Histograms {
			if p.IsFloatHistogram() {
				samples = append(samples, mixed{t: p.Timestamp, fh: p.ToFloatHistogram()})
			} else {
				samples = append(samples, mixed{t: p.Timestamp, h: p.ToIntHistogram()})
			}
		}
		slices.SortFunc(samples, func(a, b mixed) int { return int(a.t - b.t) })
		all[s.Labels[0].Value] = samples
	}
	return all
}

// A remote read of the API gives samples of every kind, in both forms.
func TestRead_GivesSamplesOfEveryKind(t *testing.T) {
	s, all := mixedStorage(t)
	h := prom.NewHandler(s.DB(), nil)
	read := readSamples(t, h)
	require.Len(t, read, len(all))
	for name, want := range all {
		require.Len(t, read[name], len(want), name)
		for i := range want {
			requireSameCounts(t, want[i], read[name][i])
		}
	}

	server := httptest.NewServer(h)
	defer server.Close()
	client, err := remote.NewReadClient(server.URL+"/api/v1/read", &remote.ReadClientOptions{Mode: remote.ModeStreamed})
	require.NoError(t, err)
	for name, want := range all {
		set := client.Select(context.Background(), 0, math.MaxInt64/2, nil, tsdblabels.Equal("__name__", name))
		require.True(t, set.Next(), name)
		it := set.At().Iterator(nil)
		for i := range want {
			kind := it.Next()
			got := mixed{t: it.AtT(), st: it.AtST()}
			require.Equal(t, want[i].st, got.st)
			switch kind {
			case chunkenc.ValHistogram:
				var h ourhistogram.Histogram
				it.AtHistogram(&h)
				got.h = &histogram.Histogram{Count: h.Count, Sum: h.Sum}
			case chunkenc.ValFloatHistogram:
				var h ourhistogram.FloatHistogram
				it.AtFloatHistogram(&h)
				got.fh = &histogram.FloatHistogram{Count: h.Count, Sum: h.Sum}
			default:
				_, got.v = it.At()
			}
			requireSameTotals(t, &want[i], &got)
		}
		require.Equal(t, chunkenc.ValNone, it.Next())
		require.NoError(t, it.Err())
		require.NoError(t, set.Close())
	}
}

// requireSameTotals compares all but buckets.
func requireSameTotals(t *testing.T, want, got *mixed) {
	t.Helper()
	require.Equal(t, want.t, got.t)
	require.Equal(t, want.kind(), got.kind(), "at %d", want.t)
	switch {
	case want.h != nil:
		require.Equal(t, want.h.Count, got.h.Count)
		require.Equal(t, math.Float64bits(want.h.Sum), math.Float64bits(got.h.Sum))
	case want.fh != nil:
		require.Equal(t, want.fh.Count, got.fh.Count)
		require.Equal(t, math.Float64bits(want.fh.Sum), math.Float64bits(got.fh.Sum))
	default:
		require.Equal(t, math.Float64bits(want.v), math.Float64bits(got.v))
	}
}
