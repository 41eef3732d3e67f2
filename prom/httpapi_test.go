package prom_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	writev2 "github.com/prometheus/prometheus/prompb/io/prometheus/write/v2"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom"
)

// recording is requests to a Prometheus server and its answers.
type recording struct {
	Setup []struct {
		Headers map[string]string
		Body    string `json:"body_zlib_base64"`
	}
	Pairs []pair
}

type pair struct {
	Name            string
	Method, Path    string
	Headers         map[string]string
	Body            string
	Status          int
	ResponseHeaders map[string]string `json:"response_headers"`
	Response        json.RawMessage
	ResponseText    *string `json:"response_text"`
	Truncated       string  `json:"response_truncated"`
}

func readRecording(t *testing.T) *recording {
	text, err := os.ReadFile("testdata/http_api.json")
	require.NoError(t, err)
	var rec recording
	require.NoError(t, json.Unmarshal(text, &rec))
	require.Len(t, rec.Pairs, 226)
	return &rec
}

// protoHistogram is a histogram of a request of either version.
type protoHistogram interface {
	IsFloatHistogram() bool
	ToIntHistogram() *histogram.Histogram
	ToFloatHistogram() *histogram.FloatHistogram
}

// load appends the samples of the requests that the recording began with.
func (rec *recording) load(t *testing.T, db *tsdb.DB) {
	app := prom.NewStorage(db).AppenderV2(context.Background())
	exemplars := prom.NewStorage(db).Appender(context.Background())
	add := func(ls labels.Labels, at int64, v float64) {
		_, err := app.Append(0, ls, 0, at, v, nil, nil, storage.AppendV2Options{})
		require.NoError(t, err)
	}
	addHistogram := func(ls labels.Labels, at int64, h protoHistogram) {
		var ints *histogram.Histogram
		var floats *histogram.FloatHistogram
		if h.IsFloatHistogram() {
			floats = h.ToFloatHistogram()
		} else {
			ints = h.ToIntHistogram()
		}
		_, err := app.Append(0, ls, 0, at, 0, ints, floats, storage.AppendV2Options{})
		require.NoError(t, err)
	}
	for _, s := range rec.Setup {
		packed, err := base64.StdEncoding.DecodeString(s.Body)
		require.NoError(t, err)
		zr, err := zlib.NewReader(bytes.NewReader(packed))
		require.NoError(t, err)
		text, err := io.ReadAll(zr)
		require.NoError(t, err)
		if strings.Contains(s.Headers["Content-Type"], "v2") {
			var req writev2.Request
			require.NoError(t, req.Unmarshal(text))
			for _, ts := range req.Timeseries {
				b := labels.NewScratchBuilder(0)
				ls, err := ts.ToLabels(&b, req.Symbols)
				require.NoError(t, err)
				for _, p := range ts.Samples {
					add(ls, p.Timestamp, p.Value)
				}
				for _, h := range ts.Histograms {
					addHistogram(ls, h.Timestamp, h)
				}
				for _, x := range ts.Exemplars {
					e, err := x.ToExemplar(&b, req.Symbols)
					require.NoError(t, err)
					_, err = exemplars.AppendExemplar(0, ls, e)
					require.NoError(t, err)
				}
			}
			continue
		}
		var req prompb.WriteRequest
		require.NoError(t, req.Unmarshal(text))
		for _, ts := range req.Timeseries {
			b := labels.NewScratchBuilder(0)
			ls := ts.ToLabels(&b, nil)
			for _, p := range ts.Samples {
				add(ls, p.Timestamp, p.Value)
			}
			for _, h := range ts.Histograms {
				addHistogram(ls, h.Timestamp, h)
			}
			for _, x := range ts.Exemplars {
				_, err := exemplars.AppendExemplar(0, ls, x.ToExemplar(&b, nil))
				require.NoError(t, err)
			}
		}
	}
	require.NoError(t, app.Commit())
	require.NoError(t, exemplars.Commit())
}

