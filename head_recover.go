package tsdb

import (
	"context"
	stderrors "errors"
	"path/filepath"
	"slices"
	"sync"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/memlimit"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/wal"
)

// recovery is what Open has still to write before the first commit: repaired files
// and the new log segment. It outlives Open only when the disk is full.
type recovery struct {
	mu      sync.Mutex
	h       *Head
	dir     string
	lock    fileutil.DirLock
	log     *wal.ReplayReport
	why     error // why it is not finished
	chunked bool  // the head-chunk files are repaired
}

// recover brings the head to where the log in dir ends, and makes the directory ready
// for the first commit (docs/design/recovery.md).
func (h *Head) recover(ctx context.Context, dir string, lock fileutil.DirLock, report *OpenReport) error {
	start := h.opts.Clock.Now()
	logReport, err := h.restore(ctx, dir, report, false)
	if err != nil {
		return err
	}
	rc := &recovery{h: h, dir: dir, lock: lock, log: logReport}
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
func (h *Head) restore(ctx context.Context, dir string, report *OpenReport, readOnly bool) (*wal.ReplayReport, error) {
	// The process that wrote all this may have been killed for its memory.
	defer memlimit.Hold()()
	logReport, err := h.readAll(ctx, dir, report, readOnly)
	if err != nil {
		return nil, err
	}
	h.dir.RaiseNextRef(logReport.NextRef)
	h.restored = h.dir.NextRef()
	h.iso = newIsolation(logReport.LastSeq)
	for s := range h.dir.All() {
		if maxt := s.Maxt(); maxt != memseries.NoTime {
			h.widen(max(s.Mint(), h.minValid.Load()), maxt)
		}
	}
	report.Series = h.dir.Len()
	report.addLog(logReport)
	return logReport, nil
}

// readAll reads a snapshot of the head, if there is a good one, and the log behind it, or
// else all of the log; and the head-chunk files.
func (h *Head) readAll(ctx context.Context, dir string, report *OpenReport, readOnly bool) (*wal.ReplayReport, error) {
	reach, err := headsnap.FindReach(h.opts.FS, dir)
	if err != nil {
		return nil, err
	}
	for tried := []string(nil); ; {
		snap, err := h.findSnapshot(ctx, dir, tried, report)
		if err != nil {
			return nil, err
		}
		before := *report
		logReport, err := h.readFrom(ctx, dir, snap, &reach, report, readOnly)
		if snap == nil || ctx.Err() != nil || err == nil {
			return logReport, err
		}
		// The snapshot, or a file that it builds on, is not as it was. The log has it all.
		*report = before
		h.ignoreSnapshot(snap.path, err.Error(), report)
		tried = append(tried, snap.path)
		if err := h.forget(); err != nil {
			return nil, err
		}
	}
}

// forget takes back what an attempt to read a snapshot left.
func (h *Head) forget() error {
	h.dir = h.newDirectory()
	h.tombs.Store(&tombstones.Set{})
	h.trunc.gone, h.unread, h.snap = nil, nil, headSnapshot{}
	h.chunkDamage.Store(false)
	h.mender.reset()
	return h.closeFiles()
}

// readFrom reads chunk files, snapshot (nil: none) and log, and makes ordinary series of what
// they have.
func (h *Head) readFrom(ctx context.Context, dir string, snap *snapshotLoad, reach *logreach.Reach, report *OpenReport, readOnly bool) (*wal.ReplayReport, error) {
	loaded, err := h.loadChunks(dir, snap, report)
	if err != nil {
		return nil, err
	}
	r := h.newReplay(report, loaded)
	r.readOnly, r.snapshot, r.reach = readOnly, snap, reach
	logReport, err := r.run(ctx, filepath.Join(dir, walDirName))
	if err != nil {
		return nil, refuse(errors.WithMessage(err, "replay log"))
	}
	h.holdAgainstLog(r, logReport, reach)
	if err := h.dir.FinishRestore(logReport.LastSeq, h.lastValue); err != nil {
		return nil, errors.WithMessage(err, "read newest chunks")
	}
	n, _ := h.dir.Chunks()
	h.stats.chunksAtOpen.Store(int64(n))
	if snap != nil {
		if err := snap.fits(logReport, h.logLost); err != nil {
			return nil, err
		}
		s := snap.meta.Start
		h.snap = headSnapshot{segment: s.Segment, bytes: snap.meta.Sum.Bytes, nextSeq: s.NextSeq}
		report.Snapshot, report.SnapshotBytes = filepath.Base(snap.path), snap.meta.Sum.Bytes
	}
	return logReport, nil
}

// loadChunks reads which full chunks the head-chunk files have, beyond those that a snapshot
// knows.
func (h *Head) loadChunks(dir string, snap *snapshotLoad, report *OpenReport) (map[uint64][]memseries.Mapped, error) {
	var err error
	h.chunks, err = chunks.OpenHead(h.opts.FS, filepath.Join(dir, datadir.HeadChunksDir), chunks.HeadOptions{})
	if err != nil {
		return nil, errors.WithMessage(err, "open head chunks")
	}
	if snap != nil {
		if err := h.chunks.Trust(snap.meta.Files); err != nil {
			return nil, err
		}
	}
	loaded, maxRef := map[uint64][]memseries.Mapped{}, uint64(0)
	rep, err := h.chunks.Load(func(c chunks.HeadChunk) error {
		ref := uint64(c.Series)
		maxRef = max(maxRef, ref)
		ms := loaded[ref]
		// Out-of-order chunks stay in their files, as kinds that this version does not read
		// do. A chunk that is not newer than the one before it does not belong here.
		if c.OutOfOrder || len(ms) > 0 && c.MinT <= ms[len(ms)-1].MaxT {
			return nil
		}
		if c.MaxT < h.minValid.Load() {
			return nil // a block has it
		}
		loaded[ref] = append(ms, memseries.Mapped{Ref: c.Ref, MinT: c.MinT, MaxT: c.MaxT, Num: uint16(c.NumSamples)})
		return nil
	})
	if err != nil {
		return nil, errors.WithMessage(err, "load head chunks")
	}
	report.addChunks(rep)
	if snap != nil {
		snap.trust(rep.Trusted)
	}
	// Series that the log lost must not lend their chunks to new ones.
	h.dir.RaiseNextRef(maxRef + 1)
	return loaded, nil
}

// lastValue reads the value at the end of a full chunk.
func (h *Head) lastValue(m memseries.Mapped) (float64, error) {
	enc, data, err := h.chunks.Read(m.Ref, nil)
	if err != nil {
		h.noteDamage(m.Ref, err)
		return 0, err
	}
	c, err := chunkenc.FromData(enc, data)
	if err != nil {
		return 0, err
	}
	v := 0.0
	it := c.Iterator(nil)
	for it.Next() != chunkenc.ValNone {
		_, v = it.At()
	}
	return v, it.Err()
}

// finishRecovery repairs what replay found, so that the reference engine opens the
// directory with nothing to repair, and starts the log behind it. It may be called
// again after a full disk.
func (h *Head) finishRecovery() error {
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
	fsys, quarantine := rc.h.opts.FS, filepath.Join(rc.dir, datadir.QuarantineDir)
	// Nobody may have taken the directory from us while we were reading.
	if err := rc.lock.Check(); err != nil {
		return err
	}
	// Snapshots of the reference engine would not match the log after our first commit.
	// They go only now, when it is sure that the log can be read without them.
	if err := datadir.RemoveForeignSnapshots(fsys, rc.dir); err != nil {
		return err
	}
	// Nor would those of ours that were not used.
	if rc.h.logLost {
		if err := rc.h.quarantineSnapshots(rc.dir); err != nil {
			return errors.WithMessage(err, "set snapshots of the head aside")
		}
	}
	if err := rc.h.removeSnapshots(rc.dir); err != nil {
		return errors.WithMessage(err, "remove snapshots of the head")
	}
	if !rc.chunked {
		if _, err := rc.h.chunks.Repair(quarantine); err != nil {
			return errors.WithMessage(poisoned(err), "repair head chunks")
		}
		rc.chunked = true
	}
	at, err := wal.Repair(context.Background(), fsys, filepath.Join(rc.dir, walDirName), quarantine, rc.dir, rc.log)
	if err != nil {
		return errors.WithMessage(err, "repair log")
	}
	o := rc.h.opts.WAL
	log, err := wal.Open(wal.Options{
		FS: fsys, Dir: filepath.Join(rc.dir, walDirName),
		SegmentSize: o.SegmentSize, Compression: o.Compression.wal(), Sync: o.Sync,
		NextRef: rc.h.dir.NextRef, Logger: rc.h.opts.Logger,
		ReachFile: filepath.Join(rc.dir, logreach.FileName), Mark: rc.h.truncated,
	}, at)
	if err != nil {
		return errors.WithMessage(err, "open log")
	}
	rc.h.log.Store(log)
	return nil
}

// quarantined lists what is in quarantine.
func (rc *recovery) quarantined() []string {
	entries, err := rc.h.opts.FS.ReadDir(filepath.Join(rc.dir, datadir.QuarantineDir))
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
func (h *Head) writable() (*wal.Log, error) {
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
func (h *Head) poison(why error) {
	if log := h.log.Load(); log != nil {
		_ = log.Poison(why) // it returns what it was given
	}
}

// refused returns nil, or why commits are refused at the moment.
func (h *Head) refused() error {
	log, err := h.writable()
	if err != nil {
		return err
	}
	return log.Err()
}

// close takes a last snapshot, ends the log, so that nothing new comes, then writes what is full and
// closes the files. Queriers keep the files open that they read.
func (h *Head) close(dir string, headStart int64) error {
	h.closed.Store(true)
	h.snapshotAtClose(dir, headStart)
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

func (h *Head) closeFiles() error {
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
