package prom_test

import (
	"flag"
	"fmt"
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

// The acceptance tests of the PromQL engine, over a database of ours. Evaluations over data that a
// database cannot hold are listed in a file with the reason; all others run.

var update = flag.Bool("update", false, "write the list of evaluations that do not run")

const holdsHistograms = "loads native histograms"

// script is a part of a test file from one clear to the next, up to the first load that a database
// cannot hold.
type script struct {
	name  string
	lines []string
	evals int
}

// corpus is the acceptance tests, split by what a database can hold.
type corpus struct {
	scripts []script
	left    []string // evaluations that do not run, with the reason
}

// add splits one file.
func (c *corpus) add(file, text string) {
	cur := script{name: file + ":1"}
	reason := ""
	flush := func(line int) {
		if cur.evals > 0 {
			c.scripts = append(c.scripts, cur)
		}
		cur, reason = script{name: fmt.Sprintf("%s:%d", file, line)}, ""
	}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); {
		end := i + 1 // of a command and what belongs to it
		for end < len(lines) && isIndented(lines[end]) {
			end++
		}
		command := lines[i:end]
		switch word, _, _ := strings.Cut(command[0], " "); {
		case word == "clear":
			flush(end + 1)
		case strings.HasPrefix(word, "load"):
			if why := unsupported(word, command[1:]); why != "" && reason == "" {
				reason = why
			}
			if reason == "" {
				cur.lines = append(append(cur.lines, command...), "")
			}
		case strings.HasPrefix(word, "eval") && reason != "":
			c.left = append(c.left, fmt.Sprintf("%s:%d %s", file, i+1, reason))
		case strings.HasPrefix(word, "eval"):
			cur.evals++
			cur.lines = append(append(cur.lines, command...), "")
		}
		i = end
	}
	flush(0)
}

func isIndented(line string) bool {
	return line != strings.TrimLeft(line, " \t") && strings.TrimSpace(line) != ""
}

// unsupported says why a database cannot hold what a command loads; empty: it can.
func unsupported(word string, series []string) string {
	if word == "load_with_nhcb" {
		return holdsHistograms
	}
	for _, line := range series {
		switch {
		case strings.HasPrefix(strings.TrimSpace(line), "#"):
		case strings.Contains(line, "{{"):
			return holdsHistograms
		}
	}
	return ""
}

// testFiles returns the directory of the acceptance tests in the module of the engine.
func testFiles(t *testing.T) string {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/prometheus/prometheus").Output()
	require.NoError(t, err, "find the module of the engine")
	return filepath.Join(strings.TrimSpace(string(out)), "promql", "promqltest", "testdata")
}

func readCorpus(t *testing.T) *corpus {
	dir := testFiles(t)
	files, err := filepath.Glob(filepath.Join(dir, "*.test"))
	require.NoError(t, err)
	require.Len(t, files, 21)
	c := &corpus{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		c.add(filepath.Base(file), string(text))
	}
	return c
}

// emptyStorage is a database of its own for each script, whose clock is later than all samples.
func emptyStorage(t testing.TB) storage.Storage {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}, WAL: tsdb.WALOptions{Sync: tsdb.SyncNever()}})
	require.NoError(t, err)
	return prom.NewStorage(db)
}

func TestPromQL_AcceptanceTestsOfTheEngine(t *testing.T) {
	c := readCorpus(t)
	evals := 0
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, promqltest.DefaultMaxSamplesPerQuery)
	for _, s := range c.scripts {
		evals += s.evals
		t.Run(s.name, func(t *testing.T) {
			promqltest.RunTestWithStorage(t, strings.Join(s.lines, "\n"), engine, emptyStorage)
		})
	}
	require.Equal(t, 928, evals, "evaluations that ran")
	require.Equal(t, 2242, evals+len(c.left), "evaluations in all files")
	const list = "testdata/promql_left_out.txt"
	left := strings.Join(c.left, "\n") + "\n"
	if *update {
		require.NoError(t, os.WriteFile(list, []byte(left), 0o666))
	}
	want, err := os.ReadFile(list)
	require.NoError(t, err)
	require.Equal(t, string(want), left)
}
