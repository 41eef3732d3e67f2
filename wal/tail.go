package wal

import (
	"io/fs"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Place is where a commit ends in a log: its frame. The checksum of the frame tells the commit from
// another one of the same number, which a log may have that was cut by a crash.
//
// Without offset and checksum it is the begin of a segment, behind a commit of an earlier one.
type Place struct {
	Segment int    // number of the segment
	Offset  int64  // of the frame in it, in bytes
	Seq     uint64 // sequence number of the commit
	Sum     uint32 // of its records and its frame
}

// Tail reads the commits of a log in their order, while it is written. It belongs to one goroutine;
// the log does not wait for it, and removes segments that it has not read.
type Tail struct {
	log     *Log
	file    fileutil.File // segment under way; nil: none is
	segment int
	scan    scanner
	inflate decompressor
	from    int64 // in the segment, behind the last commit that was read
	place   Place // of that
	commit  tailCommit
}

// tailCommit is what was read of the next commit.
type tailCommit struct {
	bodies  []byte // of its records, one behind the other
	ends    []int  // where each ends there
	sum     uint32
	stored  []byte // of the record under way
	records [][]byte
}

func (c *tailCommit) reset() { c.bodies, c.ends, c.sum = c.bodies[:0], c.ends[:0], 0 }

// all returns the records, which are good until the next reset.
func (c *tailCommit) all() [][]byte {
	c.records = c.records[:0]
	begin := 0
	for _, end := range c.ends {
		c.records = append(c.records, c.bodies[begin:end:end])
		begin = end
	}
	return c.records
}

// NewTail returns a Tail of the commits of a log behind one, which must be written. Close it.
// ErrGone: the log does not begin so early.
func NewTail(l *Log, behind uint64) (*Tail, error) {
	t := &Tail{log: l}
	if err := t.Behind(behind); err != nil {
		return nil, fileutil.JoinErrors(err, t.Close())
	}
	return t, nil
}

// Behind makes the Tail go on behind a commit. What is before it need not be whole.
func (t *Tail) Behind(seq uint64) error {
	l, err := list(t.log.opts.FS, t.log.opts.Dir)
	if err != nil {
		return err
	}
	for i := len(l.Segments) - 1; i >= 0; i-- {
		err := t.open(l.Segments[i].Number)
		if err != nil {
			return err
		}
		h, ok := t.header()
		if !ok {
			break // somebody else wrote it, and nobody knows which commits it has
		}
		if h.nextSeq <= seq+1 {
			t.seek(0, Place{Segment: t.segment, Seq: h.nextSeq - 1})
			return t.skip(seq)
		}
	}
	return gone("commit %d", seq+1)
}

// Resume makes the Tail go on behind the commit of a Place that one of this log, or of one that was
// open before, has returned.
func (t *Tail) Resume(p Place) error {
	if err := t.open(p.Segment); err != nil {
		return err
	}
	if p.Offset == 0 && p.Sum == 0 {
		h, ok := t.header()
		if !ok || h.nextSeq != p.Seq+1 {
			return gone("commit %d", p.Seq)
		}
		t.seek(0, p)
		return nil
	}
	if t.seek(p.Offset, Place{}); p.Offset > 0 && t.isFrame(p) {
		return nil
	}
	t.seek(0, Place{})
	for !t.isFrame(p) {
		if t.scan.err != nil || t.scan.peek().state == fragmentEnd {
			return gone("commit %d", p.Seq)
		}
	}
	return nil
}

// isFrame reads a record, and reports whether it is the frame of a place. Then the Tail is behind
// it.
func (t *Tail) isFrame(p Place) bool {
	stored, it := t.scan.next(t.commit.stored[:0])
	t.commit.stored = stored
	if it.kind != itemRecord || len(stored) == 0 || !isFrame(stored) {
		return false
	}
	f, ok := parseFrame(stored)
	if !ok || f.seq != p.Seq || f.crc != p.Sum {
		return false
	}
	p.Offset = it.off
	t.from, t.place = it.end, p
	return true
}

// skip goes behind the frame of a commit, in the open segment or behind it.
func (t *Tail) skip(seq uint64) error {
	for t.place.Seq < seq {
		stored, it := t.scan.next(t.commit.stored[:0])
		t.commit.stored = stored
		switch {
		case t.scan.err != nil:
			return errors.WithMessagef(t.scan.err, "read log segment %s", segmentName(t.segment))
		case it.kind == itemEnd:
			return gone("commit %d", seq)
		case it.kind != itemRecord || len(stored) == 0 || it.comp != CompressionNone || !isFrame(stored):
			continue
		}
		if f, ok := parseFrame(stored); ok && f.seq > t.place.Seq && f.seq <= seq {
			t.from, t.place = it.end, Place{Segment: t.segment, Offset: it.off, Seq: f.seq, Sum: f.crc}
		}
	}
	return nil
}

// Place returns where the last commit stands that was read.
func (t *Tail) Place() Place { return t.place }

// Next returns the records of the next commit, if its number is not above upTo, which must be
// written; ok is false if it is. They are good until the next call. After ErrGone the Tail must be
// sent elsewhere; after another error the call may be repeated.
func (t *Tail) Next(upTo uint64) (records [][]byte, ok bool, err error) {
	if t.place.Seq >= upTo {
		return nil, false, nil
	}
	t.commit.reset()
	if t.scan.err != nil {
		if err := t.refresh(); err != nil {
			return nil, false, err
		}
	}
	for fresh := false; ; {
		whole, more := t.read()
		if whole {
			return t.commit.all(), true, nil
		}
		switch {
		case more:
		case t.scan.err != nil:
			return nil, false, errors.WithMessagef(t.scan.err, "read log segment %s", segmentName(t.segment))
		case !fresh: // the file is longer by now
			if err := t.refresh(); err != nil {
				return nil, false, err
			}
			fresh = true
		case t.scan.peek().state == fragmentEnd && len(t.commit.ends) == 0 && t.log.Segment() > t.segment:
			if err := t.open(t.segment + 1); err != nil {
				return nil, false, err
			}
		default:
			return nil, false, gone("commit %d", t.place.Seq+1)
		}
	}
}

// read reads a record. whole: it was the frame of the next commit. more: there may be others.
func (t *Tail) read() (whole, more bool) {
	c := &t.commit
	var it item
	c.stored, it = t.scan.next(c.stored[:0])
	if it.kind != itemRecord {
		return false, false
	}
	if it.comp == CompressionNone && len(c.stored) > 0 && isPrivateType(c.stored[0]) {
		if !isFrame(c.stored) {
			c.reset()
			t.from = it.end
			return false, true
		}
		f, ok := parseFrame(c.stored)
		if !ok || f.seq != t.place.Seq+1 || f.records != uint64(len(c.ends)) || !t.matches(f) {
			return false, false
		}
		t.place = Place{Segment: t.segment, Offset: it.off, Seq: f.seq, Sum: f.crc}
		t.from = it.end
		return true, false
	}
	begin := len(c.bodies)
	t.inflate.begin()
	bodies, err := t.inflate.appendDecoded(c.bodies, it.comp, c.stored)
	if err != nil {
		return false, false
	}
	c.bodies, c.ends = bodies, append(c.ends, len(bodies))
	c.sum = commitSum(c.sum, bodies[begin:])
	return false, true
}

// matches reports whether the checksum of the frame that was read last is that of its commit.
func (t *Tail) matches(f frame) bool {
	c := &t.commit
	return encbuf.UpdateChecksum(c.sum, c.stored[:len(c.stored)-crcSize]) == f.crc
}

// refresh looks how long the segment is now, and reads the commit under way again.
func (t *Tail) refresh() error {
	size, err := t.file.Size()
	if err != nil {
		return errors.WithMessagef(err, "read log segment %s", segmentName(t.segment))
	}
	t.commit.reset()
	t.scan.reset(t.file, size)
	t.scan.off = t.from
	return nil
}

// seek makes the Tail read the open segment from an offset on.
func (t *Tail) seek(off int64, p Place) {
	t.commit.reset()
	t.scan.reset(t.file, t.scan.size)
	t.scan.off, t.from, t.place = off, off, p
}

// header reads the header of the open segment.
func (t *Tail) header() (header, bool) {
	t.seek(0, Place{})
	stored, it := t.scan.next(t.commit.stored[:0])
	t.commit.stored = stored
	if it.kind != itemRecord || len(stored) == 0 || stored[0] != typeHeader {
		return header{}, false
	}
	h, newer, ok := parseHeader(stored)
	return h, ok && !newer
}

// open opens a segment in place of the one under way.
func (t *Tail) open(segment int) error {
	path := filepath.Join(t.log.opts.Dir, segmentName(segment))
	f, err := t.log.opts.FS.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return gone("segment %s", segmentName(segment))
	}
	if err != nil {
		return errors.WithMessage(err, "open log segment")
	}
	size, err := f.Size()
	if err != nil {
		return errors.WithMessage(fileutil.JoinErrors(err, f.Close()), "open log segment")
	}
	err = t.Close()
	t.file, t.segment, t.from = f, segment, 0
	t.commit.reset()
	t.scan.reset(f, size)
	return err
}

// Close closes the segment under way. The Tail may be used again.
func (t *Tail) Close() error {
	if t.file == nil {
		return nil
	}
	f := t.file
	t.file = nil
	return errors.WithMessage(f.Close(), "close log segment")
}

func gone(format string, args ...any) error { return errors.WithMessagef(ErrGone, format, args...) }
