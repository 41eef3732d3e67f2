package collector

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// patience is how long a program may take to start, to end, and to do what is waited for.
const patience = 2 * time.Minute

// program is a collector or an agent that runs.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	url   string        // where it listens
	ended chan struct{} // closed when it closed its output

	requests atomic.Int64 // that came to serve

	mu struct {
		sync.Mutex
		log []string // lines of its output
	}
}

// start runs a tool of this module until the test ends, and returns when it listens. Its last
// argument is the file with its configuration.
func (p *program) start(tool, config string, args ...string) {
	t := p.t
	t.Helper()
	built := exec.Command("go", "tool", "-n", tool) // builds it, if need be, and says where it is
	built.Stderr = os.Stderr
	path, err := built.Output()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), tool+".conf")
	require.NoError(t, os.WriteFile(file, []byte(config), 0o600))
	p.cmd = exec.Command(strings.TrimSpace(string(path)), append(args, file)...)
	out, err := p.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.stop)
	listens := make(chan string, 1)
	p.ended = make(chan struct{})
	go p.read(out, listens)
	select {
	case p.url = <-listens:
		require.NotEmpty(t, p.url, "%s ended: %q", tool, p.lines(""))
	case <-time.After(patience):
		require.FailNow(t, "does not listen", "%s: %q", tool, p.lines(""))
	}
}

// serve has a database take what the program sends, until the test ends, and returns where. The
// first requests, as many as are busy, are answered as those of a database that is closed.
func (p *program) serve(handler func(*tsdb.DB) http.Handler, db *tsdb.DB, busy int64) (url string) {
	p.t.Helper()
	closed, err := tsdb.Open(p.t.TempDir(), nil)
	require.NoError(p.t, err)
	require.NoError(p.t, closed.Close())
	open, shut := handler(db), handler(closed)
	ours := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.requests.Add(1) <= busy {
			shut.ServeHTTP(w, r)
		} else {
			open.ServeHTTP(w, r)
		}
	}))
	p.t.Cleanup(ours.Close)
	return ours.URL
}

// listening is what both say of the one address that they have.
var listening = regexp.MustCompile(`Starting HTTP server.*"endpoint":"([^"]+)"|Listening on (\S+)`)

// read follows the output until its end.
func (p *program) read(out io.Reader, listens chan<- string) {
	defer close(p.ended)
	defer close(listens)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for told := false; lines.Scan(); {
		p.mu.Lock()
		p.mu.log = append(p.mu.log, lines.Text())
		p.mu.Unlock()
		if m := listening.FindStringSubmatch(lines.Text()); m != nil && !told {
			told = true
			listens <- "http://" + m[1] + m[2]
		}
	}
}

// lines are those of the output that match.
func (p *program) lines(pattern string) []string {
	match := regexp.MustCompile(pattern)
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(p.mu.log), func(line string) bool { return !match.MatchString(line) })
}

// complaints are the warnings and errors in the output of either program.
func (p *program) complaints() []string { return p.lines(`"level":"(warn|error)"|^\S+ [WE]! `) }

// stop has it send what it holds, and end.
func (p *program) stop() {
	if p.cmd == nil {
		return
	}
	cmd := p.cmd
	p.cmd = nil
	late := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	require.NoError(p.t, cmd.Process.Signal(syscall.SIGINT))
	<-p.ended
	require.NoError(p.t, cmd.Wait(), "%q", p.lines(""))
}
