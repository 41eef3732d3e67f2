package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// served is a server that runs in this process.
type served struct {
	url   string
	stop  func() int // and returns its exit code
	log   *logBuffer
	lines *bufio.Scanner
}

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func start(t *testing.T, args ...string) *served {
	ctx, cancel := context.WithCancel(context.Background())
	pr, pw := io.Pipe()
	s := &served{log: &logBuffer{}, lines: bufio.NewScanner(pr)}
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"--web.listen-address=127.0.0.1:0"}, args...), pw, s.log)
		_ = pw.Close() // the error is of the other end
	}()
	s.stop = sync.OnceValue(func() int {
		cancel()
		go func() { _, _ = io.Copy(io.Discard, pr) }() // what it still has to say
		return <-code
	})
	t.Cleanup(func() { s.stop() })
	require.True(t, s.lines.Scan(), "it ended: %s", s.log)
	s.url = s.lines.Text()
	return s
}

// get asks for data of the API.
func (s *served) get(t *testing.T, path string, into any) {
	resp, err := http.Get(s.url + path)
	require.NoError(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", text)
	require.NoError(t, json.Unmarshal(text, into), "%s", text)
}

// metric returns the value of a metric without labels, as /metrics has it, or what is wrong.
func (s *served) metric(name string) string {
	resp, err := http.Get(s.url + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	found := regexp.MustCompile("(?m)^" + name + " (.*)$").FindSubmatch(page)
	if found == nil {
		return "no such metric"
	}
	return string(found[1])
}

func TestServe_TheDemoAnswersAtOnce(t *testing.T) {
	s := start(t, "--demo", "--demo.interval=20ms", "--storage.tsdb.path", filepath.Join(t.TempDir(), "data"))
	var answer struct {
		Data struct {
			Result []struct{ Value [2]any }
		}
	}
	require.Eventually(t, func() bool {
		s.get(t, "/api/v1/query?query=host_memory_bytes", &answer)
		return len(answer.Data.Result) > 0
	}, 2*time.Minute, 10*time.Millisecond)
	var about struct {
		Data map[string][]struct{ Type, Help string }
	}
	s.get(t, "/api/v1/metadata?metric=host_memory_bytes", &about)
	require.Len(t, about.Data["host_memory_bytes"], 1)
	require.Equal(t, "gauge", about.Data["host_memory_bytes"][0].Type)
	profiles := []string{"", "allocs", "block", "goroutine", "heap", "mutex", "threadcreate", "cmdline", "symbol", "trace?seconds=0.1", "profile?seconds=1"}
	for i := range profiles { // what promtool debug asks for
		profiles[i] = "/debug/pprof/" + profiles[i]
	}
	for _, path := range append(profiles, "/-/ready", "/-/healthy", "/metrics") {
		resp, err := http.Get(s.url + path)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusOK, resp.StatusCode, path)
	}
	require.Zero(t, s.stop(), "%s", s.log)
	require.Contains(t, s.log.String(), "database opened")
}

func TestServe_TakesRemoteWritesIfToldTo(t *testing.T) {
	for _, on := range []bool{false, true} {
		args := []string{"--storage.tsdb.path", filepath.Join(t.TempDir(), "data")}
		want := map[string]int{"write": http.StatusNotFound, "otlp/v1/metrics": http.StatusNotFound}
		if on {
			args = append(args, "--web.enable-remote-write-receiver", "--web.enable-otlp-receiver")
			want = map[string]int{"write": http.StatusNoContent, "otlp/v1/metrics": http.StatusOK}
		}
		s := start(t, args...)
		for path, status := range want {
			body := "\x00" // an empty block
			if path != "write" {
				body = ""
			}
			resp, err := http.Post(s.url+"/api/v1/"+path, "application/x-protobuf", strings.NewReader(body))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, status, resp.StatusCode, path)
		}
		resp, err := http.Get(s.url + "/metrics")
		require.NoError(t, err)
		page, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		for _, line := range []string{`{code="204",protocol="remote_write"} 1`, `{code="200",protocol="otlp"} 1`} {
			require.Equal(t, on, strings.Contains(string(page), "tsdb_receive_requests_total"+line), line)
		}
		require.Zero(t, s.stop(), "%s", s.log)
	}
}