// sentLater is what the recorded server got behind the requests that it began with, right before a
// question: by the question's name.
var sentLater = map[string]func(app storage.AppenderV2) error{
	"negative buckets": func(app storage.AppenderV2) error {
		return send(app, "neg", 1700036000000, 0, &histogram.Histogram{
			ZeroThreshold: 0.5, ZeroCount: 1, Count: 9, Sum: 1,
			NegativeSpans: []histogram.Span{{Length: 2}}, NegativeBuckets: []int64{2, 1},
			PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{3},
		})
	},
	"empty histogram": func(app storage.AppenderV2) error {
		return send(app, "emptyh", 1700036000000, 0, &histogram.Histogram{})
	},
	"query both kinds": func(app storage.AppenderV2) error {
		return errors.Join(
			send(app, "x2both", 1700003660000, 1, nil),
			send(app, "x2both", 1700003660001, 0, &histogram.Histogram{
				Schema: 1, ZeroThreshold: 0.001, ZeroCount: 2, Count: 7, Sum: 18.4,
				PositiveSpans:   []histogram.Span{{Length: 2}, {Offset: 1, Length: 2}},
				PositiveBuckets: []int64{1, 1, -1, 0},
			}))
	},
}

func send(app storage.AppenderV2, name string, t int64, v float64, h *histogram.Histogram) error {
	_, err := app.Append(0, labels.FromStrings("__name__", name), 0, t, v, h, nil, storage.AppendV2Options{})
	return err
}

// difference is a pair that we answer otherwise.
type difference struct {
	Name string `json:"name"`
	Why  string `json:"why"`
	Ours reply  `json:"ours"`
}

var update = flag.Bool("update", false, "write the list of differences")

const differencesFile = "testdata/http_api_differences.json"

func TestHTTPAPI_AnswersAsRecorded(t *testing.T) {
	rec := readRecording(t)
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	rec.load(t, db)
	handler := prom.NewHandler(db, &prom.HandlerOptions{
		Admin: true, Engine: prom.EngineOptions{MaxSamples: 20000, StepStats: true},
		Origins: regexp.MustCompile(".*"),
	})
	var known, found []difference
	text, err := os.ReadFile(differencesFile)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &known))
	why := map[string]string{}
	for _, d := range known {
		why[d.Name] = d.Why
	}
	for _, p := range rec.Pairs {
		if late := sentLater[p.Name]; late != nil {
			app := prom.NewStorage(db).AppenderV2(context.Background())
			require.NoError(t, late(app), p.Name)
			require.NoError(t, app.Commit())
		}
		want, got := p.answer(t), ask(t, handler, p)
		if _, other := why[p.Name]; !other && !*update {
			require.Equal(t, want, got, p.Name)
		}
		if want != got {
			found = append(found, difference{p.Name, why[p.Name], got})
		}
	}
	text, err = json.MarshalIndent(found, "", " ")
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(differencesFile, append(text, '\n'), 0o666))
	}
	require.Equal(t, known, found)
	for _, d := range known {
		require.NotEmpty(t, d.Why, d.Name)
	}
}

// reply is what of an answer is compared.
type reply struct {
	Status int
	Type   string
	Text   string
}

func (p *pair) answer(t *testing.T) reply {
	r := reply{Status: p.Status, Type: p.ResponseHeaders["Content-Type"]}
	switch {
	case p.Response != nil:
		r.Text = canonical(t, p.Response)
	case p.ResponseText != nil:
		r.Text = *p.ResponseText
	}
	return r
}

// canonical makes texts of the same data the same.
func canonical(t *testing.T, text []byte) string {
	var data any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&data), "%s", text)
	still(data)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	require.NoError(t, e.Encode(data))
	return strings.TrimSpace(out.String())
}

// still takes out what is different each time.
func still(data any) {
	m, ok := data.(map[string]any)
	if !ok {
		return
	}
	for name, v := range m {
		switch name {
		case "timings":
			for timer := range v.(map[string]any) {
				v.(map[string]any)[timer] = json.Number("0")
			}
		case "name":
			if s, ok := v.(string); ok && snapshotName.MatchString(s) {
				m[name] = "<time>-<16 hex>"
			}
		case "goVersion":
			m[name] = "go"
		case "storage.tsdb.path":
			m[name] = "data"
		default:
			still(v)
		}
	}
}

var snapshotName = regexp.MustCompile(`^\d{8}T\d{6}Z-[0-9a-f]{16}$`)

func ask(t *testing.T, h http.Handler, p pair) reply {
	req := httptest.NewRequest(p.Method, "http://localhost"+p.Path, strings.NewReader(p.Body))
	for name, value := range p.Headers {
		req.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, req)
	r := reply{Status: w.Code, Type: w.Header().Get("Content-Type"), Text: w.Body.String()}
	if r.Type == "application/json" && w.Header().Get("Content-Encoding") == "" {
		r.Text = canonical(t, w.Body.Bytes())
	}
	if p.Method == http.MethodHead { // a server sends no body
		r.Text = ""
	}
	if p.Truncated != "" { // only the begin is recorded
		r.Text = r.Text[:0]
	}
	return r
}
