package wal

import (
	"io"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// readBufferSize in bytes is what a scanner reads at a time: whole pages, enough that
// a slow disk streams, small enough to stay in the cache between reading and summing.
const readBufferSize = 256 << 10

// scanner walks the fragments of one segment, checks each one's CRC and puts records
// together. It goes on after damage. A segment is read as if it were extended with
// zeros to the end of its last page.
type scanner struct {
	src  io.ReaderAt
	size int64
	off  int64  // of the fragment to look at next
	buf  []byte // bytes of the segment from base on, whole pages or up to the end
	base int64
	tail []byte // a last fragment extended with zeros
	err  error  // of src; the scan ends there
}

// itemKind is what a scanner found.
type itemKind uint8

const (
	itemRecord itemKind = iota
	itemDamage          // bytes that are no part of a whole record
	itemEnd             // of the segment
)

// item is one find: where it begins and ends in the segment.
type item struct {
	kind     itemKind
	off, end int64
	comp     Compression // of a record
	reason   string      // of damage
}

// fragment is what stands at one place of a segment.
type fragment struct {
	state fragmentState
	fragmentHeader
	data   []byte // valid until the scanner moves on
	next   int64  // where the following one stands
	reason string // of damage
}

type fragmentState uint8

const (
	fragmentGood fragmentState = iota
	fragmentBad
	fragmentPad // zeros up to the end of the page
	fragmentEnd // of the segment
)

// reset makes the scanner read another segment; it keeps its buffers.
//
//go:noinline
func (s *scanner) reset(src io.ReaderAt, size int64) {
	*s = scanner{src: src, size: size, buf: s.buf[:0], tail: s.tail}
}

// next appends the stored form of the next record to dst. Damage appends nothing; its
// item covers all that is lost, and the scanner goes on behind it.
func (s *scanner) next(dst []byte) ([]byte, item) {
	empty := len(dst)
	open := int64(-1) // where the record began that is not complete yet
	for {
		f := s.peek()
		switch {
		case f.state == fragmentEnd && open < 0:
			return dst, item{kind: itemEnd, off: s.off, end: s.off}
		case f.state == fragmentBad:
			return dst[:empty], s.damage(open, f.reason)
		case f.state == fragmentPad && open < 0:
			s.off = f.next
			continue
		case f.state != fragmentGood:
			return dst[:empty], s.torn(open, "record ends without its last fragment")
		case open >= 0 && (f.typ == fragmentFull || f.typ == fragmentFirst):
			return dst[:empty], s.torn(open, "record begins inside another one")
		case open < 0 && (f.typ == fragmentMiddle || f.typ == fragmentLast):
			return dst[:empty], s.damage(open, "fragment without the first one of its record")
		}
		if open < 0 {
			open = s.off
		}
		s.off = f.next
		dst = append(dst, f.data...)
		if f.typ == fragmentFull || f.typ == fragmentLast {
			return dst, item{kind: itemRecord, off: open, end: min(s.off, s.size), comp: f.comp}
		}
	}
}

// torn is a record that began at open and stops before s.off, where something else
// stands that may be good.
func (s *scanner) torn(open int64, reason string) item {
	return item{kind: itemDamage, off: open, end: s.off, reason: reason}
}

// damage is a bad fragment at s.off, perhaps of a record that began at open. What
// follows of the same record goes with it.
func (s *scanner) damage(open int64, reason string) item {
	it := item{kind: itemDamage, off: s.off, reason: reason}
	if open >= 0 {
		it.off = open
	}
	s.off = s.resume()
	for f := s.peek(); f.state == fragmentGood && (f.typ == fragmentMiddle || f.typ == fragmentLast); f = s.peek() {
		s.off = f.next
	}
	it.end = min(s.off, s.size)
	return it
}

// resume returns where to go on after the bad fragment at s.off: behind it if its
// length can be trusted, at the next page otherwise. Looking for something good byte
// by byte would find what a label value pretends to be.
func (s *scanner) resume() int64 {
	page := s.page()
	left := pageLeft(s.off)
	pageEnd := s.off + int64(left)
	if len(page) < fragmentHeaderSize {
		return pageEnd
	}
	h := parseFragmentHeader(page)
	if n, ok := unflippedLength(h, page); ok {
		return s.off + int64(n)
	}
	next := fragmentHeaderSize + h.size
	if next < len(page) && s.parse(page[next:], left-next).state != fragmentBad {
		return s.off + int64(next)
	}
	return pageEnd
}

// unflippedLength returns the size of a fragment, header included, one bit of whose
// length is wrong: with it right, the checksum matches.
func unflippedLength(h fragmentHeader, page []byte) (int, bool) {
	for bit := 1; bit < 1<<16; bit <<= 1 {
		end := fragmentHeaderSize + (h.size ^ bit)
		if end <= len(page) && encbuf.Checksum(page[fragmentHeaderSize:end]) == h.crc {
			return end, true
		}
	}
	return 0, false
}

// peek looks at the fragment at s.off without moving on.
func (s *scanner) peek() fragment {
	page := s.page()
	if len(page) == 0 {
		return fragment{state: fragmentEnd, next: s.off}
	}
	f := s.parse(page, pageLeft(s.off))
	f.next += s.off
	return f
}

// parse looks at the fragment at the start of page, which has left bytes to go to its
// end but may be cut short by the end of the segment. next counts from there.
func (s *scanner) parse(page []byte, left int) fragment {
	if page[0] == 0 {
		if !encbuf.AllZero(page) {
			return bad("padding is not zero")
		}
		return fragment{state: fragmentPad, next: int64(left)}
	}
	if left < fragmentHeaderSize {
		return bad("padding is not zero")
	}
	if len(page) < fragmentHeaderSize {
		return bad("segment ends inside a fragment header")
	}
	h := parseFragmentHeader(page)
	if h.typ == fragmentPadding || h.typ > fragmentLast {
		return bad("fragment has no valid type")
	}
	if h.size > left-fragmentHeaderSize {
		return bad("fragment is longer than its page")
	}
	end := fragmentHeaderSize + h.size
	if end > len(page) {
		page = s.extend(page, end)
	}
	data := page[fragmentHeaderSize:end]
	if encbuf.Checksum(data) != h.crc {
		return bad("fragment does not match its checksum")
	}
	return fragment{state: fragmentGood, fragmentHeader: h, data: data, next: int64(end)}
}

func bad(reason string) fragment { return fragment{state: fragmentBad, reason: reason} }

// extend returns page with zeros behind it, n bytes in all.
func (s *scanner) extend(page []byte, n int) []byte {
	s.tail = append(s.tail[:0], page...)
	return append(s.tail, make([]byte, n-len(page))...)
}

// page returns the bytes from s.off to the end of its page, fewer at the end of the
// segment, none behind it.
func (s *scanner) page() []byte {
	if s.off >= s.size || s.err != nil {
		return nil
	}
	if s.off < s.base || s.off >= s.base+int64(len(s.buf)) {
		if !s.load(s.off - s.off%PageSize) {
			return nil
		}
	}
	from := s.off - s.base
	to := min(from+int64(pageLeft(s.off)), int64(len(s.buf)))
	return s.buf[from:to]
}

// load fills the buffer from base, a page boundary, on.
func (s *scanner) load(base int64) bool {
	n := int(min(readBufferSize, s.size-base))
	if cap(s.buf) == 0 {
		n = min(n, PageSize) // who only wants to know how a segment begins needs no more
	}
	if cap(s.buf) < n {
		s.buf = make([]byte, n)
	}
	got, err := s.src.ReadAt(s.buf[:n], base)
	s.base, s.buf = base, s.buf[:got]
	if got < n && errors.Is(err, io.EOF) { // the file has become shorter
		s.size = base + int64(got)
		err = nil
	}
	if got < n && err != nil {
		s.err = err
	}
	return s.err == nil && s.off < s.size
}
