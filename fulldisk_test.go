//go:build linux

// A real full disk takes a file system of known size, which only Linux mounts for a
// process alone.

package tsdb_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// mountSmall mounts a file system of some bytes, in a process that has its own mounts.
func mountSmall(t *testing.T, bytes int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.Mkdir(dir, 0o755))
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		t.Skipf("a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// enlarge makes a file system of mountSmall larger.
func enlarge(t *testing.T, dir string, bytes int) {
	t.Helper()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", bytes)))
}

// ballast is a file that takes the room.
type ballast struct {
	*testing.T
	path string
}

// fill takes all room but about the bytes given.
func (b ballast) fill(left int64) {
	b.Helper()
	f, err := os.OpenFile(b.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	require.NoError(b, err)
	for _, size := range []int{64 << 10, 1 << 10} {
		block := make([]byte, size)
		for err == nil {
			_, err = f.Write(block)
		}
		require.ErrorIs(b, err, syscall.ENOSPC)
		err = nil
	}
	info, err := f.Stat()
	require.NoError(b, err)
	require.NoError(b, f.Truncate(max(0, info.Size()-left)))
	require.NoError(b, f.Close())
}

func (b ballast) free() {
	b.Helper()
	require.NoError(b, os.Remove(b.path))
}

// fillDisk is a database on a small disk, and what was committed to it.
type fillDisk struct {
	*testing.T
	dir  string
	opts *tsdb.Options
	db   *tsdb.DB
	next int                // number of the next commit
	want map[string][]point // what was acknowledged
}

// commit commits 20 samples with numbers that no other commit has, and a new series.
func (d *fillDisk) commit() error {
	d.next++
	app := d.db.Appender()
	add := func(into map[string][]point, ls labels.Labels, v float64) {
		_, err := app.Append(0, ls, int64(d.next), v)
		require.NoError(d, err)
		into[ls.String()] = append(into[ls.String()], point{int64(d.next), math.Float64bits(v)})
	}
	staged := map[string][]point{}
	for i := range 20 {
		add(staged, labels.FromStrings("i", strconv.Itoa(i)), math.Sqrt(float64(d.next*100+i)))
	}
	add(staged, labels.FromStrings("n", strconv.Itoa(d.next)), 1)
	_, err := app.Commit(ctx)
	if err == nil {
		for series, ps := range staged {
			d.want[series] = append(d.want[series], ps...)
		}
	}
	return err
}

func (d *fillDisk) check() {
	d.Helper()
	require.Equal(d, d.want, dump(d, d.db, math.MinInt64, math.MaxInt64))
}

func (d *fillDisk) open() {
	d.Helper()
	db, err := tsdb.Open(d.dir, d.opts)
	require.NoError(d, err)
	d.db = db
	r := db.OpenReport()
	require.True(d, r.Clean(), "%+v", r)
}

func TestFullDisk_CommitsFailUntilThereIsRoomAndReadsGoOn(t *testing.T) {
	if os.Getenv(insideEnv) == "" {
		if os.Getuid() != 0 {
			skipOrFail(t, "only root may mount a small file system")
		}
		runInside(t, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS})
		return
	}
	for _, policy := range []tsdb.SyncPolicy{tsdb.SyncCommit(), tsdb.SyncInterval(time.Second), tsdb.SyncNever()} {
		disk := mountSmall(t, 4<<20)
		d := &fillDisk{T: t, dir: filepath.Join(disk, "data"), want: map[string][]point{}}
		d.opts = &tsdb.Options{Clock: hurriedClock{}}
		d.opts.Head.SamplesPerChunk = 16
		d.opts.WAL.SegmentSize = 64 << 10
		d.opts.WAL.Sync = policy
		ballast := ballast{t, filepath.Join(disk, "ballast")}
		rng := rand.New(rand.NewPCG(7, 7))
		d.open()
		for range 4 {
			for range 30 {
				require.NoError(t, d.commit())
			}
			d.fillUp(ballast, rng.Int64N(40<<10))
			ballast.free()
			require.NoError(t, d.commit(), "there is room, and nobody had to open again")
			require.NoError(t, d.db.Health())
			d.check()
		}
		require.NoError(t, d.db.Close())
		d.open() // nothing that failed comes back
		d.check()

		// Close and open while it is full.
		d.fillUp(ballast, rng.Int64N(40<<10))
		if err := d.db.Close(); err != nil {
			require.ErrorIs(t, err, syscall.ENOSPC, "full chunks may find no room")
		}
		ballast.fill(0)
		d.open()
		d.check()
		require.ErrorIs(t, d.db.Health(), tsdb.ErrDiskFull)
		require.ErrorIs(t, d.db.Health(), tsdb.ErrReadOnly)
		err := d.commit()
		require.ErrorIs(t, err, tsdb.ErrNotCommitted)
		require.ErrorIs(t, err, tsdb.ErrDiskFull)
		ballast.free()
		d.awaitRoom()
		d.check()
		require.NoError(t, d.db.Close())
		d.open()
		d.check()
		require.NoError(t, d.db.Close())
	}
}

func TestFullDisk_DropBlocksMakesRoom(t *testing.T) {
	if os.Getenv(insideEnv) == "" {
		if os.Getuid() != 0 {
			skipOrFail(t, "only root may mount a small file system")
		}
		runInside(t, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS})
		return
	}
	disk := mountSmall(t, 4<<20)
	d := &fillDisk{T: t, dir: filepath.Join(disk, "data"), want: map[string][]point{}}
	d.opts = &tsdb.Options{Clock: hurriedClock{}, Blocks: tsdb.BlockOptions{Manual: true}}
	d.opts.WAL.SegmentSize = 64 << 10
	d.open()
	for range 6 {
		for range 100 {
			require.NoError(t, d.commit())
		}
		require.NoError(t, d.db.Flush(ctx))
	}
	blocks := d.db.Blocks()
	d.fillUp(ballast{t, filepath.Join(disk, "ballast")}, 0)
	n, err := d.db.DropBlocks(ctx, blocks[3].MaxTime)
	require.NoError(t, err)
	require.Equal(t, 4, n)
	d.awaitRoom()
	require.NoError(t, d.db.Close())
	d.open()
	require.NotZero(t, d.db.Stats().Series)
	require.NoError(t, d.db.Close())
}

// fillUp leaves little room and commits until there is none.
func (d *fillDisk) fillUp(b ballast, left int64) {
	d.Helper()
	b.fill(left)
	var err error
	for n := 0; err == nil; n++ {
		require.Less(d, n, 10_000, "the disk does not get full")
		err = d.commit()
	}
	for range 5 {
		require.ErrorIs(d, err, tsdb.ErrNotCommitted)
		require.ErrorIs(d, err, tsdb.ErrDiskFull)
		d.check()
		err = d.commit()
		if err == nil { // a smaller commit than the last one had room
			break
		}
	}
}

// awaitRoom commits until that works again, which may take a tick of the clock.
func (d *fillDisk) awaitRoom() {
	d.Helper()
	ticks := time.NewTicker(2 * time.Millisecond)
	defer ticks.Stop()
	deadline := time.After(patience)
	for {
		err := d.commit()
		if err == nil {
			require.NoError(d, d.db.Health())
			return
		}
		require.ErrorIs(d, err, tsdb.ErrDiskFull)
		select {
		case <-ticks.C:
		case <-deadline:
			require.NoError(d, err, "there has been room for long")
		}
	}
}
