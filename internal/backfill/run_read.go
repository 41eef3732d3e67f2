package backfill

import (
	"io"
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

const (
	// readBuffer is how much is read at a time, in bytes: merging some hundred runs
	// takes two of these each.
	readBuffer = 64 << 10
	// maxChunkSize and maxEntrySize bound what a damaged length can ask for, in bytes. A
	// chunk of floats is little over 1 KiB, and one of histograms may be as long as an entry, which
	// has the names of a series and 20 bytes for each chunk of a window.
	maxChunkSize = 1 << 16
	maxEntrySize = 1 << 30
)

// stream reads an extent of a file from its beginning. The file is open only while a buffer is
// filled: a merge of some hundred runs would hold as many descriptors otherwise, and opening takes
// a thousandth of the time in which what was read is merged.
type stream struct {
	fsys      fileutil.FS
	name      string
	off, end  int64  // of what is not in buf
	buf       []byte // read from here
	at        int
	crc       uint32
	checksums bool // crc is kept up
}

func newStream(fsys fileutil.FS, name string, e extent) *stream {
	return &stream{fsys: fsys, name: name, off: e.off, end: e.end}
}

// left is how many bytes of the extent were not taken.
func (s *stream) left() int64 { return s.end - s.off + int64(len(s.buf)-s.at) }

// fill makes at least n bytes lie in the buffer, or as many as are left.
func (s *stream) fill(n int) error {
	have := len(s.buf) - s.at
	if have >= n || s.off == s.end {
		return nil
	}
	size := max(n, readBuffer)
	if cap(s.buf) < size {
		grown := make([]byte, have, size)
		copy(grown, s.buf[s.at:])
		s.buf = grown
	} else {
		s.buf = s.buf[:copy(s.buf[:have], s.buf[s.at:])]
	}
	s.at = 0
	more := int(min(int64(size-have), s.end-s.off))
	got, err := s.readAt(s.buf[have:have+more], s.off)
	if got < more && errors.Is(err, io.EOF) {
		return s.damage("is shorter than it was")
	}
	if got < more {
		return err
	}
	s.buf = s.buf[:have+more]
	s.off += int64(more)
	return nil
}

func (s *stream) readAt(b []byte, off int64) (n int, err error) {
	f, err := s.fsys.Open(s.name)
	if err != nil {
		return 0, err
	}
	n, err = f.ReadAt(b, off)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return n, err
}

// next takes n bytes; they are valid until the next call.
func (s *stream) next(n int) ([]byte, error) {
	if int64(n) > s.left() {
		return nil, s.damage("ends too soon")
	}
	if err := s.fill(n); err != nil {
		return nil, err
	}
	b := s.buf[s.at : s.at+n]
	s.at += n
	if s.checksums {
		s.crc = encbuf.UpdateChecksum(s.crc, b)
	}
	return b, nil
}

// skip goes on without looking at n bytes.
func (s *stream) skip(n int64) {
	if have := int64(len(s.buf) - s.at); n <= have {
		s.at += int(n)
		return
	} else {
		n -= have
	}
	s.buf, s.at = s.buf[:0], 0
	s.off = min(s.off+n, s.end)
}

// uvarint takes a number of at most limit.
func (s *stream) uvarint(limit uint64) (uint64, error) {
	if err := s.fill(encbuf.MaxVarintLen64); err != nil {
		return 0, err
	}
	d := encbuf.NewDec(s.buf[s.at:])
	v := d.Uvarint()
	if d.Err() != nil || v > limit {
		return 0, s.damage("a number is not possible")
	}
	_, err := s.next(d.Offset())
	return v, err
}

func (s *stream) damage(reason string) error {
	return &encbuf.CorruptError{File: s.name, Offset: s.off - int64(len(s.buf)-s.at), Reason: "scratch file: " + reason}
}

// entry is a series of a section: its labels in the numbers of the merge, and its
// chunks.
type entry struct {
	names []uint32 // name and value of each label
	heads []chunkHead
}

// sectionReader goes through one section. Chunks are read only when they are asked for.
type sectionReader struct {
	run    int // number of the run
	series *stream
	chunks *stream // nil: nobody will ask
	crc    uint32
	global []uint32 // number of each symbol of the run in the merge
	entry  entry
	unread int64 // bytes of chunks of the entry that are not taken
}

func newSectionReader(fsys fileutil.FS, r *spilled, sec section, chunks bool) *sectionReader {
	s := &sectionReader{crc: sec.crc, series: newStream(fsys, r.series, sec.series)}
	s.series.checksums = true
	if chunks {
		s.chunks = newStream(fsys, r.chunks, sec.chunks)
	}
	return s
}

// next reads the next series; ok is false behind the last one.
func (s *sectionReader) next() (ok bool, err error) {
	if s.chunks != nil && s.unread > 0 {
		s.chunks.skip(s.unread)
		s.unread = 0
	}
	if s.series.left() == 0 {
		if s.series.crc != s.crc {
			return false, s.series.damage("checksum of the series does not match")
		}
		return false, nil
	}
	size, err := s.series.uvarint(maxEntrySize)
	if err != nil {
		return false, err
	}
	names, err := s.series.next(int(size))
	if err != nil {
		return false, err
	}
	if err := s.readNames(names); err != nil {
		return false, err
	}
	return true, s.readHeads()
}

func (s *sectionReader) readNames(b []byte) error {
	s.entry.names = s.entry.names[:0]
	for d := encbuf.NewDec(b); d.Len() > 0 || d.Err() != nil; {
		n := d.Uvarint()
		if d.Err() != nil || n >= uint64(len(s.global)) {
			return s.series.damage("a symbol is not there")
		}
		s.entry.names = append(s.entry.names, s.global[n])
	}
	if n := len(s.entry.names); n == 0 || n%2 != 0 {
		return s.series.damage("labels are not pairs")
	}
	return nil
}

func (s *sectionReader) readHeads() error {
	n, err := s.series.uvarint(maxEntrySize)
	if err != nil {
		return err
	}
	if n == 0 {
		return s.series.damage("a series has no chunks")
	}
	s.entry.heads = s.entry.heads[:0]
	prev := int64(0)
	for range n {
		h, err := s.readHead(prev)
		if err != nil {
			return err
		}
		prev = h.maxT
		s.unread += int64(h.size)
		s.entry.heads = append(s.entry.heads, h)
	}
	return nil
}

func (s *sectionReader) readHead(prev int64) (chunkHead, error) {
	if err := s.series.fill(5*encbuf.MaxVarintLen64 + 4); err != nil {
		return chunkHead{}, err
	}
	d := encbuf.NewDec(s.series.buf[s.series.at:])
	h := chunkHead{minT: prev + d.Varint()}
	h.maxT = h.minT + int64(d.Uvarint())
	num, size, enc := d.Uvarint(), d.Uvarint(), d.Uvarint()
	h.enc, h.crc = chunkenc.Encoding(min(enc, math.MaxUint8)), d.BE32()
	most, longest := uint64(chunkenc.TargetSamples), uint64(maxChunkSize)
	if h.enc.Kind() != chunkenc.ValFloat {
		most, longest = chunkenc.MaxSamples, maxEntrySize
	}
	if d.Err() != nil || num == 0 || num > most || size > longest || !h.enc.Known() || h.maxT < h.minT {
		return chunkHead{}, s.series.damage("head of a chunk is not possible")
	}
	h.num, h.size = int(num), int(size)
	_, err := s.series.next(d.Offset())
	return h, err
}

// chunk reads the next chunk of the entry; its bytes are valid until the next call.
func (s *sectionReader) chunk(h chunkHead) ([]byte, error) {
	b, err := s.chunks.next(h.size)
	if err != nil {
		return nil, err
	}
	s.unread -= int64(h.size)
	if encbuf.Checksum(b) != h.crc {
		return nil, s.chunks.damage("checksum of a chunk does not match")
	}
	return b, nil
}

// pass goes over the next chunk of the entry.
func (s *sectionReader) pass(h chunkHead) {
	s.chunks.skip(int64(h.size))
	s.unread -= int64(h.size)
}
