package main

import (
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/remote"
)

// openServed opens a directory as serve does.
func openServed(t *testing.T, dir string) *servedDatabase {
	t.Helper()
	db := &servedDatabase{dir: dir}
	require.NoError(t, db.open(&newTestConsole().console))
	t.Cleanup(func() { require.NoError(t, db.close()) })
	return db
}

func (d *servedDatabase) count(t *testing.T) (n int) {
	t.Helper()
	q, err := d.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	for _, err := range q.Select(context.Background(), nil).All() {
		require.NoError(t, err)
		n++
	}
	return n
}

func TestServedDatabase_SeesWhatWasWrittenMeanwhile(t *testing.T) {
	dir := database(t, `{__name__="up"} 1 1000`)
	db := openServed(t, dir)
	require.Equal(t, 1, db.count(t))
	before := db.reader().OpenReport()
	require.NoError(t, db.refresh(context.Background()))
	require.Equal(t, before, db.reader().OpenReport(), "nothing changed, nothing was read")

	require.NoError(t, makeDatabase(dir, `{__name__="down"} 1 1000`))
	require.Equal(t, 1, db.count(t))
	require.NoError(t, db.refresh(context.Background()))
	require.Equal(t, 2, db.count(t))

	require.NoError(t, os.RemoveAll(dir))
	require.Error(t, db.refresh(context.Background()))
	require.NoError(t, db.close())
	_, err := db.Querier(0, 1)
	require.ErrorIs(t, err, tsdb.ErrClosed)
}

func TestServe_IsReadyWhenTheDatabaseIsOpen(t *testing.T) {
	db := &servedDatabase{dir: database(t, `{__name__="up"} 1 1000`)}
	server := httptest.NewServer(handler(db, remote.ReadHandler(db, nil)))
	defer server.Close()
	status := func(path string) int {
		res, err := http.Get(server.URL + path)
		require.NoError(t, err)
		defer func() { _ = res.Body.Close() }()
		_, err = io.Copy(io.Discard, res.Body)
		require.NoError(t, err)
		return res.StatusCode
	}
	client, err := remote.NewReadClient(server.URL+readPath, nil)
	require.NoError(t, err)
	ask := func() (n int, err error) {
		for _, err := range client.Select(context.Background(), 0, math.MaxInt64, nil, labels.Equal("__name__", "up")).All() {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}

	require.Equal(t, http.StatusOK, status("/-/healthy"))
	require.Equal(t, http.StatusServiceUnavailable, status("/-/ready"))
	_, err = ask()
	var answer *remote.StatusError
	require.ErrorAs(t, err, &answer)
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
	require.Positive(t, answer.RetryAfter)

	require.NoError(t, db.open(&newTestConsole().console))
	require.Equal(t, http.StatusOK, status("/-/ready"))
	require.Equal(t, http.StatusMethodNotAllowed, status(readPath))
	require.Equal(t, http.StatusNotFound, status("/"))
	n, err := ask()
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, db.close())
	require.Equal(t, http.StatusServiceUnavailable, status("/-/ready"))
	require.Equal(t, http.StatusServiceUnavailable, status(readPath))
}

func TestServe_EndsAlsoWhileTheDatabaseIsBeingOpened(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	long := func() error { <-hold; return nil }
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	ready, err := opening(ctx, nil, long)
	require.False(t, ready)
	require.NoError(t, err)

	ended := make(chan error, 1)
	ended <- net.ErrClosed
	ready, err = opening(context.Background(), ended, long)
	require.False(t, ready)
	require.ErrorIs(t, err, net.ErrClosed)

	ready, err = opening(context.Background(), nil, func() error { return tsdb.ErrCorrupt })
	require.False(t, ready)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	ready, err = opening(context.Background(), nil, func() error { return nil })
	require.True(t, ready)
	require.NoError(t, err)
}

// The block of remote/testdata/xor2-block has chunks of the second encoding with start
// timestamps, which XOR has no place for.
func TestServe_NoStartTimestamps_TranscodesChunks(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.FromSlash("../../remote/testdata/xor2-block"))))
	db := openServed(t, dir)
	for _, args := range [][]string{{"serve"}, {"serve", "--no-start-timestamps"}} {
		s, app := &serveCommand{external: map[string]string{}}, kingpin.New("", "")
		s.flags(app.Command("serve", ""))
		_, err := app.Parse(args)
		require.NoError(t, err)
		server := httptest.NewServer(handler(db, remote.ReadHandler(db, s.options(labels.Labels{}, &newTestConsole().console))))
		client, err := remote.NewReadClient(server.URL+readPath, nil)
		require.NoError(t, err)
		samples, started := 0, 0
		for series, err := range client.Select(t.Context(), 0, math.MaxInt64, nil, labels.Equal("job", "api")).All() {
			require.NoError(t, err)
			it := series.Iterator(nil)
			for it.Next() != chunkenc.ValNone {
				samples++
				if it.AtST() != 0 {
					started++
				}
			}
			require.NoError(t, it.Err())
		}
		server.Close()
		require.Equal(t, 600, samples)
		require.Equal(t, len(args) > 1, started == 0, args)
	}
}

