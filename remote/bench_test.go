package remote

import (
	"context"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// benchSeries is TSDB_BENCH_SERIES, or 1,000.
func benchSeries() int {
	if n, err := strconv.Atoi(os.Getenv("TSDB_BENCH_SERIES")); err == nil {
		return n
	}
	return 1000
}

// benchmarkRead answers requests for all there is, in both modes, without a network.
func benchmarkRead(b *testing.B, db *tsdb.DB, series, samples int) {
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

// BenchmarkRead answers requests for 8 hours of samples, 15 seconds apart, from blocks,
// without a network. TSDB_BENCH_SERIES is how many series; default 1,000.
func BenchmarkRead(b *testing.B) {
	series := benchSeries()
	const samples = 8 * 240
	db := openBlocks(b, series, samples)
	benchmarkRead(b, db, series, samples)
}

// BenchmarkReadHead answers requests for 2 hours of samples, 15 seconds apart, from the
// head, without a network. TSDB_BENCH_SERIES is how many series; default 1,000.
func BenchmarkReadHead(b *testing.B) {
	series := benchSeries()
	const samples = 480
	db, err := tsdb.Open(b.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	refs := make([]tsdb.SeriesRef, series)
	for i := range samples {
		app := db.Appender()
		for s := range refs {
			var ls labels.Labels
			if refs[s] == 0 {
				ls = labels.FromStrings("__name__", "requests_total", "instance", "host-"+strconv.Itoa(s), "job", "api", "zone", "z"+strconv.Itoa(s%3),
					"cluster", "production-west", "namespace", "monitoring", "pod", "server-"+strconv.Itoa(s), "handler", "/api/v1/query", "method", "GET", "code", "200")
			}
			ref, err := app.Append(refs[s], ls, fixtureStart+int64(i)*fixtureStep, usualValue(s, i))
			if err != nil {
				require.NoError(b, err)
			}
			refs[s] = ref
		}
		_, err := app.Commit(context.Background())
		require.NoError(b, err)
	}
	benchmarkRead(b, db, series, samples)
}

// usualValue is a counter, a gauge, a constant or noise: 4 B a sample.
func usualValue(s, i int) float64 {
	switch s % 4 {
	case 0:
		return float64(i) * float64(1+s%7)
	case 1:
		return math.Round(fixtureValue(s, i)*10) / 10
	case 2:
		return float64(s)
	default:
		return math.Sin(float64(s + i*i))
	}
}
