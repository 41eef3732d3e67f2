package scrape

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/prom/internal/strictyaml"
)

// A job has what the global part says, unless it says something else itself.
func TestSettle_TheGlobalPart(t *testing.T) {
	c := &Config{}
	require.NoError(t, strictyaml.Decode([]byte(`
global: {scrape_native_histograms: true, sample_limit: 7, body_size_limit: 1MB, label_limit: 3}
scrape_configs:
- {job_name: a, static_configs: [{targets: [h]}]}
- {job_name: b, static_configs: [{targets: [h]}], scrape_native_histograms: false, sample_limit: 8, enable_compression: false, follow_redirects: false}
`), c))
	require.NoError(t, c.Settle())
	a, b := c.Jobs[0], c.Jobs[1]
	require.True(t, *a.Histograms)
	require.False(t, *b.Histograms)
	require.Equal(t, [2]int{7, 8}, [2]int{a.SampleLimit, b.SampleLimit})
	require.EqualValues(t, 1<<20, a.BodySizeLimit)
	require.Equal(t, [2]int{3, 3}, [2]int{a.LabelLimit, b.LabelLimit})
	require.Equal(t, [2]bool{true, false}, [2]bool{*a.Compression, *b.Compression})
	require.Equal(t, [2]bool{true, false}, [2]bool{a.Client.FollowRedirects, b.Client.FollowRedirects})
	require.Equal(t, [2]bool{true, true}, [2]bool{a.Client.EnableHTTP2, b.Client.EnableHTTP2})
}

const buckets = "# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 3\nh_count 3\nh_sum 5\n"

// Buckets become a histogram with custom buckets where it is asked for.
func TestScrape_CustomBuckets(t *testing.T) {
	yes := true
	w := newWorld(t, func(j *Job) { j.CustomBuckets = &yes })
	w.scrape(buckets)
	require.EqualValues(t, 1, w.db.Stats().HistogramsAppended)
	require.Empty(t, w.stored("h_count"))
	w = newWorld(t, func(j *Job) { j.CustomBuckets, j.BothHistograms = &yes, &yes })
	w.scrape(buckets)
	require.EqualValues(t, 1, w.db.Stats().HistogramsAppended)
	require.Len(t, w.stored("h_count"), 1)
}

// Types and units are labels where it is asked for.
func TestScrape_TypesInLabels(t *testing.T) {
	w := newWorld(t, nil)
	w.target.types = true
	w.scrape("# TYPE a counter\na 1\n")
	require.Equal(t, map[string]string{`{__type__="counter"}`: "1"}, w.stored("a"))
}

// A series with times of its own ends like others where it is asked for.
func TestScrape_TracksTimestamps(t *testing.T) {
	w := newWorld(t, func(j *Job) { j.TrackTimestamps = true })
	w.scrape("a 1 1700000000500\n")
	w.scrape("")
	require.Equal(t, map[string]string{`{}`: "1 end"}, w.stored("a"))
}

func TestScrape_AsksForCompression(t *testing.T) {
	for _, on := range []bool{true, false} {
		w := newWorld(t, func(j *Job) { j.Compression = &on })
		server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
				rw.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(rw)
				defer z.Close()
				fmt.Fprintln(z, "zipped 1")
				return
			}
			fmt.Fprintln(rw, "plain 1")
		}))
		defer server.Close()
		w.target.url = server.URL
		w.scrape("")
		require.Len(t, w.stored("zipped"), map[bool]int{true: 1}[on])
		require.Len(t, w.stored("plain"), map[bool]int{false: 1}[on])
	}
}
