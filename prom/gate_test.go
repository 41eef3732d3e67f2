package prom_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom"
)

// request asks a handler for a path.
func request(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func TestGate_SaysHowFarRecoveryIs(t *testing.T) {
	var gate prom.Gate
	for _, c := range []struct {
		progress *tsdb.RecoveryProgress
		says     string
		current  int64
		total    int64
	}{
		{nil, "the database is being opened", 0, 0},
		{&tsdb.RecoveryProgress{}, "the database is being opened", 0, 0},
		{&tsdb.RecoveryProgress{Done: 250, Total: 1000}, "25% of the log is read, 250 of 1000 bytes", 250, 1000},
		{&tsdb.RecoveryProgress{Done: 1000, Total: 1000}, "100% of the log is read", 1000, 1000},
	} {
		if c.progress != nil {
			gate.Progress(*c.progress)
		}
		for _, path := range []string{"/-/ready", "/", "/metrics"} {
			w := request(&gate, path)
			require.Equal(t, http.StatusServiceUnavailable, w.Code, path)
			require.Contains(t, w.Body.String(), c.says, path)
			require.Equal(t, "1", w.Header().Get("Retry-After"), path)
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"), path)
		}
		w := request(&gate, "/api/v1/query?query=up")
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.Equal(t, "application/json", w.Header().Get("Content-Type"))
		var refused struct{ Status, ErrorType, Error string }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &refused))
		require.Equal(t, []string{"error", "unavailable"}, []string{refused.Status, refused.ErrorType})
		require.Contains(t, refused.Error, c.says)

		require.Equal(t, http.StatusOK, request(&gate, "/-/healthy").Code)
		var replay struct {
			Data struct{ Min, Max, Current int64 }
		}
		w = request(&gate, "/api/v1/status/walreplay")
		require.Equal(t, http.StatusOK, w.Code)
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &replay))
		require.Equal(t, []int64{0, c.total, c.current}, []int64{replay.Data.Min, replay.Data.Max, replay.Data.Current})
	}
}

// The log of a database is read while clients ask, and then they are answered by it.
func TestGate_IsClosedWhileTheLogIsRead(t *testing.T) {
	dir := t.TempDir()
	db, err := tsdb.Open(dir, nil)
	require.NoError(t, err)
	fill(t, prom.NewStorage(db))
	require.NoError(t, db.Close())

	var gate prom.Gate
	var during []*httptest.ResponseRecorder
	db, err = tsdb.Open(dir, &tsdb.Options{Progress: func(p tsdb.RecoveryProgress) {
		gate.Progress(p)
		during = append(during, request(&gate, "/-/ready"))
	}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.NotEmpty(t, during)
	for _, w := range during {
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
	}
	require.Contains(t, during[len(during)-1].Body.String(), "100% of the log is read")
	require.Equal(t, http.StatusServiceUnavailable, request(&gate, "/-/ready").Code, "nobody has opened it")

	gate.Open(prom.NewHandler(db, nil))
	for _, path := range []string{"/-/ready", "/-/healthy", "/metrics", "/", "/api/v1/labels", "/api/v1/status/walreplay"} {
		require.Equal(t, http.StatusOK, request(&gate, path).Code, path)
	}
	gate.Progress(tsdb.RecoveryProgress{Done: 1, Total: 2})
	require.Equal(t, http.StatusOK, request(&gate, "/-/ready").Code)
}

// However requests and Open meet, each request is refused or reaches the handler, and none is
// refused behind one that was let through.
func TestGate_OpensForAllAtOnce(t *testing.T) {
	var gate prom.Gate
	var handled atomic.Int64
	begun, served := make(chan struct{}, 8), make([]int, 8)
	var clients sync.WaitGroup
	for i := range served {
		clients.Go(func() {
			refused := 0
			for request(&gate, "/-/ready").Code != http.StatusOK {
				if refused++; refused == 1 {
					begun <- struct{}{}
				}
			}
			served[i] = 1
			for range 100 {
				if request(&gate, "/-/ready").Code == http.StatusOK {
					served[i]++
				}
			}
		})
	}
	for range served {
		<-begun // each was refused once
	}
	gate.Open(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled.Add(1) }))
	require.Equal(t, http.StatusOK, request(&gate, "/-/ready").Code, "Open has returned")
	clients.Wait()
	total := 1
	for i, n := range served {
		require.Equal(t, 101, n, "client %d", i)
		total += n
	}
	require.EqualValues(t, total, handled.Load())
}

func TestGate_OpenedAgainLeadsToTheOther(t *testing.T) {
	var gate prom.Gate
	for _, code := range []int{http.StatusTeapot, http.StatusAccepted} {
		gate.Open(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
		require.Equal(t, code, request(&gate, "/").Code)
	}
}

// A server whose database is closed is alive and not ready, and says so in the form of the API.
func TestHandler_OfAClosedDatabaseIsNotReady(t *testing.T) {
	db, err := tsdb.Open(t.TempDir(), nil)
	require.NoError(t, err)
	h := prom.NewHandler(db, nil)
	require.Equal(t, http.StatusOK, request(h, "/-/ready").Code)
	require.NoError(t, db.Close())
	w := request(h, "/-/ready")
	require.Equal(t, http.StatusServiceUnavailable, w.Code)
	require.Contains(t, w.Body.String(), "the database is closed")
	require.Equal(t, http.StatusOK, request(h, "/-/healthy").Code)
	for _, path := range []string{"query?query=m", "query_range?query=m&start=0&end=1&step=1", "series?match[]=m", "labels", "label/i/values", "status/tsdb/churn"} {
		w := request(h, "/api/v1/"+path)
		require.Equal(t, http.StatusServiceUnavailable, w.Code, "%s: %s", path, w.Body)
		var refused struct{ ErrorType string }
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &refused), path)
		require.Equal(t, "unavailable", refused.ErrorType, path)
	}
	for _, path := range []string{"metrics", "api/v1/status/health", "api/v1/status/tsdb/blocks", "api/v1/status/runtimeinfo"} {
		require.Equal(t, http.StatusOK, request(h, "/"+path).Code, path)
	}
}
