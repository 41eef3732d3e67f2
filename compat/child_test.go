package compat

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prometheus/prometheus/storage"
	reference "github.com/prometheus/prometheus/tsdb"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/wal/zstd"
)

// childEnv holds the order for a test binary that was started again as a writer.
const childEnv = "COMPAT_CHILD"

func TestMain(m *testing.M) {
	if order := os.Getenv(childEnv); order != "" {
		if err := runChild(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if order := os.Getenv(workerEnv); order != "" {
		if err := runWorker(order); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child is a process that commits until it is killed. It acknowledges each commit on
// its standard output, after the engine did.
type child struct {
	Engine      string // "ours" or "theirs"
	Dir         string
	Seed        uint64
	Writers     int
	FirstWriter int
	Series      int // of each writer
	Compression string
}

func (c *child) plan(writer int) plan {
	return plan{Seed: c.Seed, Series: c.Series, Writer: writer, Start: 1_700_000_000_000}
}

// runAndKill lets the process run until it has acknowledged so many commits, kills it,
// and returns how many commits of each writer were acknowledged in the end.
func (c *child) runAndKill(t testing.TB, commits int) map[int]int {
	t.Helper()
	order, err := json.Marshal(c)
	require.NoError(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(order))
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	acked := map[int]int{}
	for w := range c.Writers {
		acked[c.FirstWriter+w] = 0
	}
	seen, killed := 0, false
	for lines := bufio.NewScanner(out); lines.Scan(); seen++ {
		var w, n int
		if _, err := fmt.Sscanf(lines.Text(), "ack %d %d.", &w, &n); err != nil {
			continue // the kill tore the last line
		}
		require.Equal(t, acked[w]+1, n, "writer %d", w)
		acked[w] = n
		if seen >= commits && !killed {
			killed = true
			require.NoError(t, cmd.Process.Kill())
		}
	}
	err = cmd.Wait()
	require.True(t, killed, "the child ended by itself: %v: %s", err, &complaints)
	return acked
}

// runChild is the process itself.
func runChild(order string) error {
	var c child
	if err := json.Unmarshal([]byte(order), &c); err != nil {
		return err
	}
	commit, err := c.open()
	if err != nil {
		return err
	}
	failed := make(chan error, c.Writers)
	var writers sync.WaitGroup
	for w := c.FirstWriter; w < c.FirstWriter+c.Writers; w++ {
		writers.Go(func() {
			g := newGenerator(c.plan(w))
			for n := 1; ; n++ {
				if err := commit(g.set, g.commit()); err != nil {
					failed <- fmt.Errorf("writer %d, commit %d: %w", w, n, err)
					return
				}
				// One write, and short: the parent sees the line whole or not at all.
				if _, err := fmt.Fprintf(os.Stdout, "ack %d %d.\n", w, n); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	return <-failed
}

// open returns how the chosen engine commits.
func (c *child) open() (func([]series, []row) error, error) {
	if c.Engine == "ours" {
		return c.openOurs()
	}
	return c.openTheirs()
}

func (c *child) openOurs() (func([]series, []row) error, error) {
	db, err := tsdb.Open(c.Dir, ourOptions(func(o *tsdb.Options) {
		o.WAL.Compression = map[string]tsdb.Compression{"snappy": tsdb.CompressionSnappy, "zstd": tsdb.CompressionBy(zstd.Codec), "none": tsdb.CompressionNone}[c.Compression]
		o.WAL.SegmentSize, o.Head.SamplesPerChunk = 128<<10, 20
	}))
	if err != nil {
		return nil, err
	}
	return func(set []series, rows []row) error {
		app := db.Appender()
		for _, r := range rows {
			if _, err := app.Append(0, set[r.series].ours, r.t, r.v); err != nil {
				return err
			}
		}
		res, err := app.Commit(context.Background())
		if err == nil && len(res.Rejected) > 0 {
			err = res.Rejected[0].Err
		}
		return err
	}, nil
}

func (c *child) openTheirs() (func([]series, []row) error, error) {
	db, err := reference.Open(c.Dir, slog.New(slog.DiscardHandler), prometheus.NewRegistry(), theirOptions(func(o *reference.Options) {
		o.WALCompression, o.WALSegmentSize, o.SamplesPerChunk = c.Compression, 128<<10, 20
	}), nil)
	if err != nil {
		return nil, err
	}
	db.DisableCompactions()
	return func(set []series, rows []row) error {
		app := db.Appender(context.Background())
		for _, r := range rows {
			if _, err := app.Append(storage.SeriesRef(0), set[r.series].theirs, r.t, r.v); err != nil {
				return err
			}
		}
		return app.Commit()
	}, nil
}