func TestServe_ASecondServerOnTheDirectoryIsTold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, "--storage.tsdb.path", dir)
	var log logBuffer
	require.Equal(t, 1, run(context.Background(), []string{"--web.listen-address=127.0.0.1:0", "--storage.tsdb.path", dir}, io.Discard, &log))
	require.Contains(t, log.String(), "locked")
	require.Contains(t, log.String(), dir)
	require.Contains(t, log.String(), fmt.Sprintf("pid %d", os.Getpid()), "who has it")
	var answer struct{ Data []string }
	s.get(t, "/api/v1/labels", &answer) // the first one goes on
	require.Zero(t, s.stop())
}

// onceWritten is a writer that calls a function: of a server that is up, which it should not be.
type onceWritten func()

func (w onceWritten) Write(p []byte) (int, error) {
	w()
	return len(p), nil
}

// filesOf has all files below a directory.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		all[name] = string(text)
		return err
	}))
	return all
}

// openWithASample makes a database that has one.
func openWithASample(t *testing.T, dir string) *tsdb.DB {
	db, err := tsdb.Open(dir, nil)
	require.NoError(t, err)
	app := db.Appender()
	_, err = app.Append(0, labels.FromStrings("__name__", "m"), time.Now().UnixMilli(), 1)
	require.NoError(t, err)
	_, err = app.Commit(t.Context())
	require.NoError(t, err)
	return db
}

// A directory that has what this version does not understand is left as it is.
func TestServe_ADirectoryOfANewerVersionIsNotTouched(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	db := openWithASample(t, dir)
	require.NoError(t, db.Flush(t.Context()))
	block := db.Blocks()[0].ULID.String()
	require.NoError(t, db.Close())
	meta := filepath.Join(dir, block, "meta.json")
	text, err := os.ReadFile(meta)
	require.NoError(t, err)
	newer := regexp.MustCompile(`"version":\s*1`).ReplaceAll(text, []byte(`"version": 9`))
	require.NotEqual(t, text, newer)
	require.NoError(t, os.WriteFile(meta, newer, 0o666))
	require.NoError(t, os.Remove(meta+".crc")) // which says that this library wrote another version
	before := filesOf(t, dir)

	var log logBuffer
	ctx, cancel := context.WithCancel(t.Context())
	require.Equal(t, 1, run(ctx, []string{"--web.listen-address=127.0.0.1:0", "--storage.tsdb.path", dir}, onceWritten(cancel), &log), "%s", &log)
	cancel()
	for _, text := range []string{"version 9", "serve it with the version that wrote it", dir} {
		require.Contains(t, log.String(), text)
	}
	after := filesOf(t, dir)
	for name, text := range before {
		require.Equal(t, text, after[name], name)
	}
}

func TestServe_ShowsHelpAndVersion(t *testing.T) {
	for flag, want := range map[string]string{"--help": "--storage.tsdb.path", "--version": "tsdbserve"} {
		var shown, log logBuffer
		require.Zero(t, run(context.Background(), []string{flag}, &shown, &log), "%s", &log)
		require.Contains(t, shown.String()+log.String(), want)
		require.NotContains(t, log.String(), "--help lists the flags")
	}
}

