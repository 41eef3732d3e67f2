package tsdb

import (
	"context"
	"math"
	"path/filepath"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/checkpoint"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headchunks"
	"github.com/seed347100a3/tsdb/internal/isolation"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/mend"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/internal/snapshots"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/wal"
)

// head is the mutable block: the newest samples, in memory and in the log.
//
// A sample's way: Appender.Append finds its series and stages it (head_append.go);
// Commit reserves, logs, applies and publishes it (head_commit.go); full chunks go to
// head-chunk files behind it (internal/headchunks); queries read it (internal/read); after
// a restart the log brings it back (head_recover.go).
type head struct {
	opts   *Options
	path   string // the data directory
	series *memseries.Directory
	log    atomic.Pointer[wal.Log] // nil while recovery waits for room on the disk
	chunks *chunks.HeadFiles
	iso    *isolation.Commits
	bounds bounds

	// What happens to it, in the files that are called so.
	commits   commits
	queries   headQueries
	deleted   headDeletes
	late      headLate
	writer    headchunks.Writer
	snapshots snapshots.Keeper
	trunc     truncation
	recovery  recovery
}

func newHead(opts *Options, path string) *head {
	h := &head{opts: opts, path: path}
	h.series = h.newDirectory()
	h.bounds.init(opts)
	h.commits.init(h)
	h.queries.place = read.NewPlaceID()
	h.late.init(h)
	h.deleted.set.Store(&tombstones.Set{})
	h.writer.Init(opts.Blocks.Range.Milliseconds())
	h.recovery.h = h
	h.initSnapshots()
	h.queries.mender.Config = mend.Config{FS: opts.FS, Dir: path, Logger: opts.Logger}
	h.trunc.h, h.trunc.opened, h.trunc.done, h.trunc.shortened = h, math.MinInt64, math.MinInt64, math.MinInt64
	h.trunc.checkpoints.Config = checkpoint.Config{FS: opts.FS, Dir: path, WALDir: h.walDir(), Quarantine: filepath.Join(path, datadir.QuarantineDir),
		Logger: opts.Logger}
	return h
}

// walDir is where the segments of the log are.
//
//go:noinline
func (h *head) walDir() string { return filepath.Join(h.path, datadir.WALDir) }

// newDirectory returns an empty directory of series.
func (h *head) newDirectory() *memseries.Directory {
	d := memseries.NewDirectory(memseries.Cutting{
		Range:   h.opts.Blocks.Range.Milliseconds(),
		Samples: h.opts.Head.SamplesPerChunk,
	})
	d.Budget.Limit(h.opts.Head.MaxSeries, h.opts.Head.MaxBytes)
	d.Budget.Beside = func() int64 { return h.late.store.SizeBytes() }
	d.Kept = func(ref uint64) bool { return h.late.store.Overlaps(ref, math.MinInt64, math.MaxInt64) }
	return d
}

const walDirName = datadir.WALDir

func (h *head) initSnapshots() {
	h.snapshots.Config = snapshots.Config{
		FS: h.opts.FS, Dir: h.path, WALDir: h.walDir(), Clock: h.opts.Clock, Logger: h.opts.Logger,
		Threshold: h.opts.Head.SnapshotThreshold, Manual: h.opts.Blocks.Manual, Compression: h.opts.WAL.Compression.wal(),
	}
}

// forSnapshot is what a snapshot is taken of. The log is there, and the caller holds flushing.
func (h *head) forSnapshot(start func() int64) *snapshots.Head {
	return &snapshots.Head{
		Log: h.log.Load(), Series: h.series, Chunks: h.chunks, Writer: &h.writer, Commits: h.iso,
		Metadata: h.commits.metadata, Exemplars: h.commits.exemplars, Deleted: &h.deleted.set,
		Gone: h.trunc.checkpoints.Gone, Restored: h.recovery.restored, SyncLate: func() ([]byte, error) { return h.late.sync(h) }, Start: start,
		Damaged: h.queries.mender.Damaged(), Unread: len(h.recovery.unread) > 0,
	}
}

// headQueries is what the queries of a head share.
type headQueries struct {
	place  read.PlaceID
	labels read.LabelMemory
	mender mend.Mender // of chunks that they found damaged
	opened atomic.Uint64
}

