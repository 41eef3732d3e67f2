package remote

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// vector is a request with the answer that another implementation gave to it.
type vector struct {
	Name            string            `json:"name"`
	ExternalLabels  []string          `json:"external_labels"`
	MaxBytesInFrame int               `json:"max_bytes_in_frame"`
	SampleLimit     int               `json:"sample_limit"`
	Request         string            `json:"request_protobuf"`
	Response        string            `json:"response_protobuf"`
	Body            *string           `json:"body"`
	Headers         map[string]string `json:"response_headers"`
	Status          int               `json:"status"`
	Frames          []vectorFrame     `json:"frames"`
	Results         [][]vectorSeries  `json:"results"`
}

type vectorFrame struct {
	QueryIndex int64 `json:"query_index"`
	Series     []struct {
		Labels [][2]string `json:"labels"`
		Chunks []struct {
			Data string `json:"data"`
			MinT int64  `json:"min_time_ms"`
			MaxT int64  `json:"max_time_ms"`
			Type int32  `json:"type"`
		} `json:"chunks"`
	} `json:"series"`
}

type vectorSeries struct {
	Labels     [][2]string       `json:"labels"`
	Samples    [][2]any          `json:"samples"`
	Histograms []vectorHistogram `json:"histograms"`
}

type vectorHistogram struct {
	T int64        `json:"t"`
	H histtest.Int `json:"h"`
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	text, err := os.ReadFile("testdata/remote_read.json")
	require.NoError(t, err)
	var file struct {
		Vectors []vector `json:"vectors"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&file))
	require.NotEmpty(t, file.Vectors)
	return file.Vectors
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// otherBytes is the vectors whose answer in samples says the same in other bytes: empty buckets of
// histograms are left out, and a hint that says nothing is not.
var otherBytes = map[string]bool{"samples-two-queries-histograms": true}

// vectorStart is the first sample's time in the vectors' data.
const vectorStart = 1_700_000_000_000

// vectorHistograms are the samples of the vectors' one series of histograms.
func vectorHistograms(t testing.TB) (all []vectorHistogram) {
	t.Helper()
	for _, v := range readVectors(t) {
		for _, result := range v.Results {
			for _, s := range result {
				if len(s.Histograms) > 0 {
					require.Equal(t, [][2]string{{"__name__", "h"}, {"job", "a"}}, s.Labels)
					all = s.Histograms
				}
			}
		}
	}
	require.NotEmpty(t, all)
	return all
}

// openVectorDB makes the data that the vectors were answered from.
func openVectorDB(t testing.TB) *tsdb.DB {
	t.Helper()
	clock := tsdbtest.NewClock(time.UnixMilli(vectorStart + 300*15_000))
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Clock: clock, Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	app := db.Appender()
	for i := range int64(300) {
		at := vectorStart + i*15_000
		_, err := app.Append(0, labels.FromStrings("__name__", "up", "job", "a"), at, 1)
		require.NoError(t, err)
		_, err = app.Append(0, labels.FromStrings("__name__", "up", "job", "b", "region", "local"), at, float64(i%3))
		require.NoError(t, err)
	}
	for _, s := range vectorHistograms(t) {
		_, err := app.AppendSample(0, labels.FromStrings("__name__", "h", "job", "a"), tsdb.Sample{T: s.T, H: &s.H.Histogram})
		require.NoError(t, err)
	}
	_, err = app.Commit(context.Background())
	require.NoError(t, err)
	return db
}

// post sends a serialised request to a handler.
func post(h http.Handler, request []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/api/v1/read", bytes.NewReader(snappy.Encode(nil, request)))
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestVectors_RequestsAreDecodedAndEncodedByteForByte(t *testing.T) {
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			want := unhex(t, v.Request)
			req, err := decodeReadRequest(want)
			require.NoError(t, err)
			require.Equal(t, want, appendReadRequest(nil, &req))
		})
	}
}

func TestVectors_AreAnsweredByteForByte(t *testing.T) {
	db := openVectorDB(t)
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			opts := &ReadOptions{
				ExternalLabels: labels.FromStrings(v.ExternalLabels...),
				FrameBytes:     v.MaxBytesInFrame,
				SampleLimit:    v.SampleLimit,
			}
			w := post(ReadHandler(db, opts), unhex(t, v.Request))
			require.Equal(t, v.Status, w.Code, w.Body)
			require.Equal(t, v.Headers["Content-Type"], w.Header().Get("Content-Type"))
			if v.Status != http.StatusOK {
				return
			}
			require.Equal(t, v.Headers["Content-Encoding"], w.Header().Get("Content-Encoding"))
			if v.Body != nil {
				require.Equal(t, *v.Body, hex.EncodeToString(w.Body.Bytes()))
				return
			}
			got, err := snappy.Decode(nil, w.Body.Bytes())
			require.NoError(t, err)
			if !otherBytes[v.Name] {
				require.Equal(t, unhex(t, v.Response), got)
			}
			require.Equal(t, expectedResults(t, v), decodeResults(t, got))
		})
	}
}

func TestVectors_FramesAreDecoded(t *testing.T) {
	for _, v := range readVectors(t) {
		if v.Body == nil || v.Status != http.StatusOK {
			continue
		}
		body := unhex(t, *v.Body)
		var got frame
		for _, want := range v.Frames {
			data, rest := cutFrame(t, body)
			require.NoError(t, got.decode(data))
			require.Equal(t, want.QueryIndex, got.queryIndex)
			require.Len(t, got.series, len(want.Series))
			for i, s := range want.Series {
				require.Equal(t, toLabels(s.Labels), got.series[i].labels)
				require.Len(t, got.series[i].chunks, len(s.Chunks))
				for j, c := range s.Chunks {
					require.Equal(t, frameChunk{c.MinT, c.MaxT, c.Type, unhex(t, c.Data)}, got.series[i].chunks[j])
				}
			}
			body = rest
		}
		require.Empty(t, body)
	}
}

func toLabels(pairs [][2]string) (ls []labels.Label) {
	for _, p := range pairs {
		ls = append(ls, labels.Label{Name: p[0], Value: p[1]})
	}
	return ls
}

// sampled is a series of an answer in samples.
type sampled struct {
	labels []labels.Label
	ts     []int64
	bits   []uint64 // of the values

	histograms []string // as text
}

// vectorText is a histogram of the vectors without what does not matter: empty buckets.
func vectorText(t int64, h *histogram.Histogram) string {
	text := fmt.Sprintf("%d: %v %d %x %d %d %x", t, h.Hint, h.Schema, math.Float64bits(h.ZeroThreshold), h.ZeroCount, h.Count, math.Float64bits(h.Sum))
	for b := range h.ToFloat(nil).Buckets() {
		text += fmt.Sprintf(" %v", b)
	}
	return text
}

func expectedResults(t testing.TB, v vector) [][]sampled {
	results := make([][]sampled, len(v.Results))
	for i, series := range v.Results {
		for _, s := range series {
			want := sampled{labels: toLabels(s.Labels)}
			for _, h := range s.Histograms {
				want.histograms = append(want.histograms, vectorText(h.T, &h.H.Histogram))
			}
			for _, p := range s.Samples {
				at, err := p[0].(json.Number).Int64()
				require.NoError(t, err)
				bits, err := strconv.ParseUint(p[1].(string), 16, 64)
				require.NoError(t, err)
				want.ts, want.bits = append(want.ts, at), append(want.bits, bits)
			}
			results[i] = append(results[i], want)
		}
	}
	return results
}

// decodeResults decodes a whole answer in samples.
func decodeResults(t testing.TB, response []byte) (results [][]sampled) {
	t.Helper()
	for r := readFields(response); r.next(); {
		require.EqualValues(t, 1, r.num)
		var result []sampled
		series := readFields(r.bytes())
		for series.next() {
			result = append(result, decodeSampled(t, series.bytes()))
		}
		require.NoError(t, series.err)
		results = append(results, result)
	}
	return results
}

func decodeSampled(t testing.TB, b []byte) (s sampled) {
	t.Helper()
	r := readFields(b)
	for r.next() {
		if r.num == 1 {
			l, err := decodeLabel(r.bytes())
			require.NoError(t, err)
			s.labels = append(s.labels, l)
			continue
		}
		if r.num == 4 {
			var h wireHistogram
			require.NoError(t, h.decode(r.bytes()))
			require.Equal(t, chunkenc.ValHistogram, h.kind)
			s.histograms = append(s.histograms, vectorText(h.t, &h.ints))
			continue
		}
		require.EqualValues(t, 2, r.num)
		at, v, err := decodeSample(r.bytes())
		require.NoError(t, err)
		s.ts, s.bits = append(s.ts, at), append(s.bits, math.Float64bits(v))
	}
	require.NoError(t, r.err)
	return s
}
