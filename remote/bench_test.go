package remote

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkRead answers requests for 8 hours of samples, 15 seconds apart, from blocks,
// without a network. TSDB_BENCH_SERIES is how many series; default 1,000.
func BenchmarkRead(b *testing.B) {
	series := 1000
	if n, err := strconv.Atoi(os.Getenv("TSDB_BENCH_SERIES")); err == nil {
		series = n
	}
	const samples = 8 * 240
	db := openBlocks(b, series, samples)
	h := ReadHandler(db, nil)
	for _, typ := range []responseType{typeSamples, typeChunks} {
		b.Run(typ.String(), func(b *testing.B) {
			request := allOf(typ, "requests_total")
			b.ReportAllocs()
			for b.Loop() {
				w := newSink()
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bodyOf(request)))
				require.Equal(b, http.StatusOK, w.status)
				b.SetBytes(w.bytes)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*series*samples), "ns/sample")
		})
	}
}
