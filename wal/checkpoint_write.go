package wal

import (
	"context"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/foreground"
)

// checkpointTmp is the name of a checkpoint that is being written. There is one at a time,
// which takes the place of one that was left behind.
const checkpointTmp = "tmp-checkpoint"

// checkpointName is how we name the checkpoint that covers segments up to n.
func checkpointName(n int) string { return checkpointPrefix + segmentName(n) }

// CheckpointOptions configure Log.Checkpoint.
type CheckpointOptions struct {
	// UpTo is the number of the last segment that the checkpoint covers. It is behind the
	// checkpoint before it, and before the segment that is written now.
	UpTo int
	// TmpDir is where the checkpoint is built, as tmp-checkpoint: on the log's file system,
	// and none of its directories.
	TmpDir string
	// QuarantineDir takes copies of files with damage before they go.
	QuarantineDir string
	// Begin is told, before all others are called, the first commit that the checkpoint does not
	// cover. nil: nobody asks.
	Begin func(nextSeq uint64)
	// Keep says what stays of a record: rec.Data itself, or what it appended to dst. An
	// empty result, or false, drops the record. It is called in log order, from one
	// goroutine at a time. nil keeps everything.
	Keep func(rec Record, dst []byte) (kept []byte, ok bool)
	// Expired says that commits which expire at t (Commit.Expires) have: nothing of them is
	// kept. They are checked, but not taken apart, if this Log wrote them, and then Keep is
	// not asked. It is called from several goroutines, and false for any time above one for
	// which it is. nil: none has.
	Expired func(t int64) bool
	// Tail adds records behind all others. emit does not keep the slice. nil: none.
	Tail func(emit func(rec []byte) error) error
	// Written is told of each write of n bytes, behind it, and may sleep to pace them. An
	// error ends the checkpoint. nil: nobody asks.
	Written func(n int) error
}

// CheckpointReport says what a checkpoint did.
type CheckpointReport struct {
	Number         int   // it covers segments up to this one
	Segments       int   // files read, those of the checkpoint before it included
	Read           int   // records that counted and were not passed over as expired
	Records        int   // records in the checkpoint
	Bytes          int64 // its size
	Removed        int   // segments removed because of it
	Damages        []Damage
	OmittedDamages int
	Elapsed        time.Duration
}

// Checkpoint puts a checkpoint in the place of the one before it and of the segments up
// to opts.UpTo: what Keep leaves of their records, with the reading rules of Replay, and
// then the records of Tail. It runs beside commits and holds none of them up; one
// checkpoint is made at a time.
//
// The checkpoint is built aside, synced and renamed, and only then are the files removed
// that it replaces, so after a crash at any point there is a whole log. A file with damage
// is copied to the quarantine before; what it has besides is kept.
//
// On an error before the rename nothing has changed, and it may be tried again: ErrDiskFull,
// ErrClosed, ErrSegments, ErrVersion, those of Keep's company and of ctx. A failed sync is
// ErrPoisoned, now and from then on, and nothing is removed. On an error behind the rename
// the checkpoint stands, and the next one removes what this one did not.
func (l *Log) Checkpoint(ctx context.Context, opts CheckpointOptions) (CheckpointReport, error) {
	l.checkpointing.Lock()
	defer l.checkpointing.Unlock()
	start := time.Now()
	c := &checkpointer{ctx: ctx, log: l, opts: opts, report: CheckpointReport{Number: opts.UpTo}}
	err := c.run()
	c.report.Elapsed = time.Since(start)
	if errors.Is(err, ErrPoisoned) {
		return c.report, l.queue.poison(err)
	}
	if err != nil {
		return c.report, diskFull(errors.WithMessagef(err, "checkpoint up to segment %s", segmentName(opts.UpTo)))
	}
	l.opts.Logger.Info("made checkpoint", "segment", c.report.Number, "records", c.report.Records, "of", c.report.Read,
		"bytes", c.report.Bytes, "damages", len(c.report.Damages), "elapsed", c.report.Elapsed)
	return c.report, nil
}

// checkpointer is one run of Checkpoint.
type checkpointer struct {
	ctx     context.Context
	log     *Log
	opts    CheckpointOptions
	list    *Listing
	nextSeq uint64 // of the first commit behind what is covered
	report  CheckpointReport
	scratch []byte // what Keep appends to
}

