package tsdb

import (
	"context"
	"path/filepath"
	"slices"
	"sync"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/isolation"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/memlimit"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/replay"
	"github.com/seed347100a3/tsdb/internal/snapshots"
	"github.com/seed347100a3/tsdb/wal"
)

// recovery brings a head back from its files. What Open has still to write then before the first
// commit, repaired files and the new log segment, outlives it only when the disk is full.
type recovery struct {
	h      *head
	latest int64 // the head begins no later by the log alone

	// What it found out, not changed any more when it has read all.
	restored  uint64        // refs below it were there
	maxt      int64         // milliseconds; of the newest sample that was there
	chunks    int           // that there were
	unread    record.Counts // records of the log with samples that are not read and no block has
	logLost   bool          // the log has lost something that was promised
	truncated int64         // up to when the log was truncated

	mu      sync.Mutex
	lock    fileutil.DirLock
	log     *wal.ReplayReport
	why     error // why it is not finished
	chunked bool  // the head-chunk files are repaired
}

// beginBehind makes a head begin behind blocks. By the log it may begin later.
func beginBehind(h *head, v *blockset.View) {
	h.bounds.minValid.Store(v.Start)
	h.recovery.latest = v.LatestStart(h.opts.Clock)
}

// run brings the head to where its log ends, and makes the directory ready
// for the first commit (docs/design/recovery.md).
func (rc *recovery) run(ctx context.Context, lock fileutil.DirLock, report *OpenReport) (err error) {
	h := rc.h
	start := h.opts.Clock.Now()
	if rc.log, err = rc.restore(ctx, report, false); err != nil {
		return err
	}
	rc.lock = lock
	before := datadir.InQuarantine(h.opts.FS, h.path)
	err = rc.finish()
	for _, name := range datadir.InQuarantine(h.opts.FS, h.path) {
		if !slices.Contains(before, name) {
			report.Quarantined = append(report.Quarantined, name)
		}
	}
	report.Duration = h.opts.Clock.Now().Sub(start)
	if err != nil && fileutil.IsDiskFull(err) && !errors.Is(err, ErrPoisoned) {
		h.opts.Logger.Warn("disk is full: reading only until there is room", "error", logged(err))
		return nil
	}
	return err
}

// restore reads chunk files and log. With readOnly nothing is written: full chunks stay in memory.
func (rc *recovery) restore(ctx context.Context, report *OpenReport, readOnly bool) (*wal.ReplayReport, error) {
	h := rc.h
	// The process that wrote all this may have been killed for its memory.
	defer memlimit.Hold()()
	rep, err := rc.readAll(ctx, report, readOnly)
	if err != nil {
		return nil, err
	}
	h.series.RaiseNextRef(rep.Log.NextRef)
	if rep.Start <= rc.latest {
		h.bounds.minValid.Store(rep.Start)
	}
	rc.restored = h.series.NextRef()
	h.iso = isolation.New(rep.Log.LastSeq)
	for s := range h.series.All() {
		if maxt := s.Maxt(); maxt != memseries.NoTime {
			h.bounds.widen(max(s.Mint(), h.bounds.minValid.Load()), maxt)
		}
	}
	h.late.attach(h)
	rc.maxt = h.bounds.maxT.Load()
	report.Series = h.series.Len()
	report.addReplay(rep)
	report.Snapshot, report.SnapshotBytes = h.snapshots.Newest()
	if rep.Log.Checkpoint < 0 && rep.SamplesInBlocks == 0 && report.Snapshot == "" {
		h.trunc.opened = h.bounds.minValid.Load() // else series whose samples are in blocks would stay
	}
	return rep.Log, nil
}

// readAll reads a snapshot of the head, if there is a good one, and the log behind it, or
// else all of the log; and the head-chunk files.
func (rc *recovery) readAll(ctx context.Context, report *OpenReport, readOnly bool) (*replay.Report, error) {
	h := rc.h
	read := func(snap *replay.Snapshot, reach *logreach.Reach) (*replay.Report, error) {
		return rc.readFrom(ctx, snap, reach, readOnly)
	}
	rep, ignored, err := h.snapshots.Restore(ctx, snapshots.Source{Start: h.bounds.minValid.Load(), Read: read, Forget: rc.forget})
	report.SnapshotsIgnored = append(report.SnapshotsIgnored, ignored...)
	if err != nil {
		return nil, refuse(err)
	}
	rc.take(rep)
	return rep, nil
}

