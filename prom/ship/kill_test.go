//go:build unix

// A kill that cannot be caught is what Unix has.

package ship_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom/ship"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const (
	killData   = "TSDB_SHIP_TEST_DATA" // the directories of a child
	killBucket = "TSDB_SHIP_TEST_BUCKET"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killData); dir != "" {
		if err := child(dir, os.Getenv(killBucket)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child uploads what there is, and says a line before and after each operation on the bucket.
func child(dir, bucketDir string) error {
	inner, err := filesystem.NewBucket(bucketDir)
	if err != nil {
		return err
	}
	b := newCounted(inner)
	b.before = func(op, name string) error { _, err := fmt.Println(op, name); return err }
	b.after = b.before
	s, err := ship.NewDir(dir, b, ship.Options{Labels: external})
	if err != nil {
		return err
	}
	_, err = s.Sync(ctx)
	return err
}

// Processes that are killed anywhere, one after the other, upload all blocks in the end, while the
// database goes on.
func TestSync_KilledProcesses(t *testing.T) {
	dir, bucketDir := filepath.Join(t.TempDir(), "data"), t.TempDir()
	clock := tsdbtest.NewClock(time.UnixMilli(1_700_000_000_000).Truncate(blockRange))
	db, err := tsdb.Open(dir, &tsdb.Options{Clock: clock, Blocks: tsdb.BlockOptions{Manual: true, Range: blockRange, MaxRange: blockRange}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	random := rand.New(rand.NewPCG(1, 2))
	killed := 0
	const rounds = 12
	for round := range rounds + 1 {
		if round < rounds {
			app := db.Appender()
			for i := range 3000 {
				_, err := app.Append(0, labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)), clock.Now().UnixMilli(), random.Float64())
				require.NoError(t, err)
			}
			_, err := app.Commit(ctx)
			require.NoError(t, err)
			require.NoError(t, db.Flush(ctx))
			clock.Advance(blockRange)
		}
		lines := 1 + random.IntN(25)
		if round == rounds {
			lines = 1 << 30
		}
		if runChild(t, dir, bucketDir, lines) {
			killed++
		}
	}
	require.Greater(t, killed, rounds/2)
	var names []string
	for _, m := range db.Blocks() {
		names = append(names, m.ULID.String())
	}
	require.Len(t, names, rounds)
	b, err := filesystem.NewBucket(bucketDir)
	require.NoError(t, err)
	checkBlocks(t, b, names, func(name string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, name)) })
	s, err := ship.New(db, b, ship.Options{Labels: external})
	require.NoError(t, err)
	n, err := s.Sync(ctx)
	require.NoError(t, err)
	require.Zero(t, n)
	entries, err := os.ReadDir(filepath.Join(dir, "thanos", "upload"))
	require.NoError(t, err)
	require.Empty(t, entries)
}

// runChild runs a child, and kills it after so many lines; it returns whether that was before its
// end.
func runChild(t *testing.T, dir, bucketDir string, lines int) (killed bool) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), killData+"="+dir, killBucket+"="+bucketDir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	said := bufio.NewScanner(out)
	for n := 1; said.Scan(); n++ {
		if n == lines {
			require.NoError(t, cmd.Process.Kill())
			killed = true
			break
		}
	}
	for said.Scan() { // until it has ended
	}
	if err := cmd.Wait(); !killed {
		require.NoError(t, err)
	}
	return killed
}
