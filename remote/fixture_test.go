package remote

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"strconv"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

const (
	fixtureStart = 1_699_999_200_000 // 22:00 UTC, where a block begins
	fixtureStep  = 15_000
)

// fixtureValue is sample i of series s: a gauge that wanders.
func fixtureValue(s, i int) float64 {
	return float64(s) + math.Round(1000*math.Sin(float64(i)/10))/100
}

// openBlocks opens a database with blocks of so many series and samples each.
func openBlocks(t testing.TB, series, samples int) *tsdb.DB {
	t.Helper()
	dir := t.TempDir()
	w, err := tsdb.NewBlockWriter(dir, nil)
	require.NoError(t, err)
	for s := range series {
		ls := labels.FromStrings("__name__", "requests_total", "instance", "host-"+strconv.Itoa(s), "job", "api", "zone", "z"+strconv.Itoa(s%3))
		var ref tsdb.SeriesRef
		for i := range samples {
			if ref, err = w.AppendRef(ref, ls, fixtureStart+int64(i)*fixtureStep, fixtureValue(s, i)); err != nil {
				require.NoError(t, err) // not for each sample: it takes longer than the sample
			}
		}
	}
	_, err = w.Flush(context.Background())
	require.NoError(t, err)
	require.NoError(t, w.Close())
	db, err := tsdb.Open(dir, &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// allOf is a serialised request for a metric at all times.
func allOf(typ responseType, metric string) []byte {
	return appendReadRequest(nil, &readRequest{
		queries:  []query{{start: math.MinInt64, end: math.MaxInt64, matchers: []matcher{{name: "__name__", value: metric}}}},
		accepted: []responseType{typ},
	})
}

// bodyOf compresses a serialised request.
func bodyOf(request []byte) *bytes.Reader { return bytes.NewReader(snappy.Encode(nil, request)) }

// sink is a ResponseWriter that forgets what is written.
type sink struct {
	header http.Header
	status int
	bytes  int64
	write  func() // called behind each write; nil: not
}

func newSink() *sink { return &sink{header: http.Header{}, status: http.StatusOK} }

func (s *sink) Header() http.Header    { return s.header }
func (s *sink) WriteHeader(status int) { s.status = status }

func (s *sink) Write(b []byte) (int, error) {
	s.bytes += int64(len(b))
	if s.write != nil {
		s.write()
	}
	return len(b), nil
}
