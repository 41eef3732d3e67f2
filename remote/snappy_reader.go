package remote

import (
	"encoding/binary"
	"io"

	"github.com/pkg/errors"
)

const (
	// snappyPiece is the size of the pieces that nearly all encoders cut their input
	// into. Each is compressed by itself: no copy reaches over its border.
	snappyPiece = 64 << 10
	// snappyProof is how many borders have to lie where pieces have them before the
	// rest is believed to be made like that. An encoder without pieces has about one
	// chance in ten to hit each of them.
	snappyProof = 16
	// snappyInput is the buffer between the connection and the decoder.
	snappyInput = 32 << 10
	// snappyStep is how much is decoded at a time at least.
	snappyStep = 32 << 10
	// maxSnappyTag is the longest element without the bytes of a literal.
	maxSnappyTag = 5
)

// Kinds of snappy elements, the low two bits of a tag.
const (
	snappyLiteral = 0
	snappyCopy1   = 1 // 11 bits of offset
	snappyCopy2   = 2 // 16 bits
	snappyCopy4   = 3 // 32 bits
)

// snappyReader decodes one snappy block of any length from a stream:
//
//	+-----------------------+---------+---------+----
//	| uvarint decoded bytes | element | element | ...
//	+-----------------------+---------+---------+----
//
// An element is a literal or a copy of what was decoded before. A block that is made
// of pieces of 64 KiB needs nothing older than its piece, so a window is kept. Whether
// it is made so is seen by the borders of its elements, within the first MiB, which is
// kept whole. Any other block is kept whole up to a limit.
type snappyReader struct {
	r   io.Reader
	in  []byte // compressed, not yet decoded
	buf [snappyInput]byte
	eof bool
	off int64 // of in[0] in the body

	total   int64 // decoded bytes that the block says it has
	limit   int64 // decoded bytes that may be kept
	out     []byte
	base    int64 // place of out[0] in the block
	read    int   // out[:read] was given out
	borders int   // that lay where pieces have them
	whole   bool  // the block is not made of pieces

	run  int64 // bytes left of the element under way
	back int64 // how far back it copies from; 0 for a literal
}

// newSnappyReader reads how long a block is. A block that needs more memory than limit
// is errLimit.
func newSnappyReader(r io.Reader, limit int64) (*snappyReader, error) {
	s := &snappyReader{r: r, limit: limit}
	if err := s.more(binary.MaxVarintLen64); err != nil {
		return nil, err
	}
	total, n := binary.Uvarint(s.in)
	switch {
	case n == 0:
		return nil, s.wrong("cut off")
	case n < 0 || total > 1<<32-1:
		return nil, s.wrong("its length is no varint of 32 bits")
	}
	s.total = int64(total)
	s.take(n)
	return s, nil
}

// pos is the place of the next byte that is given out.
func (s *snappyReader) pos() int64 { return s.base + int64(s.read) }

// need returns the bytes that come next, at least n unless the block ends before. It
// takes none of them. They are valid until the next call.
func (s *snappyReader) need(n int) ([]byte, error) {
	for len(s.out)-s.read < n && s.base+int64(len(s.out)) < s.total {
		if err := s.decode(n); err != nil {
			return nil, err
		}
	}
	return s.out[s.read:], nil
}

// skip takes n bytes that need returned.
func (s *snappyReader) skip(n int) { s.read += n }

// end requires that the body ends with the block.
func (s *snappyReader) end() error {
	if s.pos() < s.total {
		return s.wrong("it is longer than its message")
	}
	if err := s.more(1); err != nil {
		return err
	}
	if len(s.in) > 0 {
		return s.wrong("something follows it")
	}
	return nil
}

// decode appends to out what makes n bytes to give out, or more.
func (s *snappyReader) decode(n int) error {
	s.forget()
	n = max(n-(len(s.out)-s.read), snappyStep)
	for goal := len(s.out) + n; len(s.out) < goal; {
		have := s.base + int64(len(s.out))
		if s.run == 0 {
			if have == s.total {
				return nil
			}
			if err := s.element(have); err != nil {
				return err
			}
		}
		if s.back > 0 {
			s.copy(goal)
		} else if err := s.literal(goal); err != nil {
			return err
		}
	}
	return nil
}

// forget drops what no copy can need: all that is older than a piece, once pieces are
// proven.
func (s *snappyReader) forget() {
	if s.whole || s.borders < snappyProof {
		return
	}
	if cap(s.out) > 8*snappyPiece { // what the proof took
		s.out = append(make([]byte, 0, 4*snappyPiece), s.keep()...)
	} else if len(s.out) >= 3*snappyPiece {
		s.out = s.out[:copy(s.out, s.keep())]
	}
}

