package remote

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// countedServer counts requests, and the connections that they come by.
type countedServer struct {
	*httptest.Server
	requests, opened, closed atomic.Int64
}

// answerPause is how long an answer takes, so that shards send at once.
const answerPause = time.Millisecond

func newCountedServer(t *testing.T) *countedServer {
	t.Helper()
	s := &countedServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		contentOf(r)
		s.requests.Add(1)
		<-time.After(answerPause)
		w.WriteHeader(http.StatusNoContent)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			s.opened.Add(1)
		case http.StateClosed:
			s.closed.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// sendMuch has a Writer of many shards send many requests, and closes it.
func (s *countedServer) sendMuch(t *testing.T, client *http.Client) {
	t.Helper()
	db := openDB(t, t.TempDir())
	w, err := NewWriter(db, &WriterOptions{URL: s.URL, HTTP: client, Protocol: ProtocolV1, MaxSamples: 50, Deadline: 10 * time.Millisecond, shards: defaultMaxShards})
	require.NoError(t, err)
	now := time.Now().UnixMilli()
	for i := range int64(100) {
		put(t, db, now+i, make([]float64, 400)...)
	}
	flush(t, w)
	require.NoError(t, w.Close())
	t.Logf("%d requests by %d connections", s.requests.Load(), s.opened.Load())
	require.Greater(t, s.requests.Load(), int64(20*defaultMaxShards))
}

// A connection serves the requests of a shard one after the other, and ends with the Writer.
func TestWriter_KeepsItsConnections(t *testing.T) {
	s := newCountedServer(t)
	s.sendMuch(t, nil)
	require.Less(t, s.opened.Load(), int64(2*defaultMaxShards)) // one is dialed too many now and then
	require.Eventually(t, func() bool { return s.closed.Load() == s.opened.Load() }, 10*time.Second, time.Millisecond)
}

// sharedTransport tells whether somebody closes the connections of all.
type sharedTransport struct {
	http.RoundTripper
	closed atomic.Bool
}

func (s *sharedTransport) CloseIdleConnections() { s.closed.Store(true) }

// The connections of a program stay, whether it gave them to the Writer or to all.
func TestWriter_LeavesSharedConnections(t *testing.T) {
	shared := http.DefaultTransport
	given := &sharedTransport{RoundTripper: shared}
	newCountedServer(t).sendMuch(t, &http.Client{Transport: given})
	require.False(t, given.closed.Load())

	defer func() { http.DefaultTransport = shared }()
	http.DefaultTransport = given
	newCountedServer(t).sendMuch(t, nil)
	require.False(t, given.closed.Load())
}

// A receiver that takes a request and says nothing is left after a while, and asked again.
func TestWriter_AReceiverThatHangs(t *testing.T) {
	const hangs = 3
	rc := newReceiver(t, nil)
	rc.fail = func(n int, r *http.Request, _ http.ResponseWriter) bool {
		if n > hangs {
			return false
		}
		<-r.Context().Done() // the client has gone
		return true
	}
	db := openDB(t, t.TempDir())
	w := startWriter(t, db, rc, func(o *WriterOptions) { o.Timeout = 100 * time.Millisecond })
	put(t, db, time.Now().UnixMilli(), 1, 2, 3)
	require.Eventually(t, func() bool { return strings.Contains(w.Stats().Failing, context.DeadlineExceeded.Error()) }, 10*time.Second, time.Millisecond)
	flush(t, w)
	requireSent(t, db, rc.db)
	require.GreaterOrEqual(t, w.Stats().Retries, uint64(hangs))
	require.Empty(t, w.Stats().Failing)
	require.Zero(t, w.Stats().DroppedRefused)
	rc.mu.Lock()
	defer rc.mu.Unlock()
	for _, body := range rc.bodies[:hangs+1] {
		require.Equal(t, rc.bodies[0], body)
	}
}

// A redirect that keeps the method is followed, with the body and all that the request says.
func TestWriter_FollowsRedirects(t *testing.T) {
	for _, status := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		for _, protocol := range []WriterProtocol{ProtocolV1, ProtocolV2} {
			rc := newReceiver(t, nil)
			rc.fail = func(_ int, r *http.Request, w http.ResponseWriter) bool {
				if r.URL.Path == "/there" {
					return false
				}
				http.Redirect(w, r, "/there", status)
				return true
			}
			db := openDB(t, t.TempDir())
			w := startWriter(t, db, rc, func(o *WriterOptions) {
				o.Protocol, o.NoMetadata = protocol, true
				o.Header = http.Header{"X-Scope-Orgid": {"tenant"}}
			})
			put(t, db, time.Now().UnixMilli(), 1, 2, 3)
			flush(t, w)
			requireSent(t, db, rc.db)
			require.Zero(t, w.Stats().Retries)
			require.NoError(t, w.Close())
			require.Len(t, rc.requests, 2)
			require.Equal(t, rc.bodies[0], rc.bodies[1])
			require.NotEmpty(t, rc.bodies[0])
			for _, name := range []string{"Content-Type", "Content-Encoding", versionHeader, "X-Scope-Orgid"} {
				require.NotEmpty(t, rc.requests[0].Header.Get(name), name)
				require.Equal(t, rc.requests[0].Header.Get(name), rc.requests[1].Header.Get(name), name)
			}
		}
	}
}
