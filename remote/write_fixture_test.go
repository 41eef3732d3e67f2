package remote

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/itertest"
	"github.com/seed347100a3/tsdb/labels"
)

// sentSeries is a TimeSeries to send.
type sentSeries struct {
	pairs      []string // names and values, in the order in which they are sent
	samples    []tsdb.Sample
	histograms []tsdb.Sample
	exemplars  []sentExemplar
	meta       tsdb.Metadata // of 2.0
}

type sentExemplar struct {
	pairs []string
	t     int64
	v     float64
}

// one is a series with floats of one value a time.
func one(name string, samples ...tsdb.Sample) sentSeries {
	return sentSeries{pairs: []string{labels.MetricName, name}, samples: samples}
}

func at(t int64, v float64) tsdb.Sample { return tsdb.Sample{T: t, V: v} }

func putDouble(dst []byte, field byte, v float64) []byte {
	return protowire.AppendFixed64(append(dst, fixed64Tag(field)), math.Float64bits(v))
}

// appendPart appends a message as a field.
func appendPart(dst []byte, field byte, message []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, protowire.Number(field), protowire.BytesType), message)
}

func encodeSample(s tsdb.Sample) []byte {
	return appendInt(appendInt(putDouble(nil, 1, s.V), 2, s.T), 3, s.ST)
}

// encodeHistogram encodes a histogram with all its buckets.
func encodeHistogram(s tsdb.Sample) (b []byte) {
	spans := func(field byte, list []histogram.Span) {
		for _, span := range list {
			b = appendPart(b, field, appendInt(appendInt(nil, 1, int64(protowire.EncodeZigZag(int64(span.Offset)))), 2, int64(span.Length)))
		}
	}
	deltas := func(field byte, list []int64) {
		var packed []byte
		for _, d := range list {
			packed = protowire.AppendVarint(packed, protowire.EncodeZigZag(d))
		}
		b = appendPart(b, field, packed)
	}
	doubles := func(field byte, list []float64) {
		var packed []byte
		for _, v := range list {
			packed = protowire.AppendFixed64(packed, math.Float64bits(v))
		}
		b = appendPart(b, field, packed)
	}
	if h := s.H; h != nil {
		b = protowire.AppendVarint(append(b, varintTag(1)), h.Count)
		b = putDouble(b, 3, h.Sum)
		b = appendInt(b, 4, int64(protowire.EncodeZigZag(int64(h.Schema))))
		b = putDouble(b, 5, h.ZeroThreshold)
		b = appendInt(b, 6, int64(h.ZeroCount))
		spans(8, h.NegativeSpans)
		deltas(9, h.NegativeBuckets)
		spans(11, h.PositiveSpans)
		deltas(12, h.PositiveBuckets)
		doubles(16, h.CustomValues)
	} else {
		b = putDouble(b, 2, s.FH.Count)
		b = putDouble(b, 3, s.FH.Sum)
		b = appendInt(b, 4, int64(protowire.EncodeZigZag(int64(s.FH.Schema))))
		b = putDouble(b, 5, s.FH.ZeroThreshold)
		b = putDouble(b, 7, s.FH.ZeroCount)
		spans(8, s.FH.NegativeSpans)
		doubles(10, s.FH.NegativeBuckets)
		spans(11, s.FH.PositiveSpans)
		doubles(13, s.FH.PositiveBuckets)
	}
	b = appendInt(b, 15, s.T)
	if s.ST != 0 {
		b = protowire.AppendVarint(protowire.AppendTag(b, 17, protowire.VarintType), uint64(s.ST))
	}
	return b
}

func encodePairs(dst []byte, pairs []string) []byte {
	for i := 0; i+1 < len(pairs); i += 2 {
		dst = appendPart(dst, 1, appendString(appendString(nil, 1, pairs[i]), 2, pairs[i+1]))
	}
	return dst
}

// encodeV1 encodes a WriteRequest.
func encodeV1(all ...sentSeries) (b []byte) {
	for _, s := range all {
		m := encodePairs(nil, s.pairs)
		for _, v := range s.samples {
			m = appendPart(m, 2, appendInt(putDouble(nil, 1, v.V), 2, v.T))
		}
		for _, e := range s.exemplars {
			m = appendPart(m, 3, appendInt(putDouble(encodePairs(nil, e.pairs), 2, e.v), 3, e.t))
		}
		for _, h := range s.histograms {
			m = appendPart(m, 4, encodeHistogram(h))
		}
		b = appendPart(b, 1, m)
	}
	return b
}

