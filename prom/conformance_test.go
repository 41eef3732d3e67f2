package prom_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/prom"
)

// The acceptance tests of the PromQL engine, over a database of ours: each file as it is.

// acceptanceEvals are the evaluations in all files.
const acceptanceEvals = 2242

// countEvals counts the evaluations of a file.
func countEvals(text string) (n int) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "eval") {
			n++
		}
	}
	return n
}

// testFiles returns the directory of the acceptance tests in the module of the engine.
func testFiles(t *testing.T) string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/prometheus/prometheus").Output()
	require.NoError(t, err, "find the module of the engine")
	return filepath.Join(strings.TrimSpace(string(out)), "promql", "promqltest", "testdata")
}

// emptyStorage is a database of its own for each script, whose clock is later than all samples.
func emptyStorage(t testing.TB) storage.Storage {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}, WAL: tsdb.WALOptions{Sync: tsdb.SyncNever()}})
	require.NoError(t, err)
	return prom.NewStorage(db)
}

func TestPromQL_AcceptanceTestsOfTheEngine(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testFiles(t), "*.test"))
	require.NoError(t, err)
	require.Len(t, files, 21)
	evals := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		evals += countEvals(string(text))
		t.Run(filepath.Base(file), func(t *testing.T) {
			engine := promqltest.NewTestEngine(t, false, 5*time.Minute, promqltest.DefaultMaxSamplesPerQuery)
			promqltest.RunTestWithStorage(t, string(text), engine, emptyStorage)
		})
	}
	require.Equal(t, acceptanceEvals, evals, "evaluations in all files")
}
