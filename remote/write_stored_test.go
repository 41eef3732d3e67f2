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

// A request that is not stored has said nothing: metadata of it is set by the next one.
func TestWrite_MetadataOfARefusedRequestIsNotRemembered(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock})
	cut := []byte{2<<3 | 2, 5} // samples that are not there
	v2 := writeEncoders[writeV2]
	requireWritten(t, send(h, v2.contentType, v2.encode(one("m", at(writeNewest-1, 1)))), writeV2, http.StatusNoContent, "/1/0/0")
	series := one("m", at(writeNewest, 1))
	series.meta = tsdb.Metadata{Type: tsdb.MetricGauge, Help: "Help."}
	requireWritten(t, send(h, v2.contentType, append(v2.encode(series), appendPart(nil, 5, cut)...)), writeV2, http.StatusBadRequest, "/0/0/0")
	require.Empty(t, metadataOf(t, db))
	requireWritten(t, send(h, v2.contentType, v2.encode(series)), writeV2, http.StatusNoContent, "/1/0/0")
	require.Equal(t, map[string]tsdb.Metadata{"m": series.meta}, metadataOf(t, db))

	v1 := writeEncoders[writeV1]
	family := func(help string) []byte {
		return appendPart(nil, 3, appendString(appendString(nil, 2, "m"), 4, help))
	}
	requireWritten(t, send(h, v1.contentType, append(family("Refused."), appendPart(nil, 1, cut)...)), writeV1, http.StatusBadRequest, "")
	requireWritten(t, send(h, v1.contentType, v1.encode(one("m", at(writeNewest+1, 1)))), writeV1, http.StatusNoContent, "")
	require.Equal(t, "Help.", metadataOf(t, db)["m"].Help)
	requireWritten(t, send(h, v1.contentType, family("Taken.")), writeV1, http.StatusNoContent, "")
	requireWritten(t, send(h, v1.contentType, v1.encode(one("m", at(writeNewest+2, 1)))), writeV1, http.StatusNoContent, "")
	require.Equal(t, "Taken.", metadataOf(t, db)["m"].Help)
}

// A stale marker of a series of histograms is a histogram; sent again, late, it is there already.
func TestWrite_OfALateStaleMarkerThatIsThere(t *testing.T) {
	for name, h := range map[string]tsdb.Sample{"ints": {H: some(3)}, "floats": {FH: someFloats(3)}} {
		eachVersion(t, tsdb.Options{}, func(t *testing.T, db *tsdb.DB, to http.Handler, i int) {
			v := writeEncoders[i]
			h.T = writeNewest
			series := one(name)
			series.histograms = []tsdb.Sample{h}
			requireWritten(t, send(to, v.contentType, v.encode(series)), v.version, http.StatusNoContent, "/0/1/0")
			marker := v.encode(one(name, at(writeNewest+1, tsdb.StaleMarker())))
			requireWritten(t, send(to, v.contentType, marker), v.version, http.StatusNoContent, "/1/0/0")
			series.histograms[0].T = writeNewest + 2
			requireWritten(t, send(to, v.contentType, v.encode(series)), v.version, http.StatusNoContent, "/0/1/0")
			requireWritten(t, send(to, v.contentType, marker), v.version, http.StatusNoContent, "/1/0/0")
			number := v.encode(one(name, at(writeNewest+1, 7)))
			requireWritten(t, send(to, v.contentType, number), v.version, http.StatusBadRequest, "/0/0/0")
		})
	}
}

// Families that no sender has any more make room for others.
func TestFamilies_ThatAreNotSentAreForgotten(t *testing.T) {
	var f families
	set := func(name, help string) { f.set(&wireFamily{name: []byte(name), help: []byte(help)}) }
	find := func(name string) string {
		m, _ := f.find(name)
		return m.Help
	}
	set("sent", "now and then")
	set("once", "only")
	state := f.state.Load()
	for i := range 3 * maxFamilies {
		if i%1000 == 0 {
			set("sent", "now and then")
		}
		set(fmt.Sprint("f", i), "x")
		require.Equal(t, "x", find(fmt.Sprint("f", i)))
	}
	require.Equal(t, "now and then", find("sent"))
	require.Empty(t, find("once"))
	require.LessOrEqual(t, len(f.mu.young), maxFamilies)
	require.LessOrEqual(t, len(f.mu.old), maxFamilies)
	require.Equal(t, state+3*maxFamilies, f.state.Load(), "what is said again changes nothing")
	long := strings.Repeat("x", maxFamilyBytes)
	for i := range 3 * maxFamiliesBytes / maxFamilyBytes {
		set("grows", long[:i])
		set(fmt.Sprint("f", i), long)
		require.LessOrEqual(t, f.mu.bytes, maxFamiliesBytes)
	}
}
