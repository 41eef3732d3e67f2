package collector

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// What we cannot take yet a collector sends again.
func TestCollector_SendsAgainWhatWeCannotTakeYet(t *testing.T) {
	for _, e := range exporters {
		t.Run(e.name, func(t *testing.T) {
			db := openDB(t)
			c := startCollector(t, e, db, 1)
			require.Equal(t, http.StatusOK, c.post(shop(0, 1)))
			require.Equal(t, http.StatusOK, c.post(shop(15, 2)))
			c.stop()
			require.Equal(t, 1+2*e.requests, c.requests.Load())
			require.Len(t, c.lines(`"status_code":503|Status Code 503`), 1)
			require.Equal(t, e.stores(shopStored(t)).samples, dump(t, db).samples)
		})
	}
}

// What we never take a collector drops, and logs why.
func TestCollector_DropsWhatWeRefuse(t *testing.T) {
	for _, e := range exporters {
		t.Run(e.name, func(t *testing.T) {
			db := openDB(t)
			c := startCollector(t, e, db, 0)
			require.Equal(t, http.StatusOK, c.post(shop(15, 2)))
			want := dump(t, db).samples
			require.Empty(t, c.complaints())
			require.GreaterOrEqual(t, c.post(shop(0, 1)), 400, "late")
			c.stop()
			require.Equal(t, 2*e.requests, c.requests.Load())
			require.NotEmpty(t, c.lines(e.why))
			require.Equal(t, want, dump(t, db).samples)
		})
	}
}

// Of what we take in part a collector logs what we said of the rest.
func TestCollector_LogsWhatWeLeaveOut(t *testing.T) {
	for _, e := range exporters[:2] {
		t.Run(e.name, func(t *testing.T) {
			db := openDB(t)
			c := startCollector(t, e, db, 0)
			all := shop(0, 1)
			metrics := all.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics()
			for i := range metrics.Len() {
				if m := metrics.At(i); m.Name() == "http.requests" {
					m.Sum().SetAggregationTemporality(pmetric.AggregationTemporalityDelta)
				}
			}
			require.Equal(t, http.StatusOK, c.post(all))
			c.stop()
			require.Len(t, c.complaints(), 1)
			require.Len(t, c.lines(`"Partial success response".*delta temporality.*"dropped_data_points":1`), 1)
			want := without(without(e.stores(shopStored(t)).samples, " 15s "), "http_requests_total")
			require.Equal(t, want, dump(t, db).samples)
		})
	}
}