func TestServe_RefusesWhatItCannotMean(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "web.yml")
	require.NoError(t, os.WriteFile(config, []byte("http_server_config:\n  http2: false\n"), 0o666))
	bucket, own, labelled := filepath.Join(dir, "bucket.yml"), filepath.Join(dir, "own.yml"), filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(own, fmt.Appendf(nil, "type: FILESYSTEM\nconfig: {directory: %q}\nprefix: data", dir), 0o600))
	require.NoError(t, os.WriteFile(bucket, []byte("type: GCS"), 0o600))
	require.NoError(t, os.WriteFile(labelled, []byte("global: {external_labels: {region: eu}}"), 0o600))
	local, data := "--web.listen-address=127.0.0.1:0", "--storage.tsdb.path="+filepath.Join(dir, "data")
	for _, c := range []struct {
		name string
		code int
		want string
		args []string
	}{
		{"an unknown flag", 2, "unknown long flag", []string{data, local, "--nothing"}},
		{"all addresses", 1, "others can reach", []string{data, "--web.listen-address=0.0.0.0:0"}},
		{"all addresses, with a file that has no users", 1, "others can reach", []string{data, "--web.listen-address=0.0.0.0:0", "--web.config.file", config}},
		{"no such file", 1, "--web.config.file", []string{data, local, "--web.config.file", filepath.Join(dir, "none.yml")}},
		{"an address that is none", 1, "--web.listen-address", []string{data, "--web.listen-address=here"}},
		{"a sync policy that is none", 2, "--storage.sync", []string{data, local, "--storage.sync=sometimes"}},
		{"no concurrency", 2, "--query.max-concurrency", []string{data, local, "--query.max-concurrency=0"}},
		{"a receiver without memory", 2, "--web.receive-memory 0B: want 16MB or more", []string{data, local, "--web.receive-memory=0B"}},
		{"a receiver with too little memory", 2, "--web.receive-memory 15MiB: want 16MB or more", []string{data, local, "--web.receive-memory=15MB"}},
		{"memory of a receiver that is no size", 2, "much", []string{data, local, "--web.receive-memory=much"}},
		{"a receiver that stores nothing", 2, "--web.receive-in-flight 0: want 1 or more", []string{data, local, "--web.receive-in-flight=0"}},
		{"a receiver that stores less than nothing", 2, "--web.receive-in-flight -1: want 1 or more", []string{data, local, "--web.receive-in-flight=-1"}},
		{"an origin that is no expression", 1, "--web.cors.origin", []string{data, local, "--web.cors.origin=("}},
		{"a bucket without external labels", 2, "want a --config.file with global.external_labels", []string{data, local, "--objstore.config-file", bucket}},
		{"a bucket of a store that it does not know", 2, "want S3 or FILESYSTEM", []string{data, local, "--objstore.config-file", bucket, "--config.file", labelled}},
		{"a bucket that is the data directory", 2, "is the data directory: name another one", []string{data, local, "--objstore.config-file", own, "--config.file", labelled}},
		{"merged blocks, and no bucket", 2, "want --objstore.config-file", []string{data, local, "--shipper.upload-compacted"}},
		{"a directory of something else", 1, "not a data directory", []string{"--storage.tsdb.path", dir, local}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log logBuffer
			require.Equal(t, c.code, run(context.Background(), c.args, io.Discard, &log), "%s", &log)
			require.Contains(t, log.String(), c.want)
		})
	}
}

// users are those of a web configuration file: "reader" has the password "secret".
const users = "basic_auth_users:\n  reader: $2a$04$6y7lP/eKYoBjzNA1mbY1leucYp5IiwYcH3CyIhOA./YdFC3ETosyu\n"

// statusFor asks as reader with a password; without one it asks as nobody.
func statusFor(t *testing.T, client *http.Client, url, password string) int {
	t.Helper()
	r, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(t, err)
	if password != "" {
		r.SetBasicAuth("reader", password)
	}
	resp, err := client.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}

// With users it may listen everywhere, and tells an address that can be opened.
func TestServe_UsersOfTheConfigurationFile(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "web.yml")
	require.NoError(t, os.WriteFile(config, []byte(users), 0o600))
	s := start(t, "--web.listen-address=0.0.0.0:0", "--web.config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"))
	require.Regexp(t, `^http://127\.0\.0\.1:\d+$`, s.url)
	require.True(t, s.lines.Scan())
	require.Regexp(t, `^http://localhost:\d+$`, s.lines.Text())
	for _, url := range []string{s.url, s.lines.Text()} {
		for password, want := range map[string]int{"": http.StatusUnauthorized, "other": http.StatusUnauthorized, "secret": http.StatusOK} {
			require.Equal(t, want, statusFor(t, http.DefaultClient, url+"/api/v1/labels", password), "%s as %q", url, password)
		}
	}
	require.Zero(t, s.stop(), "%s", s.log)
}

