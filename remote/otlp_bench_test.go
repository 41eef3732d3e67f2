package remote

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// BenchmarkOTLP stores requests of known series, 1,000 gauges with nine attributes each, without a
// network.
func BenchmarkOTLP(b *testing.B) {
	b.Run("protobuf", func(b *testing.B) {
		benchmarkOTLP(b, otlpProtobuf, func(text []byte) ([]byte, error) { return otlpMessage(text) })
	})
	b.Run("json", func(b *testing.B) {
		benchmarkOTLP(b, otlpJSON, func(text []byte) ([]byte, error) { return text, nil })
	})
}

func benchmarkOTLP(b *testing.B, media string, bodyOf func(text []byte) ([]byte, error)) {
	const series, messages = 1000, 100
	db, err := tsdb.Open(b.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(b, err)
	defer func() { require.NoError(b, db.Close()) }()
	h := NewOTLPHandler(db, nil)
	now := int64(writeNewest) * 1_000_000
	var bodies [][]byte
	next := func() {
		bodies = bodies[:0]
		for range messages {
			now += 1_000_000_000
			var metrics []string
			for i := range series {
				var attributes []string
				for k, value := range []string{"production-eu-west-1", "application", fmt.Sprintf("10.1.%d.%d:9100", i/250, i%250), "kubernetes", "GET", fmt.Sprintf("team-%d", i%17), fmt.Sprintf("service-7c9f8b6d5-%d", i), fmt.Sprint(i), "200"} {
					attributes = append(attributes, fmt.Sprintf(`{"key":"label_%d","value":{"stringValue":%q}}`, k, value))
				}
				metrics = append(metrics, fmt.Sprintf(`{"name":"metric_%d","gauge":{"dataPoints":[{"timeUnixNano":"%d","asDouble":%d.5,"attributes":[%s]}]}}`, i%20, now, i, strings.Join(attributes, ",")))
			}
			body, err := bodyOf([]byte(`{"resourceMetrics":[{"scopeMetrics":[{"metrics":[` + strings.Join(metrics, ",") + `]}]}]}`))
			require.NoError(b, err)
			bodies = append(bodies, body)
		}
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if i%messages == 0 {
			b.StopTimer()
			next()
			b.StartTimer()
		}
		r := httptest.NewRequest(http.MethodPost, "/v1/metrics", bytes.NewReader(bodies[i%messages]))
		r.Header.Set("Content-Type", media)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatal(w.Code, w.Body)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*series), "ns/sample")
}