// keep moves base to the oldest byte that is still needed and returns what is there
// from it on.
func (s *snappyReader) keep() []byte {
	drop := max(min(s.read, len(s.out)-snappyPiece), 0)
	s.base += int64(drop)
	s.read -= drop
	return s.out[drop:]
}

// element reads the next tag. It begins at place have of the block.
func (s *snappyReader) element(have int64) error {
	if len(s.in) < maxSnappyTag {
		if err := s.more(maxSnappyTag); err != nil {
			return err
		}
	}
	if len(s.in) == 0 {
		return s.wrong("cut off")
	}
	tag := s.in[0]
	size, length, back := 1, int64(tag>>2)+1, int64(0)
	switch tag & 3 {
	case snappyLiteral:
		if extra := int(tag>>2) - 59; extra > 0 { // 60 to 63: the length follows
			size += extra
			length = int64(s.number(1, extra)) + 1
		}
	case snappyCopy1:
		size, length = 2, 4+int64(tag>>2&7)
		back = int64(tag>>5)<<8 | int64(s.number(1, 1))
	case snappyCopy2:
		size, back = 3, int64(s.number(1, 2))
	case snappyCopy4:
		size, back = 5, int64(s.number(1, 4))
	}
	if len(s.in) < size {
		return s.wrong("cut off")
	}
	if length > s.total-have {
		return s.wrong("an element reaches over its end")
	}
	if tag&3 != snappyLiteral && (back == 0 || back > have) {
		return s.wrong("a copy reaches back before its start")
	}
	if back > int64(len(s.out)) {
		return errors.WithMessagef(errLimit, "snappy block, at offset %d: a copy reaches back %d bytes", s.off, back)
	}
	s.border(have, length, back)
	if err := s.check(); err != nil {
		return err
	}
	s.run, s.back = length, back
	s.take(size)
	return nil
}

// number is a little-endian number in the bytes at i; what is missing counts as 0.
func (s *snappyReader) number(i, n int) (v uint32) {
	for k := range n {
		if i+k < len(s.in) {
			v |= uint32(s.in[i+k]) << (8 * k)
		}
	}
	return v
}

// border looks whether an element lies within one piece. One that begins a piece is a
// literal.
func (s *snappyReader) border(have, length, back int64) {
	if s.whole || s.borders >= snappyProof {
		return
	}
	at := have % snappyPiece
	switch {
	case at+length > snappyPiece, back > at:
		s.whole = true
	case at == 0 && have > 0:
		s.borders++
	}
}

// check refuses to keep more than the limit.
func (s *snappyReader) check() error {
	if s.whole && s.total > s.limit {
		return errors.WithMessagef(errLimit,
			"snappy block of %d bytes, and its compression wants all of them kept; the limit is %d", s.total, s.limit)
	}
	return nil
}

// literal appends bytes of the literal under way.
func (s *snappyReader) literal(goal int) error {
	for s.run > 0 && len(s.out) < goal {
		if len(s.in) == 0 {
			if err := s.more(1); err != nil {
				return err
			}
			if len(s.in) == 0 {
				return s.wrong("cut off")
			}
		}
		n := int(min(s.run, int64(len(s.in)), int64(goal-len(s.out))))
		s.out = append(s.out, s.in[:n]...)
		s.take(n)
		s.run -= int64(n)
	}
	return nil
}

// copy appends bytes of the copy under way, which may overlap what it makes.
func (s *snappyReader) copy(goal int) {
	for s.run > 0 && len(s.out) < goal {
		from := len(s.out) - int(s.back)
		n := int(min(s.run, s.back, int64(goal-len(s.out))))
		s.out = append(s.out, s.out[from:from+n]...)
		s.run -= int64(n)
	}
}

// wrong is a fault at the present place of the body.
func (s *snappyReader) wrong(what string) error {
	return errors.WithMessagef(errMalformed, "snappy block, at offset %d: %s", s.off, what)
}

// take drops n bytes of the input.
func (s *snappyReader) take(n int) {
	s.in = s.in[n:]
	s.off += int64(n)
}

// more reads until there are n bytes of input, or the body ends.
func (s *snappyReader) more(n int) error {
	if len(s.in) >= n || s.eof {
		return nil
	}
	have := copy(s.buf[:], s.in)
	s.in = s.buf[:have]
	for len(s.in) < n && !s.eof {
		k, err := s.r.Read(s.buf[len(s.in):])
		s.in = s.buf[:len(s.in)+k]
		if err == io.EOF {
			s.eof = true
		} else if err != nil {
			return cutOff(err, s.off+int64(len(s.in)))
		}
	}
	return nil
}
