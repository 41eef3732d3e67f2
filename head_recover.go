package tsdb

import (
	"context"
	stderrors "errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/isolation"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/memlimit"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/replay"
	"github.com/seed347100a3/tsdb/wal"
)

// recovery is what Open has still to write before the first commit: repaired files
// and the new log segment. It outlives Open only when the disk is full.
type recovery struct {
	mu      sync.Mutex
	h       *head
	lock    fileutil.DirLock
	log     *wal.ReplayReport
	why     error // why it is not finished
	chunked bool  // the head-chunk files are repaired
}

// recover brings the head to where its log ends, and makes the directory ready
// for the first commit (docs/design/recovery.md).
func (h *head) recover(ctx context.Context, lock fileutil.DirLock, report *OpenReport) error {
	start := h.opts.Clock.Now()
	logReport, err := h.restore(ctx, report, false)
	if err != nil {
		return err
	}
	rc := &recovery{h: h, lock: lock, log: logReport}
	h.recovery = rc
	before := rc.quarantined()
	err = h.finishRecovery()
	for _, name := range rc.quarantined() {
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

// restore reads chunk files and log. With readOnly nothing is written: full chunks stay in
// memory.
func (h *head) restore(ctx context.Context, report *OpenReport, readOnly bool) (*wal.ReplayReport, error) {
	// The process that wrote all this may have been killed for its memory.
	defer memlimit.Hold()()
	rep, err := h.readAll(ctx, report, readOnly)
	if err != nil {
		return nil, err
	}
	h.series.RaiseNextRef(rep.Log.NextRef)
	h.restored = h.series.NextRef()
	h.iso = isolation.New(rep.Log.LastSeq)
	for s := range h.series.All() {
		if maxt := s.Maxt(); maxt != memseries.NoTime {
			h.widen(max(s.Mint(), h.minValid.Load()), maxt)
		}
	}
	report.Series = h.series.Len()
	report.addReplay(rep)
	if h.snap.segment > 0 {
		report.Snapshot, report.SnapshotBytes = headsnap.Name(h.snap.segment), h.snap.bytes
	}
	return rep.Log, nil
}

// readAll reads a snapshot of the head, if there is a good one, and the log behind it, or
// else all of the log; and the head-chunk files.
func (h *head) readAll(ctx context.Context, report *OpenReport, readOnly bool) (*replay.Report, error) {
	reach, err := headsnap.FindReach(h.opts.FS, h.path)
	if err != nil {
		return nil, err
	}
	for tried := []string(nil); ; {
		snap, err := h.findSnapshot(ctx, tried, report)
		if err != nil {
			return nil, err
		}
		rep, err := h.readFrom(ctx, snap, &reach, readOnly)
		if err == nil {
			h.take(rep, snap)
			return rep, nil
		}
		if snap == nil || ctx.Err() != nil {
			return nil, err
		}
		// The snapshot, or a file that it builds on, is not as it was. The log has it all.
		h.ignoreSnapshot(snap.Path, err.Error(), report)
		tried = append(tried, snap.Path)
		// What the attempt left is worth nothing.
		h.series = h.newDirectory()
		if err := h.closeFiles(); err != nil {
			return nil, err
		}
	}
}

// findSnapshot returns the newest snapshot that can be used with the log, and nil if there is
// none. Why others cannot be used goes to the report.
func (h *head) findSnapshot(ctx context.Context, tried []string, report *OpenReport) (*replay.Snapshot, error) {
	if h.opts.Head.SnapshotThreshold < 0 {
		return nil, nil
	}
	list, err := headsnap.List(h.opts.FS, h.path)
	if err != nil {
		return nil, errors.WithMessage(err, "list snapshots of the head")
	}
	for _, f := range list {
		if slices.Contains(tried, f.Path) {
			continue
		}
		reason := ""
		meta, err := headsnap.ReadMeta(h.opts.FS, f.Path)
		if err != nil {
			reason = err.Error()
		} else if reason, err = meta.Unfit(ctx, h.opts.FS, h.walDir(), f.Path, h.minValid.Load()); err != nil {
			return nil, refuse(err) // of the log, which is read next in any case
		}
		if reason == "" {
			return &replay.Snapshot{Path: f.Path, Meta: meta}, nil
		}
		h.ignoreSnapshot(f.Path, reason, report)
	}
	return nil, nil
}

// ignoreSnapshot tells that a snapshot is not used, and why.
func (h *head) ignoreSnapshot(path, reason string, report *OpenReport) {
	line := fmt.Sprintf("%s: %s", filepath.Base(path), reason)
	if slices.Contains(report.SnapshotsIgnored, line) {
		return // it is asked again, after another one
	}
	h.opts.Logger.Warn("snapshot of the head cannot be used", "snapshot", path, "error", logged(errors.New(reason)))
	report.SnapshotsIgnored = append(report.SnapshotsIgnored, line)
}

// readFrom reads chunk files, snapshot (nil: none) and log, and makes ordinary series of what
// they have.
func (h *head) readFrom(ctx context.Context, snap *replay.Snapshot, reach *logreach.Reach, readOnly bool) (rep *replay.Report, err error) {
	h.chunks, err = chunks.OpenHead(h.opts.FS, filepath.Join(h.path, datadir.HeadChunksDir), chunks.HeadOptions{})
	if err != nil {
		return nil, errors.WithMessage(err, "open head chunks")
	}
	to := replay.Target{Series: h.series, MinValid: h.minValid.Load(), Chunks: h.chunks}
	if !readOnly {
		to.Store = chunkStore{h}
	}
	p := progress{report: h.opts.Progress, logger: h.opts.Logger, shown: -progressEvery}
	p.begun = time.Now()
	rep, err = replay.Run(ctx, to, replay.Options{
		FS: h.opts.FS, WALDir: h.walDir(), Reach: reach, Snapshot: snap,
		Workers: h.opts.Head.ReplayWorkers, Progress: p.tell, Logger: h.opts.Logger,
	})
	if err != nil {
		return nil, refuse(err)
	}
	p.end()
	return rep, nil
}

// take makes what was read the head's.
func (h *head) take(rep *replay.Report, snap *replay.Snapshot) {
	h.tombs.Store(rep.Tombs)
	for _, g := range rep.Gone {
		h.trunc.remember(g.Segment, g.Ref)
	}
	h.unread, h.logLost, h.truncated = rep.Held, rep.LogLost, rep.Truncated
	n, _ := h.series.Shards.Chunks()
	h.stats.chunksAtOpen.Store(int64(n))
	if snap != nil {
		s := snap.Meta.Start
		h.snap = headSnapshot{segment: s.Segment, bytes: snap.Meta.Sum.Bytes, nextSeq: s.NextSeq}
	}
}

// finishRecovery repairs what replay found, so that the reference engine opens the
// directory with nothing to repair, and starts the log behind it. It may be called
// again after a full disk.
func (h *head) finishRecovery() error {
	rc := h.recovery
	rc.mu.Lock()
	defer rc.mu.Unlock()
	if errors.Is(rc.why, ErrPoisoned) {
		return rc.why // a sync that failed is never tried again
	}
	rc.why = rc.run()
	return rc.why
}

func (rc *recovery) run() error {
	fsys, quarantine := rc.h.opts.FS, filepath.Join(rc.h.path, datadir.QuarantineDir)
	// Nobody may have taken the directory from us while we were reading.
	if err := rc.lock.Check(); err != nil {
		return err
	}
	// Snapshots of the reference engine would not match the log after our first commit.
	// They go only now, when it is sure that the log can be read without them.
	if err := datadir.RemoveForeignSnapshots(fsys, rc.h.path); err != nil {
		return err
	}
	// Nor would those of ours that were not used.
	if rc.h.logLost {
		if err := rc.h.quarantineSnapshots(); err != nil {
			return errors.WithMessage(err, "set snapshots of the head aside")
		}
	}
	if err := rc.h.removeSnapshots(); err != nil {
		return errors.WithMessage(err, "remove snapshots of the head")
	}
	if !rc.chunked {
		if _, err := rc.h.chunks.Repair(quarantine); err != nil {
			return errors.WithMessage(poisoned(err), "repair head chunks")
		}
		rc.chunked = true
	}
	at, err := wal.Repair(context.Background(), fsys, rc.h.walDir(), quarantine, rc.h.path, rc.log)
	if err != nil {
		return errors.WithMessage(err, "repair log")
	}
	o := rc.h.opts.WAL
	log, err := wal.Open(wal.Options{
		FS: fsys, Dir: rc.h.walDir(),
		SegmentSize: o.SegmentSize, Compression: o.Compression.wal(), Sync: o.Sync,
		NextRef: rc.h.series.NextRef, Logger: rc.h.opts.Logger,
		ReachFile: filepath.Join(rc.h.path, logreach.FileName), Mark: rc.h.truncated,
	}, at)
	if err != nil {
		return errors.WithMessage(err, "open log")
	}
	rc.h.log.Store(log)
	return nil
}

// quarantined lists what is in quarantine.
func (rc *recovery) quarantined() []string {
	entries, err := rc.h.opts.FS.ReadDir(filepath.Join(rc.h.path, datadir.QuarantineDir))
	if err != nil {
		return nil // there is no such directory
	}
	var names []string
	for _, e := range entries {
		names = append(names, filepath.Join(datadir.QuarantineDir, e.Name()))
	}
	return names
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

// close takes a last snapshot, ends the log, so that nothing new comes, then writes what is full and
// closes the files. Queriers keep the files open that they read.
func (h *head) close(headStart int64) error {
	h.closed.Store(true)
	h.snapshotAtClose(headStart)
	log := h.log.Load()
	if log == nil {
		_, why := h.writable()
		if !errors.Is(why, ErrPoisoned) {
			why = nil // a full disk is no trouble any more
		}
		return stderrors.Join(why, h.closeFiles())
	}
	err := log.Close()
	if err == nil {
		err = poisoned(h.storeAll(func(uint64) error { return nil })) // the log is closed, and synced
		if fileutil.IsDiskFull(err) && !errors.Is(err, ErrPoisoned) {
			err = nil // the log has what these files would have
		}
	}
	return stderrors.Join(err, h.closeFiles())
}

func (h *head) closeFiles() error {
	if h.chunks == nil {
		return nil
	}
	return poisoned(h.chunks.Close())
}

// poisoned makes what the chunk files say after a failed sync an ErrPoisoned.
func poisoned(err error) error {
	if errors.Is(err, chunks.ErrPoisoned) {
		return wal.Poisoned(err)
	}
	return err
}