func (c *checkpointer) run() error {
	if err := c.prepare(); err != nil {
		return err
	}
	tmp := filepath.Join(c.opts.TmpDir, checkpointTmp)
	read, err := c.build(tmp)
	if err == nil {
		err = c.saveDamaged(read)
	}
	if err == nil {
		err = c.ctx.Err()
	}
	if err == nil {
		err = c.fs().Rename(tmp, filepath.Join(c.log.opts.Dir, checkpointName(c.opts.UpTo)))
	}
	if err != nil {
		return fileutil.JoinErrors(err, fileutil.RemoveAll(c.fs(), tmp))
	}
	// Where it came from first: should a crash undo one half of the move, the checkpoint is
	// gone, and not to be found under two names of which the next Open removes one.
	for _, dir := range []string{c.opts.TmpDir, c.log.opts.Dir} {
		if err := c.syncDir(dir); err != nil {
			return err
		}
	}
	return c.removeReplaced()
}

//go:noinline
func (c *checkpointer) fs() fileutil.FS { return c.log.opts.FS }

func (c *checkpointer) syncDir(dir string) error {
	if err := c.fs().SyncDir(dir); err != nil {
		return dirNotSynced(errors.WithMessagef(err, "sync %s", filepath.Base(dir)))
	}
	return nil
}

// prepare checks that the checkpoint can be made, and brings what it covers to stable
// storage: all of it was promised then, and damage in there is damage.
func (c *checkpointer) prepare() (err error) {
	l := c.log
	if err := l.queue.alive(); err != nil {
		return err
	}
	if c.list, err = readable(c.ctx, c.fs(), l.opts.Dir); err != nil {
		return err
	}
	if c.opts.UpTo <= c.list.Checkpoint || c.opts.UpTo >= l.Segment() {
		return errors.Errorf("segment is covered by checkpoint %d, or not below %d, which is being written", c.list.Checkpoint, l.Segment())
	}
	if c.nextSeq, err = c.seqBehind(); err != nil {
		return err
	}
	if c.opts.Begin != nil {
		c.opts.Begin(c.nextSeq)
	}
	return l.SyncTo(c.nextSeq - 1)
}

// seqBehind returns the number of the first commit behind what is covered. The first
// header or frame there knows: at the latest the header of the segment being written.
func (c *checkpointer) seqBehind() (seq uint64, err error) {
	p := newPipeline(c.ctx, ReplayOptions{FS: c.fs(), Decoders: 1}, newReport(c.list))
	defer p.stop()
	for i, seg := range p.report.segments {
		if i < p.report.cpNumber || seg.file.Number <= c.opts.UpTo {
			continue
		}
		err := p.scanSegment(i, 0, func(it item, rec []byte) bool {
			if it.kind == itemRecord {
				seq = seqIn(it, rec)
			}
			return seq == 0
		})
		if err != nil || seq > 0 {
			return seq, err
		}
	}
	return 0, segmentsError("nothing behind segment %s has a sequence number", segmentName(c.opts.UpTo))
}

// seqIn returns the number of the first commit that a header or frame knows, 0 if it is
// neither or knows none.
func seqIn(it item, rec []byte) uint64 {
	if h, found := headerOf(it, rec); found {
		return h.nextSeq
	}
	if isPrivate(it, rec) && isFrame(rec) {
		if f, ok := parseFrame(rec); ok {
			return f.seq
		}
	}
	return 0
}

// build writes the checkpoint's files and returns what was read for it.
func (c *checkpointer) build(tmp string) (read *ReplayReport, err error) {
	if err := fileutil.RemoveAll(c.fs(), tmp); err != nil {
		return nil, err
	}
	if err := c.fs().MkdirAll(tmp); err != nil {
		return nil, err
	}
	l := c.log
	w, err := newCheckpointWriter(l.opts, tmp, c.opts.Written)
	if err != nil {
		return nil, err
	}
	defer func() { err = fileutil.JoinErrors(err, w.close()) }()
	h := header{segment: uint64(c.opts.UpTo), nextSeq: c.nextSeq, nextRef: l.opts.NextRef(), synced: max(l.Synced(), c.nextSeq-1)}
	if err := w.begin(h); err != nil {
		return nil, err
	}
	if read, err = c.copyRecords(w); err != nil {
		return nil, err
	}
	if c.opts.Tail != nil {
		if err := c.opts.Tail(w.append); err != nil {
			return nil, err
		}
	}
	if err := w.finish(); err != nil {
		return nil, err
	}
	c.report.Records, c.report.Bytes = int(w.sum.records), w.bytes
	return read, c.syncDir(tmp)
}

