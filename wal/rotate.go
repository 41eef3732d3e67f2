package wal

import (
	"bytes"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Rotate begins a new segment and returns its number: all that was enqueued before
// is in lower segments, all that comes later in this one or above. It takes its turn
// in the queue like a commit and fails like one, with the errors of Enqueue and Write;
// there is nothing to settle afterwards.
func (l *Log) Rotate() (segment int, err error) {
	start, err := l.BeginSnapshot()
	return start.Segment, err
}

// BeginSnapshot is Rotate that returns the segment as a place to start from. All commits below
// Start.NextSeq are written then, and no others.
func (l *Log) BeginSnapshot() (start Start, err error) {
	c := &Commit{rotate: true}
	if err := l.Enqueue(c); err != nil {
		return Start{}, err
	}
	err = l.Write(c)
	l.Settle(c)
	return c.start, err
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
	old, lastFrame := l.file, l.lead.lastFrame
	nextSeq := c.seq
	if c.rotate {
		nextSeq = l.written.Load() + 1
	}
	if err := l.createSegment(l.Segment()+1, nextSeq); err != nil {
		return err
	}
	l.Note()
	h := l.lead.header
	c.start = Start{Segment: l.Segment(), NextSeq: h.nextSeq, NextRef: h.nextRef, LastFrame: lastFrame}
	if l.opts.Sync.mode == ModeNever {
		return nil // older has it
	}
	if err := old.Close(); err != nil {
		return l.poison(errors.WithMessagef(err, "close log segment %s", filepath.Base(old.Name())))
	}
	return nil
}

// createSegment creates segment n, syncs the directory, writes the header, syncs it, and
// makes the segment the current one. The header is durable before the first commit is written:
// a segment with neither header nor whole frame would be read as someone else's,
// record by record, and half a commit would count.
//
// A file without a whole header, left by a full disk, stays open in spare for the next
// try, so that no number ever gets two files or two headers.
func (l *Log) createSegment(n int, nextSeq uint64) error {
	g := &l.lead
	h := header{segment: uint64(n), nextSeq: nextSeq, nextRef: l.opts.NextRef(), synced: l.synced.Load()}
	buf := appendRecord(nil, 0, CompressionNone, appendHeader(nil, h))
	if err := l.createSpare(n, buf); err != nil {
		return err
	}
	// The name first, while the file is empty: if the directory cannot be opened nothing has
	// happened, and the next commit that still finds room in the old segment may go there.
	if err := l.syncDir(l.opts.Dir); err != nil {
		return err
	}
	if wrote, err := g.spare.Write(buf); err != nil || wrote < len(buf) {
		if err == nil {
			err = io.ErrShortWrite
		}
		return errors.WithMessagef(err, "write header of log segment %s", segmentName(n))
	}
	if err := g.spare.Sync(); err != nil {
		return l.poison(errors.WithMessagef(err, "sync log segment %s", segmentName(n)))
	}
	g.off, g.first, g.behind = int64(len(buf)), int64(len(buf)), fileutil.WriteBehind{}
	g.header, g.lastFrame = h, 0
	g.told, g.short = h.synced, 0
	g.expiry = l.expiries.begin(n, nextSeq)
	l.syncMu.Lock()
	if l.file != nil && l.opts.Sync.mode == ModeNever {
		l.older = append(l.older, l.file)
	}
	l.file, g.spare = g.spare, nil
	l.segment.Store(int64(n))
	l.newest.Store(&begun{segment: n, firstSeq: nextSeq})
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
		return fileutil.JoinErrors(err, cut)
	}
	return nil
}

// createSpare makes the file of segment n, or empties the one that an earlier try left.
// It will begin with header.
func (l *Log) createSpare(n int, header []byte) error {
	if l.lead.spare != nil {
		return errors.WithMessagef(l.lead.spare.Truncate(0), "empty log segment %s", segmentName(n))
	}
	path := filepath.Join(l.opts.Dir, segmentName(n))
	f, err := l.opts.FS.Create(path)
	if errors.Is(err, fs.ErrExist) && l.file == nil {
		f, err = l.takeLeftover(path, header, err)
	}
	if err != nil {
		return errors.WithMessagef(err, "create log segment %s", segmentName(n))
	}
	l.lead.spare = f
	return nil
}

// takeLeftover opens and empties the file of a first segment that an earlier Open could
// neither finish nor remove: it holds a part of this header. Any other is not touched, and
// the error is exists.
func (l *Log) takeLeftover(path string, header []byte, exists error) (fileutil.File, error) {
	f, err := l.opts.FS.OpenWrite(path)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	left := make([]byte, max(0, min(size, int64(len(header)))))
	if err == nil && len(left) > 0 {
		_, err = f.ReadAt(left, 0)
	}
	if err == nil && (size >= int64(len(header)) || !bytes.HasPrefix(header, left)) {
		err = exists
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		return nil, fileutil.JoinErrors(err, f.Close())
	}
	return f, nil
}

// abandonSpare removes a segment that Open could not finish.
func (l *Log) abandonSpare() error {
	f := l.lead.spare
	if f == nil {
		return nil
	}
	l.lead.spare = nil
	err := f.Close()
	return fileutil.JoinErrors(err, l.opts.FS.Remove(filepath.Join(l.opts.Dir, filepath.Base(f.Name()))))
}
