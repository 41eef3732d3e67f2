package wal

import (
	"io"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Rotate begins a new segment and returns its number: all that was enqueued before
// is in lower segments, all that comes later in this one or above. It takes its turn
// in the queue like a commit and fails like one, with the errors of Enqueue and Write;
// there is nothing to settle afterwards.
func (l *Log) Rotate() (segment int, err error) {
	c := &Commit{rotate: true}
	if err := l.Enqueue(c); err != nil {
		return 0, err
	}
	err = l.Write(c)
	segment = c.segment
	l.Settle(c)
	return segment, err
}

// rotate begins the next segment, in which c is the first commit: sync the old one,
// create the new one with its header, sync the directory. The leader calls it with
// nothing left to flush.
//
// When the new segment cannot be made the old one stays current, and the next commit
// that needs to rotate tries again. A failed sync or close poisons the log.
func (l *Log) rotate(c *Commit) error {
	if l.opts.Sync.mode != ModeNever {
		if err := l.sync(l.written.Load()); err != nil {
			return err
		}
	}
	old := l.file
	nextSeq := c.seq
	if c.rotate {
		nextSeq = l.written.Load() + 1
	}
	if err := l.createSegment(l.Segment()+1, nextSeq); err != nil {
		return err
	}
	c.segment = l.Segment()
	if l.opts.Sync.mode == ModeNever {
		return nil // older has it
	}
	if err := old.Close(); err != nil {
		return l.poison(errors.WithMessagef(err, "close log segment %s", filepath.Base(old.Name())))
	}
	return nil
}

// createSegment creates segment n, writes its header, syncs it and the directory, and
// makes it the current one. The header is durable before the first commit is written:
// a segment with neither header nor whole frame would be read as someone else's,
// record by record, and half a commit would count.
//
// A file without a whole header, left by a full disk, stays open in spare for the next
// try, so that no number ever gets two files or two headers.
func (l *Log) createSegment(n int, nextSeq uint64) error {
	g := &l.lead
	if err := l.createSpare(n); err != nil {
		return err
	}
	h := header{segment: uint64(n), nextSeq: nextSeq, nextRef: l.opts.NextRef(), synced: l.synced.Load()}
	buf := appendRecord(nil, 0, CompressionNone, appendHeader(nil, h))
	if wrote, err := g.spare.Write(buf); err != nil || wrote < len(buf) {
		if err == nil {
			err = io.ErrShortWrite
		}
		return errors.WithMessagef(err, "write header of log segment %s", segmentName(n))
	}
	if err := g.spare.Sync(); err != nil {
		return l.poison(errors.WithMessagef(err, "sync log segment %s", segmentName(n)))
	}
	if err := l.opts.FS.SyncDir(l.opts.Dir); err != nil {
		return l.poison(errors.WithMessagef(err, "sync directory %s", l.opts.Dir))
	}
	g.off, g.first = int64(len(buf)), int64(len(buf))
	l.syncMu.Lock()
	if l.file != nil && l.opts.Sync.mode == ModeNever {
		l.older = append(l.older, l.file)
	}
	l.file, g.spare = g.spare, nil
	l.segment.Store(int64(n))
	l.syncMu.Unlock()
	l.logger.Debug("began log segment", "segment", n, "next_seq", nextSeq)
	l.stats.segments.Add(1)
	l.stats.bytes.Add(uint64(len(buf)))
	return nil
}

// markEnd ends the log with another header, the watermark of which is the last commit:
// damage in there is then never taken for an unfinished write. All before it is synced,
// and it takes no sequence number, so nothing is lost with it. Therefore a full disk is no
// error here. Close calls it, when nobody leads any more.
func (l *Log) markEnd() error {
	g := &l.lead
	seq, n := l.written.Load(), l.Segment()
	h := header{segment: uint64(n), nextSeq: seq + 1, nextRef: l.opts.NextRef(), synced: seq}
	buf := appendRecord(nil, g.off, CompressionNone, appendHeader(nil, h))
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	wrote, err := l.file.Write(buf)
	if err == nil && wrote < len(buf) {
		err = io.ErrShortWrite
	}
	if err == nil {
		return l.syncFile(l.file)
	}
	g.cut = true
	err = errors.WithMessagef(err, "write end of log segment %s", segmentName(n))
	if cut := l.retryCut(); cut != nil || !fileutil.IsDiskFull(err) {
		return joinErrors(err, cut)
	}
	return nil
}

// createSpare makes the file of segment n, or empties the one that an earlier try
// left.
func (l *Log) createSpare(n int) error {
	if l.lead.spare != nil {
		return errors.WithMessagef(l.lead.spare.Truncate(0), "empty log segment %s", segmentName(n))
	}
	f, err := l.opts.FS.Create(filepath.Join(l.opts.Dir, segmentName(n)))
	if err != nil {
		return errors.WithMessagef(err, "create log segment %s", segmentName(n))
	}
	l.lead.spare = f
	return nil
}

// abandonSpare removes a segment that Open could not finish.
func (l *Log) abandonSpare() error {
	f := l.lead.spare
	if f == nil {
		return nil
	}
	l.lead.spare = nil
	err := f.Close()
	return joinErrors(err, l.opts.FS.Remove(filepath.Join(l.opts.Dir, filepath.Base(f.Name()))))
}
