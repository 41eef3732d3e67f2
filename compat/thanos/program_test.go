package thanos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	// buildTime is enough to build Thanos, and all that it needs, on two processors.
	buildTime = 20 * time.Minute
	// runTime is how long a program may take to get ready, to end, or to do what it is for.
	runTime = 3 * time.Minute
	// shownLines is how much of the output of a program is shown when a test fails.
	shownLines = 60
)

// asked skips a test if nobody has asked for Thanos.
func asked(t testing.TB) {
	t.Helper()
	if os.Getenv("TSDB_THANOS") != "1" {
		t.Skip("needs TSDB_THANOS=1, and minutes: make thanos")
	}
}

// programs is where programs are built, each once.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "tsdb-thanos-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(programs) // what is left there is of no harm
	os.Exit(code)
}

// build builds a program of a module, and returns its path.
func build(t testing.TB, module, pkg string, flags ...string) string {
	t.Helper()
	path := filepath.Join(programs, filepath.Base(pkg))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildTime)
	defer cancel()
	args := append([]string{"build", "-C", module, "-trimpath", "-o", path}, flags...)
	out, err := exec.CommandContext(ctx, "go", append(args, pkg)...).CombinedOutput()
	require.NoError(t, err, "build %s: %s", pkg, out)
	return path
}

func buildThanos(t testing.TB) string {
	t.Helper()
	// Without this tag it panics when it is first asked for its labels.
	return build(t, filepath.Join("testdata", "thanos"), "github.com/thanos-io/thanos/cmd/thanos", "-tags=slicelabels")
}

// output is what a program says.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	lines := strings.Split(o.text.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-shownLines):], "\n")
}

// program is a server that runs until the test ends.
type program struct {
	t     testing.TB
	name  string
	cmd   *exec.Cmd
	out   output
	ended chan error
	done  bool
}

func start(t testing.TB, name, path string, args ...string) *program {
	t.Helper()
	p := &program{t: t, name: name, cmd: exec.Command(path, args...), ended: make(chan error, 1)}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	require.NoError(t, p.cmd.Start())
	go func() { p.ended <- p.cmd.Wait() }()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("%s said:\n%s", p.name, &p.out)
		}
	})
	return p
}

// stop ends the program, by its own means if it knows any.
func (p *program) stop() {
	if p.done {
		return
	}
	p.done = true
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.ended:
	case <-time.After(runTime):
		p.t.Errorf("%s does not end", p.name)
		_ = p.cmd.Process.Kill() // as before
		<-p.ended
	}
}

// ready waits until a URL answers with 200.
func (p *program) ready(url string) {
	p.t.Helper()
	end := time.Now().Add(runTime)
	for time.Now().Before(end) {
		select {
		case err := <-p.ended:
			p.done = true
			require.FailNow(p.t, "it ended", "%s: %v", p.name, err)
		case <-time.After(100 * time.Millisecond):
		}
		if resp, err := http.Get(url); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body) // only its status counts
			_ = resp.Body.Close()                 // as above
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
	}
	require.FailNow(p.t, "it does not get ready", p.name)
}

// run runs a program that ends by itself, and returns what it said.
func run(t testing.TB, path string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), runTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
	require.NoError(t, err, "%s: %s", strings.Join(args, " "), out)
	return string(out)
}

// address is one of loopback that nobody listens at. Somebody else could take it before the program
// does that it is for, which then does not get ready.
func address(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

// thanos starts a server of Thanos, and returns where it speaks gRPC and HTTP.
func thanos(t testing.TB, path, command string, args ...string) (grpc, web string, p *program) {
	t.Helper()
	grpc, web = address(t), address(t)
	args = append([]string{command, "--grpc-address=" + grpc, "--http-address=" + web, "--grpc-grace-period=1s", "--http-grace-period=1s"}, args...)
	p = start(t, command, path, args...)
	p.ready(fmt.Sprintf("http://%s/-/ready", web))
	return grpc, "http://" + web, p
}

// fetch returns what a URL answers.
func fetch(t testing.TB, url string) string {
	t.Helper()
	client := http.Client{Timeout: runTime}
	resp, err := client.Get(url)
	require.NoError(t, err)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s: %s", url, text)
	return string(text)
}