// readable is what a query, or a flush, reads of a snapshot, and from a time on. pin is that of the
// chunk files, which the caller holds; losses are those of the mender that are known.
//
//go:noinline
func (h *head) readable(pin *chunks.Pin, snapshot uint64, from int64, losses int) read.Head {
	return read.Head{Place: h.queries.place, Series: h.series, Chunks: pin, Past: h.series.Past(snapshot), From: from,
		Deleted: h.deleted.set.Load(), Mender: &h.queries.mender, Losses: losses, Labels: &h.queries.labels}
}

// mend sets damaged chunks aside that readers have come upon, and returns how many. start is where
// the head begins by the blocks. The caller holds flushing.
func (h *head) mend(ctx context.Context, start int64) (int, error) {
	n, err := h.queries.mender.Mend(ctx, h.series, h.chunks, start)
	return n, refuse(err)
}

// writable returns the log, or why there is none.
func (h *head) writable() (*wal.Log, error) {
	if log := h.log.Load(); log != nil {
		return log, nil
	}
	h.recovery.mu.Lock()
	defer h.recovery.mu.Unlock()
	if log := h.log.Load(); log != nil {
		return log, nil
	}
	return nil, wal.NotWritable(h.recovery.why)
}

// poison refuses all writes from now on, for good.
func (h *head) poison(why error) {
	if log := h.log.Load(); log != nil {
		_ = log.Poison(why) // it returns what it was given
	}
}

// refused returns nil, or why commits are refused at the moment.
func (h *head) refused() error {
	log, err := h.writable()
	if err != nil {
		return err
	}
	return log.Err()
}

// writeChunks writes all full chunks into head-chunk files. Head chunks must not
// outrun the log: it is synced up to the newest commit in them before. After a failed
// sync of such a file nothing is written any more, as after one of the log. Unless a commit has
// asked for it, what was of no use since the last such call is given up.
func (h *head) writeChunks() error {
	log, err := h.writable()
	if err != nil || log.Err() != nil {
		return nil // nothing may be written at the moment, and Health says so
	}
	rests := !h.writer.Woken()
	err = h.writer.StoreAll(log.SyncTo)
	if rests {
		log.Rest()
		h.writer.Rest()
		if err == nil {
			err = h.chunks.Rest()
		}
	}
	if errors.Is(err, chunks.ErrPoisoned) {
		return log.Poison(err)
	}
	return err
}

// close takes a last snapshot, ends the log, so that nothing new comes, then writes what is full
// and closes the files. Queriers keep the files open that they read.
func (h *head) close(headStart int64) error {
	h.commits.closed.Store(true)
	log := h.log.Load()
	if log != nil {
		h.snapshots.AtClose(h.forSnapshot(func() int64 { return headStart }))
	}
	if log == nil {
		_, why := h.writable()
		if !errors.Is(why, ErrPoisoned) {
			why = nil // a full disk is no trouble any more
		}
		return fileutil.JoinErrors(why, h.late.log.Close(), h.closeFiles())
	}
	err := fileutil.JoinErrors(log.Close(), h.late.log.Close())
	if err == nil {
		err = poisoned(h.writer.StoreAll(func(uint64) error { return nil })) // the log is closed, and synced
		if fileutil.IsDiskFull(err) && !errors.Is(err, ErrPoisoned) {
			err = nil // the log has what these files would have
		}
	}
	return fileutil.JoinErrors(err, h.closeFiles())
}

func (h *head) closeFiles() error {
	if h.chunks == nil {
		return nil
	}
	return poisoned(h.chunks.Close())
}

// roomToHeal is how many bytes must be free before a log that met a full disk is tried again: two
// pages of it.
const roomToHeal = 64 << 10

// heal returns why the log takes no commits. One that met a full disk is tried again when there is
// room: a program that waits for DB.Health does not commit any, and so would not find out.
func (h *head) heal(log *wal.Log) error {
	err := log.Err()
	if !errors.Is(err, ErrDiskFull) {
		return err
	}
	if free, _, unknown := fileutil.DiskSpace(h.opts.FS, h.path); unknown == nil && free < roomToHeal {
		return err
	}
	return log.Retry() // where nobody knows, the next commit finds out
}

// retry is heal for a flush, which tries again also what failed for another reason: there may be
// nothing to commit, or all commits may be refused until the flush is done.
func (h *head) retry(log *wal.Log) error {
	err := h.heal(log)
	if err == nil || errors.Is(err, ErrDiskFull) || errors.Is(err, ErrPoisoned) {
		return err
	}
	return log.Retry()
}

// poisoned makes what the chunk files say after a failed sync an ErrPoisoned.
func poisoned(err error) error { return headchunks.Poisoned(err) }