// A client may send requests and read none of the answers.
func TestServe_WaitsForNoClientForEver(t *testing.T) {
	server := newServer(&newTestConsole().console, http.NotFoundHandler())
	for _, timeout := range []time.Duration{server.ReadHeaderTimeout, server.ReadTimeout, server.WriteTimeout, server.IdleTimeout} {
		require.Positive(t, timeout)
		require.LessOrEqual(t, timeout, time.Minute)
	}
}

// The same timeouts, a hundred times as short: who sends half a header, and who keeps a connection
// and sends nothing, is let go.
func TestServe_LetsGoOfClientsThatSendNothing(t *testing.T) {
	db := openServed(t, database(t, `{__name__="up"} 1 1000`))
	server := newServer(&newTestConsole().console, handler(db, remote.ReadHandler(db, nil)))
	server.ReadHeaderTimeout /= 100
	server.IdleTimeout /= 600
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer func() {
		require.NoError(t, stop(server))
		require.ErrorIs(t, <-ended, http.ErrServerClosed)
	}()
	for name, c := range map[string]struct{ sent, got string }{
		"half a header": {"POST /api/v1/read HTTP/1.1\r\nHost: x\r\nX-A: ", ""},
		"nothing":       {"", ""},
		"nothing more":  {"GET /-/ready HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK"},
	} {
		var got string
		for range 100 { // on a machine that stands still a whole request may come too late
			if got, err = untilLetGo(t, listener.Addr().String(), c.sent); err == nil && strings.HasPrefix(got, c.got) {
				break
			}
		}
		require.NoError(t, err, name)
		require.True(t, strings.HasPrefix(got, c.got), "%s: %s", name, got)
	}
}

// untilLetGo sends something and returns what the server answers until it closes the connection.
func untilLetGo(t *testing.T, address, send string) (answer string, err error) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(2*time.Minute)))
	if _, err := io.WriteString(conn, send); err != nil {
		return "", err
	}
	got, err := io.ReadAll(conn)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	return string(got), err
}

// Only this machine can connect, unless somebody says otherwise.
func TestServe_ListensOnTheLoopbackByDefault(t *testing.T) {
	var f listenFlags
	app := kingpin.New("", "")
	f.flags(app.Command("serve", ""))
	_, err := app.Parse([]string{"serve"})
	require.NoError(t, err)
	addr, err := net.ResolveTCPAddr("tcp", f.address)
	require.NoError(t, err)
	require.True(t, addr.IP.IsLoopback(), f.address)
}

// htpasswdFile writes lines and returns the name of the file.
func htpasswdFile(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "htpasswd")
	require.NoError(t, os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600))
	return name
}

func hashOf(t *testing.T, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	return string(hash)
}

func TestGuard_AdmitsOnlyWhoItKnows(t *testing.T) {
	g, err := readHtpasswd(htpasswdFile(t, "# people", "", "ann:"+hashOf(t, "a:b"), "  bob:"+hashOf(t, "")+"  \r"))
	require.NoError(t, err)
	h := g.wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, "in") }))
	ask := func(set func(*http.Request)) int {
		r := httptest.NewRequest(http.MethodPost, readPath, nil)
		set(r)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			require.Contains(t, w.Header().Get("WWW-Authenticate"), "Basic")
			require.NotContains(t, w.Body.String(), "in\n")
		}
		return w.Code
	}
	basic := func(user, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, password) }
	}
	require.Equal(t, http.StatusOK, ask(basic("ann", "a:b")))
	require.Equal(t, http.StatusOK, ask(basic("bob", "")))
	for _, c := range [][2]string{{"ann", ""}, {"ann", "a"}, {"", ""}, {"bob", "a:b"}, {"eve", "nobody"}, {"eve", ""}, {"# people", ""}} {
		require.Equal(t, http.StatusUnauthorized, ask(basic(c[0], c[1])), c)
	}
	require.Equal(t, http.StatusUnauthorized, ask(func(*http.Request) {}))
	require.Equal(t, http.StatusUnauthorized, ask(func(r *http.Request) { r.Header.Set("Authorization", "Bearer ann") }))
}

