package httpapi

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"
)

func TestHistogram_InTheFormOfTheAPI(t *testing.T) {
	one := []histogram.Span{{Length: 1}}
	for name, c := range map[string]struct {
		h    histogram.FloatHistogram
		want string
	}{
		"empty": {histogram.FloatHistogram{}, `{"count":"0","sum":"0"}`},
		"numbers": {
			histogram.FloatHistogram{Count: 1e21, Sum: math.NaN()},
			`{"count":"1e+21","sum":"NaN"}`,
		},
		"negative, zero and positive buckets": {
			histogram.FloatHistogram{
				Count: 6, Sum: -1.5, ZeroThreshold: 0.25, ZeroCount: 3,
				NegativeSpans: one, NegativeBuckets: []float64{2}, PositiveSpans: one, PositiveBuckets: []float64{1},
			},
			`{"count":"6","sum":"-1.5","buckets":[[1,"-1","-0.5","2"],[3,"-0.25","0.25","3"],[0,"0.5","1","1"]]}`,
		},
		"buckets without observations": {
			histogram.FloatHistogram{
				Count: 1, PositiveSpans: []histogram.Span{{Length: 3}}, PositiveBuckets: []float64{0, 1, 0},
			},
			`{"count":"1","sum":"0","buckets":[[0,"1","2","1"]]}`,
		},
		"custom buckets": {
			histogram.FloatHistogram{
				Schema: histogram.CustomBucketsSchema, Count: 3.5, CustomValues: []float64{0.5, 10},
				PositiveSpans: []histogram.Span{{Length: 3}}, PositiveBuckets: []float64{1, 2, 0.5},
			},
			`{"count":"3.5","sum":"0","buckets":[[3,"-Inf","0.5","1"],[0,"0.5","10","2"],[0,"10","+Inf","0.5"]]}`,
		},
	} {
		var out bytes.Buffer
		e := newEncoder(&out)
		e.histogram(&c.h)
		require.NoError(t, e.flush(), name)
		e.free()
		require.Equal(t, c.want, out.String(), name)
	}
}

func TestBoundsRule_SaysWhichEndsBelongToABucket(t *testing.T) {
	for want, b := range map[byte]histogram.Bucket[float64]{
		'0': {UpperInclusive: true},
		'1': {LowerInclusive: true},
		'2': {},
		'3': {LowerInclusive: true, UpperInclusive: true},
	} {
		require.Equal(t, string(want), string(boundsRule(b)))
	}
}

// An answer of many histograms is written piece by piece, and is one document.
func TestMatrix_OfManyHistograms(t *testing.T) {
	spans := []histogram.Span{{Length: 200}}
	buckets := make([]float64, 200)
	for i := range buckets {
		buckets[i] = float64(i + 1)
	}
	s := promql.Series{Floats: []promql.FPoint{{T: -1500, F: 7}}}
	for i := range 100 {
		h := &histogram.FloatHistogram{Schema: 3, Count: float64(i), PositiveSpans: spans, PositiveBuckets: buckets}
		s.Histograms = append(s.Histograms, promql.HPoint{T: int64(i) * 1000, H: h})
	}
	var out largest
	e := newEncoder(&out)
	writeMatrix(e, promql.Matrix{s, {Floats: s.Floats}, {Histograms: s.Histograms[:1]}})
	require.NoError(t, e.flush())
	e.free()
	require.Less(t, out.most, 2*pieceBytes)
	var got []struct {
		Values     [][2]any
		Histograms [][2]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Len(t, got, 3)
	require.Len(t, got[0].Histograms, 100)
	require.Equal(t, [][2]any{{-1.5, "7"}}, got[0].Values)
	require.Nil(t, got[1].Histograms)
	require.Nil(t, got[2].Values)
	require.Equal(t, "99", string(got[0].Histograms[99][0]))
	var last struct {
		Count   string
		Buckets [][]any
	}
	require.NoError(t, json.Unmarshal(got[0].Histograms[99][1], &last))
	require.Equal(t, "99", last.Count)
	require.Len(t, last.Buckets, 200)
}

// largest remembers how long the longest piece was that was written.
type largest struct {
	bytes.Buffer
	most int
}

func (w *largest) Write(p []byte) (int, error) {
	w.most = max(w.most, len(p))
	return w.Buffer.Write(p)
}
