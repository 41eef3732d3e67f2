package vmctl

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/compat/internal/peer"
	"github.com/seed347100a3/tsdb/labels"
)

// patience is how long the program may take.
const patience = 2 * time.Minute

// The program reads the blocks of a snapshot, not its log, so what was in no block is flushed
// before.
func TestVmctl_ReadsASnapshot(t *testing.T) {
	program := peer.Path(t, "vmctl", "victoria-metrics")
	db, want := newWorld(t)
	appendLast(t, db)
	require.NoError(t, db.Flush(t.Context()))
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	require.NoError(t, db.Snapshot(t.Context(), snapshot))
	into := &imports{got: data{}}
	server := httptest.NewServer(into)
	defer server.Close()
	out := onTerminal(t, program, "prometheus", "-s", "--prom-snapshot="+snapshot, "--vm-addr="+server.URL, "--vm-concurrency=1")
	require.Contains(t, out, "Import finished!")
	requireEqual(t, want, into.taken(t))
}

// appendLast appends series that come last in the last block. When all is read, version 1.79 drops
// what waits to be sent by one worker, up to four series.
func appendLast(t *testing.T, db *tsdb.DB) {
	t.Helper()
	app := db.Appender()
	for i := range 10 {
		_, err := app.Append(0, labels.FromStrings("__name__", lastMetric, "i", fmt.Sprint(i)), start+steps*step, 1)
		require.NoError(t, err)
	}
	_, err := app.Commit(t.Context())
	require.NoError(t, err)
}

const lastMetric = "zz_last"

// onTerminal runs a program on a terminal, without which its bar of progress fails, and returns
// what it shows.
func onTerminal(t *testing.T, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i, s := range command {
		command[i] = "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	out, err := exec.CommandContext(ctx, "script", "--quiet", "--return", "--command", strings.Join(command, " "), "/dev/null").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// imports is a server that takes what VictoriaMetrics takes, and keeps it.
type imports struct {
	mu      sync.Mutex
	got     data
	refused []string // requests that were not understood
}

func (im *imports) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	im.mu.Lock()
	defer im.mu.Unlock()
	switch call := r.Method + " " + r.URL.Path; call {
	case "GET /health":
		_, _ = io.WriteString(w, "OK")
	case "POST /api/v1/import":
		if err := im.takeLocked(r); err != nil {
			im.refused = append(im.refused, err.Error())
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	default:
		im.refused = append(im.refused, call)
		http.NotFound(w, r)
	}
}

// takeLocked reads a series a line.
func (im *imports) takeLocked(r *http.Request) error {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		zr, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = zr
	}
	for d := json.NewDecoder(body); ; {
		var s struct {
			Metric     map[string]string
			Timestamps []int64
			Values     []float64
		}
		if err := d.Decode(&s); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if len(s.Timestamps) != len(s.Values) {
			return fmt.Errorf("%d times and %d values", len(s.Timestamps), len(s.Values))
		}
		key := keyOf(s.Metric)
		for i, at := range s.Timestamps {
			im.got[key] = append(im.got[key], sample{at, s.Values[i]})
		}
	}
}

// taken is what came, without the last series.
func (im *imports) taken(t *testing.T) data {
	t.Helper()
	im.mu.Lock()
	defer im.mu.Unlock()
	require.Empty(t, im.refused)
	maps.DeleteFunc(im.got, func(key string, _ []sample) bool { return strings.Contains(key, lastMetric) })
	return im.got
}
