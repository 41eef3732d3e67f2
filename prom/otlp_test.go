package prom_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// What is sent by OTLP can be queried at once, and a clock that is given holds for it, too.
func TestOTLP_IsQueriedAtOnce(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	db, err := tsdb.Open("data", &tsdb.Options{FS: tsdbtest.NewMemFS(), Clock: tsdbtest.NewClock(now)})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	for _, on := range []bool{false, true} {
		h := prom.NewHandler(db, &prom.HandlerOptions{ReceiveOTLP: on, Clock: tsdbtest.NewClock(now)})
		send := func(at time.Time) *httptest.ResponseRecorder {
			body := fmt.Sprintf(`{"resourceMetrics":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"shop"}}]},"scopeMetrics":[{"metrics":[
				{"name":"sold","sum":{"aggregationTemporality":2,"isMonotonic":true,"dataPoints":[{"timeUnixNano":"%d","asInt":"7"}]}}]}]}]}`, at.UnixNano())
			r := httptest.NewRequest(http.MethodPost, "/api/v1/otlp/v1/metrics", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			return w
		}
		if !on {
			require.Equal(t, http.StatusNotFound, send(now).Code)
			continue
		}
		require.Equal(t, http.StatusOK, send(now).Code)
		require.Equal(t, "7", instant(t, h, `sold_total{job="shop"}`, now))
		w := send(now.Add(11 * time.Minute))
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Contains(t, w.Body.String(), "too far in the future")
	}
}
