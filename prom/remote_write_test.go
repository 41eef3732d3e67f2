package prom_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/prometheus/prometheus/tsdb/tsdbutil"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/prom"
)

// writeSteps is how many samples a series has that is sent.
const writeSteps = 5

// sentV1 is a request of every kind, as the reference encodes it.
func sentV1(t *testing.T, now time.Time) []byte {
	series := func(name string) prompb.TimeSeries {
		return prompb.TimeSeries{Labels: prompb.FromLabels(labels.FromStrings("__name__", name, "job", "sender"), nil)}
	}
	floats, ints, fractions := series("sent_total"), series("sent_ints"), series("sent_floats")
	for i := range writeSteps {
		at := now.Add(time.Duration(i-writeSteps) * time.Second).UnixMilli()
		floats.Samples = append(floats.Samples, prompb.Sample{Timestamp: at, Value: float64(i)})
		ints.Histograms = append(ints.Histograms, prompb.FromIntHistogram(at, tsdbutil.GenerateTestHistogram(int64(i))))
		fractions.Histograms = append(fractions.Histograms, prompb.FromFloatHistogram(at, tsdbutil.GenerateTestFloatHistogram(int64(i))))
	}
	floats.Exemplars = []prompb.Exemplar{{Labels: prompb.FromLabels(labels.FromStrings("trace_id", "abc"), nil), Value: 3, Timestamp: now.UnixMilli()}}
	req := prompb.WriteRequest{
		Timeseries: []prompb.TimeSeries{floats, ints, fractions},
		Metadata:   []prompb.MetricMetadata{{Type: prompb.MetricMetadata_COUNTER, MetricFamilyName: "sent", Help: "What was sent."}},
	}
	b, err := req.Marshal()
	require.NoError(t, err)
	return b
}

// sentV2 is the same of the other version.
func sentV2(t *testing.T, now time.Time) []byte {
	symbols := writev2.NewSymbolTable()
	series := func(name string) writev2.TimeSeries {
		return writev2.TimeSeries{
			LabelsRefs: symbols.SymbolizeLabels(labels.FromStrings("__name__", name, "job", "sender"), nil),
			Metadata:   writev2.Metadata{Type: writev2.FromMetadataType(model.MetricTypeCounter), HelpRef: symbols.Symbolize("What was sent.")},
		}
	}
	floats, ints, fractions := series("sent_total"), series("sent_ints"), series("sent_floats")
	for i := range writeSteps {
		at := now.Add(time.Duration(i-writeSteps) * time.Second).UnixMilli()
		floats.Samples = append(floats.Samples, writev2.Sample{Timestamp: at, Value: float64(i), StartTimestamp: at - 1000})
		ints.Histograms = append(ints.Histograms, writev2.FromIntHistogram(at-1000, at, tsdbutil.GenerateTestHistogram(int64(i))))
		fractions.Histograms = append(fractions.Histograms, writev2.FromFloatHistogram(0, at, tsdbutil.GenerateTestFloatHistogram(int64(i))))
	}
	floats.Exemplars = []writev2.Exemplar{{LabelsRefs: symbols.SymbolizeLabels(labels.FromStrings("trace_id", "abc"), nil), Value: 3, Timestamp: now.UnixMilli()}}
	req := writev2.Request{Timeseries: []writev2.TimeSeries{floats, ints, fractions}, Symbols: symbols.Symbols()}
	b, err := req.Marshal()
	require.NoError(t, err)
	return b
}

func postWrite(h http.Handler, contentType string, message []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/api/v1/write", bytes.NewReader(s2.EncodeSnappy(nil, message)))
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Content-Encoding", "snappy")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// What senders of either version send is what queries read.
func TestWrite_WhatIsSentIsWhatQueriesRead(t *testing.T) {
	now := time.Now()
	for _, v := range []struct {
		contentType string
		message     []byte
		written     []string
	}{
		{"application/x-protobuf", sentV1(t, now), []string{"", "", ""}},
		{"application/x-protobuf;proto=io.prometheus.write.v2.Request", sentV2(t, now), []string{"5", "10", "1"}},
	} {
		s := openStorage(t)
		h := prom.NewHandler(s.DB(), &prom.HandlerOptions{Receive: true})
		for range 2 {
			w := postWrite(h, v.contentType, v.message)
			require.Equal(t, http.StatusNoContent, w.Code, w.Body)
			for i, name := range []string{"Samples", "Histograms", "Exemplars"} {
				require.Equal(t, v.written[i], w.Header().Get("X-Prometheus-Remote-Write-"+name+"-Written"))
			}
		}
		got := readSamples(t, h)
		require.Len(t, got, 3)
		for i := range writeSteps {
			at := now.Add(time.Duration(i-writeSteps) * time.Second).UnixMilli()
			requireSameCounts(t, mixed{t: at, v: float64(i)}, got["sent_total"][i])
			requireSameCounts(t, mixed{t: at, h: tsdbutil.GenerateTestHistogram(int64(i))}, got["sent_ints"][i])
			requireSameCounts(t, mixed{t: at, fh: tsdbutil.GenerateTestFloatHistogram(int64(i))}, got["sent_floats"][i])
		}
		require.Equal(t, "4", instant(t, h, "sent_total", now))
		require.NotEqual(t, "", instant(t, h, "histogram_sum(sent_ints)", now))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/query_exemplars?query=sent_total&start=0&end="+strconv.FormatInt(now.Unix()+1, 10), nil))
		require.Contains(t, w.Body.String(), `"trace_id":"abc"`)
		w = httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/status/flags", nil))
		require.Contains(t, w.Body.String(), `"web.enable-remote-write-receiver":"true"`)
	}
}

// instant is the value of an expression that has one.
func instant(t *testing.T, h http.Handler, expr string, at time.Time) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/query?time="+strconv.FormatInt(at.Unix()+1, 10)+"&query="+url.QueryEscape(expr), nil))
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), w.Body)
	require.Len(t, answer.Data.Result, 1, w.Body)
	return answer.Data.Result[0].Value[1].(string)
}

func TestWrite_IsOffUnlessTurnedOn(t *testing.T) {
	h := prom.NewHandler(openStorage(t).DB(), nil)
	require.Equal(t, http.StatusNotFound, postWrite(h, "application/x-protobuf", nil).Code)
}
