package remote

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// otlpNow is the newest time that the recorded requests have, but for one of the future.
const otlpNow int64 = 1795630380000

// recordedOTLP is a request, the answer of Prometheus, and what it stored.
type recordedOTLP struct {
	Name    string            `json:"name"`
	Headers map[string]string `json:"headers"`
	Body    json.RawMessage   `json:"body"`
	Status  int               `json:"status"`
	Stored  []struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
		Value  string            `json:"value"`
	} `json:"stored_as"`
}

// recordedOptions are what the recorded requests were answered with, by their names.
var recordedOptions = map[string]OTLPOptions{
	"strategy NoUTF8EscapingWithSuffixes":                                                   {Names: OTLPUTF8, PromoteResourceAttributes: recordedPromoted},
	"strategy UnderscoreEscapingWithoutSuffixes":                                            {Names: OTLPUnderscoresOnly, PromoteResourceAttributes: recordedPromoted},
	"strategy NoTranslation":                                                                {Names: OTLPUntranslated, PromoteResourceAttributes: recordedPromoted},
	"option keep_identifying_resource_attributes: true":                                     {KeepIdentifying: true},
	"option promote_all_resource_attributes: true, ignore_resource_attributes: [host.name]": {PromoteAllResourceAttributes: true, IgnoreResourceAttributes: []string{"host.name"}},
	"option convert_histograms_to_nhcb: true":                                               {CustomBuckets: true},
	"option promote_scope_metadata: true":                                                   {PromoteScope: true},
	"otlp-native-delta-ingestion":                                                           {Delta: OTLPDeltaStored},
	"otlp-deltatocumulative + type-and-unit-labels":                                         {Delta: OTLPDeltaSummed, TypeAndUnitLabels: true},
}

var recordedPromoted = []string{"deployment.environment", "host.name"}

// otlpDifferences are the recorded requests that are answered otherwise.
var otlpDifferences = map[string]struct {
	status int
	why    string
}{
	"delta sum default":            {400, otlpLost},
	"delta histogram + good gauge": {200, otlpLost},
	"delta exp hist":               {400, otlpLost},
	"unspecified temporality":      {400, otlpLost},
	"empty gauge name":             {400, otlpLost},
	"exp hist scale -5":            {400, otlpLost},
	"wrong ct":                     {415, "as remote write"},
	"no ct":                        {415, "as remote write"},
	"json+charset":                 {200, "the parameter changes nothing"},
	"deflate ce":                   {415, "as remote write"},
	"snappy ce":                    {415, "as remote write"},
	"zstd ce":                      {415, "as remote write"},
}

const otlpLost = "500 is not sent again: what is good of it is stored, and the rest is told"

func openForOTLP(t testing.TB, opts OTLPOptions) (*tsdb.DB, http.Handler) {
	t.Helper()
	clock := tsdbtest.NewClock(time.UnixMilli(otlpNow))
	db, err := tsdb.Open("data", &tsdb.Options{FS: tsdbtest.NewMemFS(), Clock: clock, Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	opts.Write.Clock = clock
	return db, NewOTLPHandler(db, &opts)
}

func sendOTLP(h http.Handler, body []byte, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/v1/metrics", bytes.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func zippedBody(t testing.TB, text string) []byte {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, err := w.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return zipped.Bytes()
}

// newestOf returns the newest sample of each series, as the text of its value; histograms are
// "hist".
func newestOf(t testing.TB, db *tsdb.DB) map[string]string {
	t.Helper()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	all := map[string]string{}
	for s, err := range q.Select(context.Background(), nil, labels.NotEqual(labels.MetricName, "")).All() {
		require.NoError(t, err)
		sample, ok, err := s.Last()
		require.NoError(t, err)
		require.True(t, ok)
		all[s.Labels().String()] = "hist"
		if sample.H == nil && sample.FH == nil {
			if tsdb.IsStale(sample.V) {
				delete(all, s.Labels().String())
				continue
			}
			all[s.Labels().String()] = strconv.FormatFloat(sample.V, 'f', -1, 64)
		}
	}
	return all
}

func TestOTLPVectors_AreStoredAsRecorded(t *testing.T) {
	b, err := os.ReadFile("testdata/otlp_receiver.json")
	require.NoError(t, err)
	var recorded struct {
		Pairs []recordedOTLP `json:"pairs"`
	}
	require.NoError(t, json.Unmarshal(b, &recorded))
	require.Len(t, recorded.Pairs, 37)
	dbs, handlers := map[string]*tsdb.DB{}, map[string]http.Handler{}
	met := 0
	for _, p := range recorded.Pairs {
		name, _, _ := strings.Cut(p.Name, " (")
		if handlers[name] == nil {
			opts, other := recordedOptions[name]
			if !other {
				name = ""
			}
			if handlers[name] == nil {
				dbs[name], handlers[name] = openForOTLP(t, opts)
			}
		}
		body := []byte(p.Body)
		var headers []string
		for k, v := range p.Headers {
			headers = append(headers, k, v)
		}
		switch p.Name { // of these only the answer was recorded
		case "gzip json":
			body = zippedBody(t, "{}")
		case "bad json":
			body = []byte("{")
		case "garbage protobuf":
			body = []byte("garbage")
		}
		before := newestOf(t, dbs[name])
		w := sendOTLP(handlers[name], body, headers...)
		status := p.Status
		if d, ok := otlpDifferences[p.Name]; ok {
			require.NotEqual(t, status, d.status, p.Name)
			require.NotEmpty(t, d.why)
			met++
			status = d.status
		}
		if status != w.Code {
			t.Errorf("%s: want %d, got %d %s", p.Name, status, w.Code, w.Body)
		}
		got, want := newestOf(t, dbs[name]), map[string]bool{}
		for _, s := range p.Stored {
			ls := map[string]string{labels.MetricName: s.Name}
			for k, v := range s.Labels {
				ls[k] = v
			}
			text := labels.FromMap(ls).String()
			want[text] = true
			if got[text] != s.Value {
				t.Errorf("%s: %s: want %s, got %q", p.Name, text, s.Value, got[text])
			}
		}
		if len(before) == 0 && len(p.Stored) > 0 {
			for text := range got {
				if !want[text] {
					t.Errorf("%s: %s is not recorded", p.Name, text)
				}
			}
		}
	}
	require.Equal(t, len(otlpDifferences), met)
}
