//go:build !race

// The race detector takes several times the memory.

package tsdb_test

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

const edgeMinutes = 9*60 + 30 // until blocks are merged

func init() {
	children["edge"] = func() error {
		peak := watchMemory()
		dir, n, _ := strings.Cut(os.Getenv(bombEnv), ":")
		series, err := strconv.Atoi(n)
		if err == nil {
			err = liveOnTheEdge(dir, series)
		}
		if err == nil {
			fmt.Println(peak())
			err = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		return err
	}
}

// watchMemory looks every few milliseconds how much memory is resident, without mapped files: their
// pages the system takes back. What it returns says how much it was at most, in kB.
func watchMemory() (peak func() int) {
	var most atomic.Int64
	look := func() {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			return
		}
		_, rest, _ := strings.Cut(string(status), "RssAnon:")
		if kB, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64); err == nil {
			most.Store(max(most.Load(), kB))
		}
	}
	go func() {
		for range time.NewTicker(5 * time.Millisecond).C {
			look()
		}
	}()
	return func() int { return int(most.Load()) }
}

// edgeLabels are ten labels of about 200 bytes.
func edgeLabels(i int) labels.Labels {
	pairs := []string{"__name__", fmt.Sprintf("edge_metric_%d_total", i%200), "instance", fmt.Sprintf("instance-%d.example.com:9100", i/200)}
	for k := range 8 {
		pairs = append(pairs, fmt.Sprintf("label_%d", k), fmt.Sprintf("value-%d-%d", k, i%(k+3)))
	}
	return labels.FromStrings(pairs...)
}

// liveOnTheEdge appends to as many series for nine hours and a half, a sample a minute, makes
// blocks of them and merges these as the hours pass, and queries them.
func liveOnTheEdge(dir string, series int) error {
	opts := &tsdb.Options{}
	opts.Blocks.Manual, opts.Head.MaxSeries = true, series+series/5
	db, err := tsdb.Open(dir, opts)
	if err != nil {
		return err
	}
	refs, vs := make([]tsdb.SeriesRef, series), make([]float64, series)
	now := time.Now().Truncate(6*time.Hour).UnixMilli() - 12*hour
	for k := range int64(edgeMinutes) {
		app := db.Appender()
		for i := range refs {
			vs[i] = benchValue(i, int(k))
			if refs[i] == 0 {
				refs[i], err = app.Append(0, edgeLabels(i), now+k*minute, vs[i])
			} else {
				_, err = app.Append(refs[i], labels.Labels{}, now+k*minute, vs[i])
			}
			if err != nil {
				return err
			}
		}
		if _, err := app.Commit(ctx); err != nil {
			return err
		}
		if k%30 == 29 {
			if err := db.Compact(ctx); err != nil {
				return err
			}
		}
	}
	if s := db.Stats(); s.Series != series || s.Merges == 0 {
		return fmt.Errorf("%d series, %d merges", s.Series, s.Merges)
	}
	return countAll(db, series*edgeMinutes)
}

// countAll queries everything.
func countAll(db *tsdb.DB, want int) error {
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return err
	}
	n, b := 0, chunkenc.NewBatch(1024)
	var it chunkenc.Iterator
	for s, err := range q.Select(ctx, nil).All() {
		if err != nil {
			return err
		}
		for it = s.Iterator(it); it.NextBatch(b) != chunkenc.ValNone; {
			n += len(b.T)
		}
		if it.Err() != nil {
			return it.Err()
		}
	}
	if n != want {
		return fmt.Errorf("%d samples of %d", n, want)
	}
	return q.Close()
}

// The smallest machine of docs/sizing.md: what is resident stays within its memory, also while the
// head becomes blocks, blocks are merged, and all is read.
func TestSizing_TheEdgeStaysWithinItsMemory(t *testing.T) {
	page, err := os.ReadFile("docs/sizing.md")
	require.NoError(t, err)
	for _, said := range []string{"| memory | 64 MiB |", "| series | 10,000 |", "| a sample every | 60 s |", "`GOMEMLIMIT` 48MiB"} {
		require.True(t, strings.Contains(string(page), said), said)
	}
	peak := runBomb(t, "edge", t.TempDir(), 10_000, "GOMEMLIMIT=48MiB", "GOGC=100")
	t.Logf("peak: %d kB", peak)
	require.Positive(t, peak)
	require.Less(t, peak, 64<<10)
}
