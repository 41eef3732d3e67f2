package remote

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
)

// storedVector is a recorded request, and what the other receiver's storage had behind it.
type storedVector struct {
	Name    string            `json:"name"`
	Headers map[string]string `json:"request_headers"`
	Message string            `json:"request_protobuf"`
	Snappy  bool              `json:"snappy"`
	Status  int               `json:"status"`
	Answer  map[string]string `json:"response_headers"`
	Stored  []storedSeries    `json:"stored"`
}

type storedSeries struct {
	Labels  [][2]string          `json:"labels"`
	Samples [][2]json.RawMessage `json:"samples"`
}

// text is the samples of a series in one form for both sides.
func (s *storedSeries) text(t *testing.T) (lines []string) {
	for _, sample := range s.Samples {
		var bits string
		if json.Unmarshal(sample[1], &bits) == nil {
			lines = append(lines, fmt.Sprintf("%s %s", sample[0], bits))
			continue
		}
		var h struct {
			Count json.RawMessage `json:"count"`
			Sum   string          `json:"sum"`
		}
		require.NoError(t, json.Unmarshal(sample[1], &h))
		lines = append(lines, fmt.Sprintf("%s %s %s", sample[0], strings.Trim(string(h.Count), `"`), h.Sum))
	}
	return lines
}

// textOf is that of samples.
func textOf(samples []tsdb.Sample) (lines []string) {
	bits := func(v float64) string { return fmt.Sprintf("%016x", math.Float64bits(v)) }
	for _, s := range samples {
		switch {
		case s.H != nil:
			lines = append(lines, fmt.Sprintf("%d %d %s", s.T, s.H.Count, bits(s.H.Sum)))
		case s.FH != nil:
			lines = append(lines, fmt.Sprintf("%d %s %s", s.T, bits(s.FH.Count), bits(s.FH.Sum)))
		default:
			lines = append(lines, fmt.Sprintf("%d %s", s.T, bits(s.V)))
		}
	}
	return lines
}

// storedDifferences are the vectors whose request is answered, or stored, in another way.
var storedDifferences = map[string]struct {
	status int
	stored bool // series differ
	why    string
}{
	"v1-out-of-order":          {400, true, "what can be stored of the request is"},
	"v1-series-without-name":   {400, false, losesSilently},
	"v2-space-in-content-type": {204, true, "the blank is not part of the parameter's name"},
}

func TestStoredVectors_AreWhatIsStored(t *testing.T) {
	b, err := os.ReadFile("testdata/remote_write.json")
	require.NoError(t, err)
	var recorded struct {
		Vectors []storedVector `json:"vectors"`
	}
	require.NoError(t, json.Unmarshal(b, &recorded))
	require.Len(t, recorded.Vectors, 14)
	for _, v := range recorded.Vectors {
		t.Run(v.Name, func(t *testing.T) {
			db, err := tsdb.Open(t.TempDir(), nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			if v.Name == "v1-out-of-order" || v.Name == "v2-partial" {
				app := db.Appender()
				_, err = app.Append(0, labels.FromStrings(labels.MetricName, "up"), writeStart-1, 1)
				require.NoError(t, err)
				_, err = app.Commit(context.Background())
				require.NoError(t, err)
			}
			body, err := hex.DecodeString(v.Message)
			require.NoError(t, err)
			if v.Snappy {
				body = snappy.Encode(nil, body)
			}
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(string(body)))
			for name, value := range v.Headers {
				r.Header.Set(name, value)
			}
			w := httptest.NewRecorder()
			NewWriteHandler(db, nil).ServeHTTP(w, r)
			differs, ok := storedDifferences[v.Name]
			if !ok {
				differs.status = v.Status
				require.Equal(t, writtenOf(func(name string) string { return v.Answer[name] }), writtenOf(w.Header().Get))
			}
			require.Equal(t, differs.status, w.Code, w.Body)
			same := true
			for _, s := range v.Stored {
				var pairs []string
				for _, l := range s.Labels {
					pairs = append(pairs, l[0], l[1])
				}
				ls := labels.FromStrings(pairs...)
				got := textOf(storedSamples(t, db, ls.Get(labels.MetricName))[ls.String()])
				if !differs.stored {
					require.Equal(t, s.text(t), got, "%s", ls)
				}
				same = same && fmt.Sprint(s.text(t)) == fmt.Sprint(got)
			}
			if len(v.Stored) != int(db.Stats().Series) {
				same = false
			}
			require.Equal(t, !differs.stored, same, "%d series, want %d", db.Stats().Series, len(v.Stored))
		})
	}
}

// What is left of a histogram is checked elsewhere; here that its messages of both versions are
// read alike.
func TestWrittenHistograms_AreTheSameInBothVersions(t *testing.T) {
	series := one("h")
	custom := &histogram.Histogram{
		Schema: histogram.CustomBuckets, Count: 3, Sum: 4, CustomValues: []float64{1, 2, 3},
		PositiveSpans: []histogram.Span{{Offset: 0, Length: 2}}, PositiveBuckets: []int64{1, 1},
	}
	negative := some(3)
	negative.NegativeSpans, negative.NegativeBuckets = []histogram.Span{{Offset: -4, Length: 1}, {Offset: 2, Length: 1}}, []int64{2, -1}
	negative.Count += 3
	series.histograms = []tsdb.Sample{{T: writeNewest, H: custom}, {T: writeNewest + 1, H: negative}, {T: writeNewest + 2, FH: someFloats(0.5)}}
	for _, v := range writeEncoders {
		db, clock := openForWrites(t, tsdb.Options{})
		requireWritten(t, send(NewWriteHandler(db, &WriteOptions{Clock: clock}), v.contentType, v.encode(series)), v.version, http.StatusNoContent, "/0/3/0")
		got := storedSamples(t, db, "h")[`{__name__="h"}`]
		require.Len(t, got, 3)
		require.Equal(t, custom.Digest(), got[0].H.Digest())
		require.Equal(t, negative.Digest(), got[1].H.Digest())
		require.Equal(t, someFloats(0.5).Digest(), got[2].FH.Digest())
	}
}
