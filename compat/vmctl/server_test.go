package vmctl

import (
	"encoding/json"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/compat/internal/peer"
)

// A server of VictoriaMetrics has what the program brought it: each sample, with a value that
// differs by less than its rounding, as it keeps decimal numbers.
func TestVmctl_FillsAServer(t *testing.T) {
	program := peer.Path(t, "vmctl", "victoria-metrics")
	db, want := newWorld(t)
	appendLast(t, db)
	require.NoError(t, db.Flush(t.Context()))
	snapshot := filepath.Join(t.TempDir(), "snapshot")
	require.NoError(t, db.Snapshot(t.Context(), snapshot))
	server := startServer(t, peer.Path(t, "victoria-metrics", "victoria-metrics"))
	out := onTerminal(t, program, "prometheus", "-s", "--prom-snapshot="+snapshot, "--vm-addr="+server, "--vm-concurrency=1")
	require.Contains(t, out, "Import finished!")

	fetch(t, server+"/internal/force_flush")
	got := exported(t, fetch(t, server+"/api/v1/export?"+url.Values{"match[]": {`{__name__!=""}`}}.Encode()))
	maps.DeleteFunc(got, func(key string, _ []sample) bool { return strings.Contains(key, lastMetric) })
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	for key, list := range want {
		require.Len(t, got[key], len(list), "samples of %s", key)
		for i, p := range list {
			require.Equal(t, p.t, got[key][i].t, "%s, sample %d", key, i)
			require.LessOrEqual(t, math.Abs(p.v-got[key][i].v), 1e-12*max(1, math.Abs(p.v)), "%s at %d", key, p.t)
		}
	}
}

// startServer runs a server on an empty directory, until the test ends, and returns its address.
func startServer(t *testing.T, program string) string {
	t.Helper()
	return startProgram(t, program, "-storageDataPath="+t.TempDir(), "-retentionPeriod=100y")
}

// startProgram runs a program of VictoriaMetrics until the test ends, and returns its address.
func startProgram(t *testing.T, program string, flags ...string) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0") // it takes no port 0 itself
	require.NoError(t, err)
	addr := free.Addr().String()
	require.NoError(t, free.Close())
	cmd := exec.Command(program, append(flags, "-httpListenAddr="+addr)...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
		require.NoError(t, cmd.Wait())
	})
	require.Eventually(t, func() bool {
		resp, err := http.Get("http://" + addr + "/health")
		if err != nil {
			return false
		}
		return resp.Body.Close() == nil && resp.StatusCode == http.StatusOK
	}, patience, 50*time.Millisecond, "the program does not answer")
	return "http://" + addr
}

func fetch(t *testing.T, address string) string {
	t.Helper()
	resp, err := http.Get(address)
	require.NoError(t, err)
	defer func() { require.NoError(t, resp.Body.Close()) }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", body)
	return string(body)
}

// exported reads what the server answers: a series a line, which may come in several lines.
func exported(t *testing.T, text string) data {
	t.Helper()
	got := data{}
	for d := json.NewDecoder(strings.NewReader(text)); d.More(); {
		var s struct {
			Metric     map[string]string
			Timestamps []int64
			Values     []float64
		}
		require.NoError(t, d.Decode(&s))
		require.Len(t, s.Values, len(s.Timestamps))
		key := keyOf(s.Metric)
		for i, at := range s.Timestamps {
			got[key] = append(got[key], sample{at, s.Values[i]})
		}
	}
	for _, list := range got {
		slices.SortFunc(list, func(a, b sample) int { return int(a.t - b.t) })
	}
	return got
}
