//go:build unix

// A kill that cannot be caught is what Unix has.

package ship_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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
	killLive   = "TSDB_SHIP_TEST_LIVE" // the child also writes
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killData); dir != "" {
		run := child
		if os.Getenv(killLive) != "" {
			run = liveChild
		}
		if err := run(dir, os.Getenv(killBucket)); err != nil {
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
func runChild(t *testing.T, dir, bucketDir string, lines int, env ...string) (killed bool) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), killData+"="+dir, killBucket+"="+bucketDir), env...)
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

// liveRounds is how many blocks a child writes, each with one of late samples that overlaps it.
const liveRounds = 5

// liveChild goes on with a database: it makes blocks that overlap, has them merged, and uploads
// meanwhile.
func liveChild(dir, bucketDir string) (err error) {
	inner, err := filesystem.NewBucket(bucketDir)
	if err != nil {
		return err
	}
	b := newCounted(inner)
	b.before = func(op, name string) error { _, err := fmt.Println(op, name); return err }
	s, err := ship.NewDir(dir, b, ship.Options{Labels: external})
	if err != nil {
		return err
	}
	clock := tsdbtest.NewClock(time.UnixMilli(1_700_000_000_000).Truncate(blockRange))
	db, err := tsdb.Open(dir, s.Prepare(&tsdb.Options{Clock: clock, Head: tsdb.HeadOptions{OutOfOrderWindow: time.Hour},
		Blocks: tsdb.BlockOptions{Manual: true, Range: blockRange}}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if _, maxt, _, err := db.Bounds(ctx); err == nil && maxt > clock.Now().UnixMilli() {
		clock.Set(time.UnixMilli(maxt).Truncate(blockRange).Add(blockRange))
	}
	running, end := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { s.Run(running, time.Hour) })
	defer ended.Wait()
	defer end()
	for range liveRounds {
		if err := liveRound(db, clock); err != nil {
			return err
		}
	}
	if _, err := s.Sync(ctx); err != nil {
		return err
	}
	return db.Compact(ctx)
}

func liveRound(db *tsdb.DB, clock *tsdbtest.Clock) error {
	for _, late := range []bool{false, true} {
		app, at := db.Appender(), clock.Now().Add(5*time.Minute)
		if late {
			at = at.Add(-2 * time.Minute)
		}
		for i := range 500 {
			if _, err := app.Append(0, labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)), at.UnixMilli(), 1); err != nil {
				return err
			}
		}
		if _, err := app.Commit(ctx); err != nil {
			return err
		}
	}
	clock.Advance(blockRange)
	if err := db.Flush(ctx); err != nil {
		return err
	}
	fmt.Println("flushed")
	if err := db.Compact(ctx); err != nil {
		return err
	}
	_, err := fmt.Println("merged")
	return err
}

// Databases that are killed anywhere, while they merge what overlaps, have every block uploaded
// that the merged ones were made of, and none of these.
func TestRun_KilledDatabases(t *testing.T) {
	dir, bucketDir := filepath.Join(t.TempDir(), "data"), t.TempDir()
	random := rand.New(rand.NewPCG(3, 4))
	killed := 0
	const rounds = 12
	for range rounds {
		if runChild(t, dir, bucketDir, 1+random.IntN(60), killLive+"=1") {
			killed++
		}
	}
	runChild(t, dir, bucketDir, 1<<30, killLive+"=1")
	require.Greater(t, killed, rounds/2)
	b, err := filesystem.NewBucket(bucketDir)
	require.NoError(t, err)
	whole := map[string]bool{}
	for name, text := range objects(t, b) {
		if block, ok := strings.CutSuffix(name, "/meta.json"); ok {
			var m uploadedMeta
			require.NoError(t, json.Unmarshal(text, &m))
			require.Equal(t, 1, m.Compaction.Level)
			whole[block] = true
		}
	}
	r, err := tsdb.OpenReadOnly(dir, nil)
	require.NoError(t, err)
	merged := 0
	for _, m := range r.Blocks() {
		for _, source := range m.Compaction.Sources {
			require.True(t, whole[source.String()], "%s of %s", source, m.ULID)
		}
		if m.Compaction.Level > 1 {
			merged += len(m.Compaction.Sources)
		}
	}
	require.NoError(t, r.Close())
	require.Greater(t, merged, 2*liveRounds)
}