// symbolTable collects what a request refers to.
type symbolTable struct {
	list []string
	refs map[string]uint32
}

func newSymbolTable() *symbolTable {
	return &symbolTable{list: []string{""}, refs: map[string]uint32{"": 0}}
}

func (s *symbolTable) ref(text string) uint32 {
	ref, ok := s.refs[text]
	if !ok {
		ref = uint32(len(s.list))
		s.list, s.refs[text] = append(s.list, text), ref
	}
	return ref
}

// field is the references of labels.
func (s *symbolTable) field(pairs []string) []byte {
	var packed []byte
	for _, text := range pairs {
		packed = protowire.AppendVarint(packed, uint64(s.ref(text)))
	}
	return appendPart(nil, 1, packed)
}

// encodeV2 encodes a Request.
func encodeV2(all ...sentSeries) []byte {
	table := newSymbolTable()
	var series []byte
	for _, s := range all {
		m := table.field(s.pairs)
		for _, v := range s.samples {
			m = appendPart(m, 2, encodeSample(v))
		}
		for _, h := range s.histograms {
			m = appendPart(m, 3, encodeHistogram(h))
		}
		for _, e := range s.exemplars {
			m = appendPart(m, 4, appendInt(putDouble(table.field(e.pairs), 2, e.v), 3, e.t))
		}
		if s.meta != (tsdb.Metadata{}) {
			meta := appendInt(nil, 1, int64(s.meta.Type))
			m = appendPart(m, 5, appendInt(appendInt(meta, 3, int64(table.ref(s.meta.Help))), 4, int64(table.ref(s.meta.Unit))))
		}
		series = appendPart(series, 5, m)
	}
	return append(encodeSymbols(table.list...), series...)
}

func encodeSymbols(list ...string) (b []byte) {
	for _, text := range list {
		b = appendPart(b, 4, []byte(text))
	}
	return b
}

// writeEncoders are both versions, as a client sends them.
var writeEncoders = []struct {
	name, contentType string
	version           writeVersion
	encode            func(...sentSeries) []byte
}{
	{"1.0", writeMediaType, writeV1, encodeV1},
	{"2.0", writeMediaType + ";proto=" + writeNameV2, writeV2, encodeV2},
}

// anyMemory is as much memory as a request may want.
func anyMemory() *memoryShare { return &memoryShare{of: &requestMemory{}} }

// send posts a message.
func send(h http.Handler, contentType string, message []byte) *httptest.ResponseRecorder {
	return sendBody(h, contentType, snappy.Encode(nil, message))
}

func sendBody(h http.Handler, contentType string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/api/v1/write", bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Content-Encoding", snappyEncoding)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// requireWritten requires a status, and the numbers of 2.0 for both.
func requireWritten(t testing.TB, w *httptest.ResponseRecorder, version writeVersion, status int, written string) {
	t.Helper()
	require.Equal(t, status, w.Code, w.Body)
	if version == writeV1 {
		written = ""
	}
	require.Equal(t, written, writtenOf(w.Header().Get), w.Body)
	if status == http.StatusNoContent {
		require.Empty(t, w.Body.String())
	}
}

// storedSamples returns what a database has of a metric, by labels.
func storedSamples(t testing.TB, db *tsdb.DB, metric string) map[string][]tsdb.Sample {
	t.Helper()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	all := map[string][]tsdb.Sample{}
	for s, err := range q.Select(context.Background(), nil, labels.Equal(labels.MetricName, metric)).All() {
		require.NoError(t, err)
		var list []tsdb.Sample
		it := s.Iterator(nil)
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			one := tsdb.Sample{T: it.AtT(), ST: it.AtST()}
			if one.H, one.FH = itertest.HistogramAt(it, kind); kind == chunkenc.ValFloat {
				_, one.V = it.At()
			}
			list = append(list, one)
		}
		require.NoError(t, it.Err())
		all[s.Labels().String()] = list
	}
	return all
}

// floatsOf are the values of samples, in order.
func floatsOf(samples []tsdb.Sample) (vs []float64) {
	for _, s := range samples {
		vs = append(vs, s.V)
	}
	return vs
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