func TestGuard_WhoWasAdmittedDoesNotWaitForThoseWhoTry(t *testing.T) {
	g, err := readHtpasswd(htpasswdFile(t, "ann:"+hashOf(t, "a"), "bob:"+hashOf(t, "b")))
	require.NoError(t, err)
	admits := func(user, password string) bool {
		ctx, cancel := context.WithCancel(context.Background())
		r := httptest.NewRequest(http.MethodPost, readPath, nil).WithContext(ctx)
		r.SetBasicAuth(user, password)
		if len(g.slots) == cap(g.slots) {
			cancel() // it would wait for ever
		}
		defer cancel()
		return g.admits(r)
	}
	require.True(t, admits("ann", "a"))
	for range cap(g.slots) {
		g.slots <- struct{}{}
	}
	require.True(t, admits("ann", "a"))
	for _, c := range [][2]string{{"ann", "b"}, {"ann", ""}, {"bob", "a"}, {"bob", "b"}, {"eve", "a"}, {"eve", ""}} {
		require.False(t, admits(c[0], c[1]), c)
	}
	for range cap(g.slots) {
		<-g.slots
	}
	require.True(t, admits("bob", "b"))
	require.False(t, admits("ann", "b"))
	require.True(t, admits("ann", "a"), "a wrong password is not remembered")
}

func TestReadHtpasswd_RefusesWhatIsNoBcrypt(t *testing.T) {
	ann := "ann:" + hashOf(t, "a")
	for text, want := range map[string]string{
		"":                                      "no passwords",
		"# nobody":                              "no passwords",
		"ann":                                   "line 1",
		ann + "\n:" + hashOf(t, "a"):            "line 2",
		ann + "\n\nbob:secret":                  "line 3",
		ann + "\nbob:{SHA}qUqP5cyxm6YcTAh":      "line 2",
		ann + "\n" + ann:                        "a second password for ann",
		"ann:$2y$17$" + strings.Repeat("a", 53): "a bcrypt cost of 17",
		ann[:len(ann)-1]:                        "line 1",
		ann + "a":                               "line 1",
		ann[:40] + "*" + ann[41:]:               "line 1",
		ann + ":2000:ann":                       "line 1",
	} {
		_, err := readHtpasswd(htpasswdFile(t, text))
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, err.Error(), "$2")
	}
	_, err := readHtpasswd(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestLimitListener_TakesOneMoreWhenOneIsClosed(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := newLimitListener(inner, 2)
	accepted := make(chan net.Conn)
	ended := make(chan error, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			accepted <- conn
		}
	}()
	var clients, conns []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		require.NoError(t, err)
		clients = append(clients, c)
	}
	conns = append(conns, <-accepted, <-accepted)
	require.Len(t, l.slots, 2)
	select {
	case <-accepted:
		t.Fatal("a third one was accepted")
	default:
	}
	require.NoError(t, conns[0].Close())
	_ = conns[0].Close() // gives back its place once
	conns = append(conns, <-accepted)
	require.NoError(t, l.Close())
	require.ErrorIs(t, <-ended, net.ErrClosed)
	for _, c := range append(clients, conns[1:]...) {
		require.NoError(t, c.Close())
	}
	require.Empty(t, l.slots)
}

func TestEndpoint_AddsTheUsualPath(t *testing.T) {
	for in, want := range map[string]string{
		"http://h:1":             "http://h:1/api/v1/read",
		"http://h:1/":            "http://h:1/api/v1/read",
		"https://u:p@h/?x=y":     "https://u:p@h/api/v1/read?x=y",
		"http://h/api/v1/read":   "http://h/api/v1/read",
		"http://h/prom/api/read": "http://h/prom/api/read",
		"http://h:port":          "http://h:port",
	} {
		require.Equal(t, want, endpoint(in))
	}
}

func TestCSV_ALabelWithoutAColumnIsAnError(t *testing.T) {
	c := newTestConsole()
	w := newResultWriter(&c.console, &selection{selectFlags: &selectFlags{output: "csv"}}, []string{"__name__", "job"})
	require.NoError(t, w.begin(labels.FromStrings("__name__", "up")))
	require.NoError(t, w.begin(labels.FromStrings("__name__", "up", "job", "x")))
	require.ErrorContains(t, w.begin(labels.FromStrings("__name__", "up", "zone", "a")), `up{zone="a"}`)
}