// forget makes the head empty again: what an attempt to read left is worth nothing.
func (rc *recovery) forget() error {
	h := rc.h
	h.series, h.late.store = h.newDirectory(), newLateStore(h.opts)
	h.commits.exemplars = exemplars.New(h.opts.Head.MaxExemplars)
	return h.closeFiles()
}

// readFrom reads chunk files, snapshot (nil: none) and log, and makes ordinary series of what
// they have.
func (rc *recovery) readFrom(ctx context.Context, snap *replay.Snapshot, reach *logreach.Reach, readOnly bool) (_ *replay.Report, err error) {
	h := rc.h
	h.chunks, err = chunks.OpenHead(h.opts.FS, filepath.Join(h.path, datadir.HeadChunksDir), chunks.HeadOptions{})
	if err != nil {
		return nil, errors.WithMessage(err, "open head chunks")
	}
	h.writer.Shelf, h.writer.Files = &h.series.Shelf, h.chunks
	to := replay.Target{Series: h.series, MinValid: h.bounds.minValid.Load(), Chunks: h.chunks, Exemplars: h.commits.exemplars, Late: h.late.store.Restorer()}
	if !readOnly {
		to.Store = &h.writer
	}
	var tell func(done, total int64)
	if f := h.opts.Progress; f != nil {
		tell = func(done, total int64) { f(RecoveryProgress{Done: done, Total: total}) }
	}
	return replay.Run(ctx, to, replay.Options{
		FS: h.opts.FS, WALDir: h.walDir(), LateDir: h.late.log.Dir(), Reach: reach, Snapshot: snap,
		Workers: h.opts.Head.ReplayWorkers, Progress: tell, Logger: h.opts.Logger,
	})
}

// take makes what was read the head's.
func (rc *recovery) take(rep *replay.Report) {
	h := rc.h
	h.deleted.set.Store(rep.Tombs)
	h.commits.metadata = rep.Metadata
	h.late.take(rep, h.chunks.End())
	for _, g := range rep.Gone {
		h.trunc.checkpoints.Gone.Remember(g.Segment, g.Ref)
	}
	rc.unread, rc.logLost, rc.truncated = rep.Held, rep.LogLost, rep.Truncated
	rc.chunks, _ = h.series.Shards.Chunks()
}

// finish repairs what replay found, so that the reference engine opens the directory with nothing
// to repair, and starts the log behind it. It may be called again after a full disk.
func (rc *recovery) finish() error {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if rc.h.log.Load() != nil {
		return nil // somebody else was quicker
	}
	if errors.Is(rc.why, ErrPoisoned) {
		return rc.why // a sync that failed is never tried again
	}
	rc.why = rc.write()
	return rc.why
}

func (rc *recovery) write() error {
	h := rc.h
	fsys, quarantine := h.opts.FS, filepath.Join(h.path, datadir.QuarantineDir)
	// Nobody may have taken the directory from us while we were reading.
	if err := rc.lock.Check(); err != nil {
		return err
	}
	// Snapshots of the reference engine would not match the log after our first commit.
	// They go only now, when it is sure that the log can be read without them.
	if err := datadir.RemoveForeignSnapshots(fsys, h.path); err != nil {
		return err
	}
	// Nor would those of ours that were not used.
	if rc.logLost {
		if err := h.snapshots.SetAsideOthers(quarantine); err != nil {
			return errors.WithMessage(err, "set snapshots of the head aside")
		}
	}
	if err := h.snapshots.RemoveOthers(); err != nil {
		return errors.WithMessage(err, "remove snapshots of the head")
	}
	if !rc.chunked {
		if _, err := h.chunks.Repair(quarantine); err != nil {
			return errors.WithMessage(poisoned(err), "repair head chunks")
		}
		rc.chunked = true
	}
	at, err := wal.Repair(context.Background(), fsys, h.walDir(), quarantine, h.path, rc.log)
	if err != nil {
		return errors.WithMessage(err, "repair log")
	}
	if err := h.late.begin(); err != nil {
		return err
	}
	o := h.opts.WAL
	log, err := wal.Open(wal.Options{
		FS: fsys, Dir: h.walDir(),
		SegmentSize: o.SegmentSize, Compression: o.Compression.wal(), Sync: o.Sync,
		NextRef: h.series.NextRef, Logger: h.opts.Logger,
		ReachFile: filepath.Join(h.path, logreach.FileName), Mark: rc.truncated,
	}, at)
	if err != nil {
		return errors.WithMessage(err, "open log")
	}
	h.log.Store(log)
	return nil
}
