package remote

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// BenchmarkWriter sends samples of 10,000 series that were committed 1,000 at a time, to a receiver
// that takes them unseen. Committing them is not measured.
func BenchmarkWriter(b *testing.B) {
	const series, perCommit = 10_000, 1000
	for _, protocol := range []WriterProtocol{ProtocolV1, ProtocolV2} {
		b.Run(fmt.Sprintf("protocol=%d.0", protocol), func(b *testing.B) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // a request that breaks off is sent again
				w.Header().Set(writtenHeaders[itemSample], "2000")
				w.WriteHeader(http.StatusNoContent)
			}))
			defer server.Close()
			db, err := tsdb.Open(b.TempDir(), &tsdb.Options{WAL: tsdb.WALOptions{Sync: tsdb.SyncNever()}})
			require.NoError(b, err)
			defer func() { require.NoError(b, db.Close()) }()
			first, err := NewWriter(db, &WriterOptions{URL: server.URL})
			require.NoError(b, err)
			require.NoError(b, first.Close())
			refs := make([]tsdb.SeriesRef, series)
			vs := make([]float64, perCommit)
			at := time.Now().UnixMilli() - 3_600_000
			n := 0
			for n < b.N+series {
				at += 100
				for from := 0; from < series; from += perCommit {
					app := db.Appender()
					for i := from; i < from+perCommit; i++ {
						vs[i-from] = float64(n % 1000)
						if refs[i] == 0 {
							ref, err := app.Append(0, writerBenchLabels(i), at, 0)
							require.NoError(b, err)
							refs[i] = ref
						}
					}
					if n >= series {
						_, err := app.AppendBatch(at, refs[from:from+perCommit], vs, nil)
						require.NoError(b, err)
					}
					_, err := app.Commit(context.Background())
					require.NoError(b, err)
					n += perCommit
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			w, err := NewWriter(db, &WriterOptions{URL: server.URL, Protocol: protocol})
			require.NoError(b, err)
			require.NoError(b, w.Flush(context.Background()))
			b.StopTimer()
			st := w.Stats()
			require.GreaterOrEqual(b, int(st.Samples), b.N)
			b.ReportMetric(float64(st.Bytes)/float64(n), "B/sample")
			require.NoError(b, w.Close())
		})
	}
}

// writerBenchLabels are eight labels of about 190 bytes.
func writerBenchLabels(i int) labels.Labels {
	return labels.FromStrings(labels.MetricName, fmt.Sprintf("http_server_requests_total_%d", i%50), "cluster", "production-eu-west-1", "namespace", fmt.Sprintf("team-%d", i%20),
		"pod", fmt.Sprintf("deployment-7d9f8b6c5d-%05d", i/50), "container", "application", "method", "GET", "status", "200", "instance", fmt.Sprintf("10.1.%d.%d:9100", i/250%250, i%250))
}