func TestServe_TLSOfTheConfigurationFile(t *testing.T) {
	known := httptest.NewTLSServer(nil) // has a certificate, and a client that trusts it
	defer known.Close()
	pair := known.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, "key.pem": {Type: "PRIVATE KEY", Bytes: key}} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	config := filepath.Join(dir, "web.yml")
	require.NoError(t, os.WriteFile(config, []byte("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n"+users), 0o600))
	s := start(t, "--web.config.file", config, "--storage.tsdb.path", filepath.Join(dir, "data"))
	require.Regexp(t, `^https://127\.0\.0\.1:\d+$`, s.url)
	for password, want := range map[string]int{"": http.StatusUnauthorized, "other": http.StatusUnauthorized, "secret": http.StatusOK} {
		require.Equal(t, want, statusFor(t, known.Client(), s.url+"/api/v1/labels", password), password)
	}
	_, err = http.Get(s.url + "/api/v1/labels")
	require.ErrorAs(t, err, new(x509.UnknownAuthorityError), "of somebody who does not know the certificate")
	plain := strings.Replace(s.url, "https", "http", 1)
	require.Equal(t, http.StatusBadRequest, statusFor(t, http.DefaultClient, plain+"/api/v1/labels", "secret"))
	require.Zero(t, s.stop(), "%s", s.log)
}

func TestServe_LogsInJSONIfToldTo(t *testing.T) {
	s := start(t, "--log.format=json", "--storage.tsdb.path", filepath.Join(t.TempDir(), "data"))
	require.Zero(t, s.stop(), "%s", s.log)
	messages := map[string]bool{}
	for line := range strings.Lines(s.log.String()) {
		var said struct {
			Time       time.Time
			Level, Msg string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &said), line)
		require.NotZero(t, said.Time, line)
		require.Equal(t, "INFO", said.Level, line)
		messages[said.Msg] = true
	}
	require.Contains(t, messages, "database opened")
}

// What clients look for in flags are those that can be given.
func TestServe_TellsTheFlagsThatCanBeGiven(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, "--storage.tsdb.path", dir, "--query.timeout=90s")
	var flags struct{ Data map[string]string }
	s.get(t, "/api/v1/status/flags", &flags)
	require.Equal(t, dir, flags.Data["storage.tsdb.path"])
	require.Equal(t, "1m30s", flags.Data["query.timeout"])
	for name := range flags.Data {
		require.NotRegexp(t, "help|version|completion", name)
	}
	var health struct {
		Data struct{ Options map[string]string }
	}
	s.get(t, "/api/v1/status/health", &health)
	require.Equal(t, flags.Data, health.Data.Options)
}

// held is a log that lets nobody go on who says that the database is open.
type held struct {
	slog.Handler
	address chan string // where the server listens
	opened  chan struct{}
	goOn    chan struct{}
}

func (h *held) Handle(_ context.Context, r slog.Record) error {
	switch r.Message {
	case "Listening on":
		r.Attrs(func(a slog.Attr) bool {
			h.address <- a.Value.String()
			return false
		})
	case "database opened":
		close(h.opened)
		<-h.goOn
	}
	return nil
}

// Who asks while the log is read again is told how far that is.
func TestServe_IsNotReadyWhileItRecovers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	db := openWithASample(t, dir)
	require.NoError(t, db.Close())

	c, err := parse([]string{"--web.listen-address=127.0.0.1:0", "--storage.tsdb.path", dir}, io.Discard, io.Discard)
	require.NoError(t, err)
	h := &held{slog.NewTextHandler(io.Discard, nil), make(chan string, 1), make(chan struct{}), make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	pr, pw := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- c.serve(ctx, slog.New(h), pw) }()
	url := "http://" + <-h.address
	<-h.opened
	for path, want := range map[string]int{"/-/ready": http.StatusServiceUnavailable, "/api/v1/labels": http.StatusServiceUnavailable, "/-/healthy": http.StatusOK} {
		require.Equal(t, want, statusFor(t, http.DefaultClient, url+path, ""), path)
	}
	resp, err := http.Get(url + "/-/ready")
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, string(text), "100% of the log is read")
	close(h.goOn)
	lines := bufio.NewScanner(pr)
	require.True(t, lines.Scan(), "it says its address when it is ready")
	require.Equal(t, url, lines.Text())
	require.Equal(t, http.StatusOK, statusFor(t, http.DefaultClient, url+"/-/ready", ""))
	cancel()
	require.NoError(t, <-ended)
}
