//go:build !race

// The race detector takes several times the memory.

package tsdb_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
)

// Many new series with few samples each: the log is short, and the head large.

const (
	bombEnv   = "TSDB_TEST_BOMB" // the data directory, and how many series at most
	groupEnv  = "TSDB_TEST_GROUP"
	bombBatch = 1000 // series a commit
)

func init() {
	children["bomb"] = func() error { return bombChild(writeBomb) }
	children["bomb-reopen"] = func() error { return bombChild(reopenBomb) }
}

// bombChild enters the control group, if there is one, does its work and tells the parent its peak
// of resident memory in kB. It ends without Close.
func bombChild(work func(dir string, series int) error) error {
	if group := os.Getenv(groupEnv); group != "" {
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
			return err
		}
	}
	dir, n, _ := strings.Cut(os.Getenv(bombEnv), ":")
	series, err := strconv.Atoi(n)
	if err == nil {
		err = work(dir, series)
	}
	if err != nil {
		return err
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Println(strings.Fields(rest)[0])
	return syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

func writeBomb(dir string, series int) error {
	db, err := tsdb.Open(dir, &tsdb.Options{WAL: tsdb.WALOptions{Sync: tsdb.SyncRotate()}})
	if err != nil {
		return err
	}
	var b labels.Builder
	now := time.Now().UnixMilli()
	for i := 0; i < series; i += bombBatch {
		app := db.Appender()
		for k := i; k < i+bombBatch; k++ {
			b.Set("__name__", "requests_total")
			b.Set("path", "/api/"+strconv.Itoa(k))
			b.Set("pod", "pod-"+strconv.Itoa(k%5000))
			ls := b.Labels()
			for ts := range int64(2) {
				if _, err := app.Append(0, ls, now+ts, float64(k)); err != nil {
					return err
				}
			}
		}
		if _, err := app.Commit(ctx); err != nil {
			return err
		}
	}
	return nil
}

func reopenBomb(dir string, atLeast int) error {
	db, err := tsdb.Open(dir, nil)
	if err != nil {
		return err
	}
	if r := db.OpenReport(); r.Series < atLeast || !r.Clean() {
		return fmt.Errorf("%d series of %d: %+v", r.Series, atLeast, r.Damages)
	}
	return nil
}

// runBomb runs a child and returns its peak in kB; 0 if it was killed before its end.
func runBomb(t *testing.T, child, dir string, series int, env ...string) (peak int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+child, fmt.Sprintf("%s=%s:%d", bombEnv, dir, series))
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit, "it ends by a kill")
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), string(out))
	if len(out) == 0 {
		return 0
	}
	peak, err = strconv.Atoi(strings.TrimSpace(string(out)))
	require.NoError(t, err)
	return peak
}

func TestRecovery_OfManyNewSeries_TakesWhatTheWriterHad(t *testing.T) {
	if !sweep.Whole() {
		t.Skip("two processes with some hundred MiB for seconds: -sweep.whole has it")
	}
	const series = 250_000
	dir := t.TempDir()
	wrote := runBomb(t, "bomb", dir, series)
	require.Positive(t, wrote)
	limit := fmt.Sprintf("GOMEMLIMIT=%dKiB", wrote*9/10)
	peak := runBomb(t, "bomb-reopen", dir, series, limit)
	t.Logf("peak of the writer: %d kB, of recovery: %d kB", wrote, peak)
	require.Positive(t, peak)
	require.LessOrEqual(t, peak, wrote+wrote/10)
}

// memoryGroup makes a control group with a limit, which needs root.
func memoryGroup(t *testing.T, limit int) (dir string) {
	t.Helper()
	skip := func(why string) {
		if os.Getenv(rootTestsEnv) != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	if os.Geteuid() != 0 {
		skip("needs root")
	}
	for parent, file := range map[string]string{"/sys/fs/cgroup/memory": "memory.limit_in_bytes", "/sys/fs/cgroup": "memory.max"} {
		dir = filepath.Join(parent, fmt.Sprintf("tsdb-test-%d", os.Getpid()))
		if _, err := os.Stat(filepath.Join(parent, "cgroup.procs")); err != nil || os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { // the system may still be busy with those that it killed in it
			require.Eventually(t, func() bool { return os.Remove(dir) == nil }, patience, time.Millisecond)
		})
		if os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(limit)), 0o600) == nil {
			return dir
		}
	}
	skip("needs control groups with limits of memory")
	return ""
}

// A small group is where what recovery takes besides the head matters most.
func TestRecovery_InTheControlGroupThatKilledTheWriter_Finishes(t *testing.T) {
	if !sweep.Whole() {
		t.Skip("two processes with some hundred MiB for seconds: -sweep.whole has it")
	}
	for _, tc := range []struct{ limit, series int }{{80 << 20, 60_000}, {400 << 20, 300_000}} {
		t.Run(fmt.Sprintf("%d MiB", tc.limit>>20), func(t *testing.T) {
			group := groupEnv + "=" + memoryGroup(t, tc.limit)
			dir := t.TempDir()
			require.Zero(t, runBomb(t, "bomb", dir, 10_000_000, group), "the group's limit kills it")
			for range 2 {
				peak := runBomb(t, "bomb-reopen", dir, tc.series, group)
				t.Logf("peak of recovery: %d kB of %d", peak, tc.limit>>10)
				require.Positive(t, peak, "it was killed again")
			}
		})
	}
}
