package wal

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// logWriter puts commits into the current segment of a Log, and begins the next one. The
// leader has it, or Open and Close when nobody leads.
type logWriter struct {
	opts     *Options
	open     *openSegments
	expiries *expiries

	cur   growingSegment
	spare fileutil.File // the next segment, created but without a whole header
	buf   []byte        // what the next write carries
	frame []byte
	ends  []int64 // where the commits in buf end in the segment
}

// growingSegment is the end of the current segment.
type growingSegment struct {
	off    int64                // end of the last whole commit, bytes
	first  int64                // end of its header
	behind fileutil.WriteBehind // of the file
	torn   bool                 // the file may be longer than off: cut it before the next write

	header    header
	lastFrame uint32 // checksum of its last frame, 0 if it has none
	told      uint64 // the watermark as its header or its last full frame says it
	short     int    // frames since then that do not
	expiry    *segmentExpiry
}

// end returns where buf ends in the segment.
func (w *logWriter) end() int64 { return w.cur.off + int64(len(w.buf)) }

// mustRotate says that c does not fit into the rest of the segment. A segment takes at
// least one commit, however large.
func (w *logWriter) mustRotate(c *Commit) bool {
	off := w.end()
	return off > w.cur.first && c.end(off, maxFrameSize) > w.opts.SegmentSize
}

// append appends a commit's records and frame to buf. One that rotates has none.
func (w *logWriter) append(c *Commit) {
	if c.rotate {
		w.ends = append(w.ends, w.end())
		return
	}
	w.buf = slices.Grow(w.buf, c.room()) // a huge one is not copied as it grows
	for i := range c.stored[:c.n] {
		s := &c.stored[i]
		w.buf = appendRecord(w.buf, w.end(), s.kind, s.data)
	}
	w.frame = w.cur.appendFrame(w.frame[:0], c, w.open.synced.Load())
	c.frameSum = binary.BigEndian.Uint32(w.frame[len(w.frame)-crcSize:])
	w.buf = appendRecord(w.buf, w.end(), CompressionNone, w.frame)
	w.cur.expiry.note(c)
	w.ends = append(w.ends, w.end())
}

// maxShort is how many short frames may follow each other: what says where the watermark is must
// not be in one place only, where damage takes it away.
const maxShort = 63

// appendFrame appends the frame of a commit. That of a single record is short if nothing but
// its number is new, which saves four bytes of 53.
func (g *growingSegment) appendFrame(dst []byte, c *Commit, synced uint64) []byte {
	if c.n == 1 && synced == g.told && g.short < maxShort {
		g.short++
		return appendShortFrame(dst, c.seq, c.sum)
	}
	g.told, g.short = synced, 0
	return appendFrame(dst, frame{seq: c.seq, records: uint64(c.n), lag: c.seq - synced}, c.sum)
}

// flush writes buf, which holds the commits given, and returns how many of them are whole
// in the log. After a failed or short write those that went out whole stand, and the file is
// cut behind them.
func (w *logWriter) flush(commits []*Commit) (stood int, err error) {
	if len(w.buf) == 0 {
		w.ends = w.ends[:0]
		return len(commits), nil
	}
	n, err := w.open.file.Write(w.buf)
	if err == nil && n < len(w.buf) {
		err = io.ErrShortWrite
	}
	w.open.stats.writes.Add(1)
	wrote := w.cur.off + int64(max(n, 0))
	for _, end := range w.ends {
		if end > wrote {
			break
		}
		w.open.stats.bytes.Add(uint64(end - w.cur.off))
		w.cur.off = end
		if c := commits[stood]; !c.rotate {
			w.cur.lastFrame = c.frameSum
		}
		stood++
	}
	if stood > 0 {
		w.open.written.Store(max(w.open.written.Load(), commits[stood-1].seq))
	}
	wanted := len(w.buf)
	w.buf, w.ends = trimBuffer(w.buf), w.ends[:0]
	if err == nil {
		w.startWriteback()
		return stood, nil
	}
	w.cur.torn, w.cur.short = true, maxShort // a full frame may be among what is cut
	what := "write log segment " + segmentName(w.open.number())
	if fileutil.IsDiskFull(err) {
		what += ": " + fileutil.Room(w.opts.FS, w.opts.Dir, int64(wanted))
	}
	err = errors.WithMessage(err, what)
	return stood, fileutil.JoinErrors(err, w.cut())
}

// trimBuffer empties a buffer and drops one that a huge commit made.
func trimBuffer(b []byte) []byte {
	if cap(b) > 4*maxGroupBytes {
		return nil
	}
	return b[:0]
}

// cut cuts what a failed write left behind the last whole commit, if anything.
// The leader calls it, or Close when there is none any more.
func (w *logWriter) cut() error {
	if !w.cur.torn {
		return nil
	}
	if err := w.open.file.Truncate(w.cur.off); err != nil {
		return errors.WithMessagef(err, "cut log segment %s", segmentName(w.open.number()))
	}
	w.cur.torn = false
	return nil
}

// writebackBytes is how much of a segment is written before the system is asked to take
// it to the disk. The sync of a full segment, which a commit waits for, then has that much
// to do: a fourth of the time for 128 MiB (BenchmarkRotate).
const writebackBytes = 4 << 20

// startWriteback is called by the leader behind a write. Under SyncCommit there is nothing
// to begin, and under SyncNever nobody waits.
func (w *logWriter) startWriteback() {
	if mode := w.opts.Sync.mode; mode != ModeCommit && mode != ModeNever {
		w.cur.behind.Grown(w.open.file, w.cur.off, writebackBytes)
	}
}