// copyRecords replays what is covered into w.
func (c *checkpointer) copyRecords(w *checkpointWriter) (*ReplayReport, error) {
	r := newReport(c.list)
	var way foreground.Steps
	p := newPipeline(c.ctx, ReplayOptions{FS: c.fs(), Decoders: 1, Logger: c.log.opts.Logger, Apply: func(b *Batch) error {
		for _, rec := range b.Records {
			if err := c.copyRecord(w, rec); err != nil {
				return err
			}
			way.Add(len(rec.Data), wayBytes)
		}
		return c.ctx.Err()
	}}, r)
	p.covered, p.behind, p.makesWay = c.covered(r), c.nextSeq, true
	p.skip = c.log.expiries.skipper(c.opts.Expired)
	r.Segments = p.covered
	if err := p.run(); err != nil {
		return nil, err
	}
	c.report.Segments, c.report.Read = r.Segments, r.Records
	c.report.Damages, c.report.OmittedDamages = r.Damages, r.OmittedDamages
	return r, nil
}

// covered returns how many of the segments that a replay would read are replaced.
func (c *checkpointer) covered(r *ReplayReport) int {
	n := r.cpNumber
	for n < len(r.segments) && r.segments[n].file.Number <= c.opts.UpTo {
		n++
	}
	return n
}

func (c *checkpointer) copyRecord(w *checkpointWriter, rec Record) error {
	if c.opts.Keep == nil || len(rec.Data) == 0 {
		return w.append(rec.Data)
	}
	kept, ok := c.opts.Keep(rec, c.scratch[:0])
	if !ok || len(kept) == 0 {
		return nil
	}
	if &kept[0] != &rec.Data[0] {
		c.scratch = kept
	}
	return w.append(kept)
}

// saveDamaged copies what is about to be removed and has damage.
func (c *checkpointer) saveDamaged(r *ReplayReport) error {
	m := &mender{ctx: c.ctx, fs: c.fs(), quarantineDir: c.opts.QuarantineDir}
	if err := m.moveDoubted(c.list); err != nil {
		return err
	}
	for i := range r.segments[:c.report.Segments] {
		seg := &r.segments[i]
		if !seg.dirty && !(r.cpBroken && i < r.cpNumber) {
			continue
		}
		if err := m.quarantine(seg.file.Path); err != nil {
			return err
		}
	}
	return nil
}

// removeReplaced removes the segments that the checkpoint covers, and older checkpoints.
// The lowest segment goes first, each for good before the next one: those that are left
// then always lead up to what is not covered, and the reference takes a hole for a loss.
func (c *checkpointer) removeReplaced() error {
	entries, err := c.fs().ReadDir(c.log.opts.Dir)
	if err != nil {
		return err
	}
	segments, err := segmentFiles(c.log.opts.Dir, entries)
	if err != nil {
		return err
	}
	c.log.expiries.forget(c.opts.UpTo)
	for _, seg := range segments {
		if seg.Number > c.opts.UpTo {
			break
		}
		if err := c.fs().Remove(seg.Path); err != nil {
			return err
		}
		if err := c.syncDir(c.log.opts.Dir); err != nil {
			return err
		}
		c.report.Removed++
	}
	return c.removeOlder(entries)
}

// removeOlder removes checkpoints that nobody reads any more.
func (c *checkpointer) removeOlder(entries []fs.DirEntry) error {
	removed := false
	for _, e := range entries {
		if n, ok := checkpointNumber(e); ok && n < c.opts.UpTo {
			removed = true
			if err := fileutil.RemoveAll(c.fs(), filepath.Join(c.log.opts.Dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if !removed {
		return nil
	}
	return c.syncDir(c.log.opts.Dir)
}
