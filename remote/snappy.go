package remote

import (
	"encoding/binary"
	"slices"

	"github.com/golang/snappy"
	"github.com/pkg/errors"
)

// snappyRatio bounds what a byte of a snappy block can become: an element of three bytes
// copies at most 64.
const snappyRatio = 22

// decodeBlock decodes a snappy block whose content may have limit bytes. A length that
// the block cannot have is refused before anything is allocated for it.
func decodeBlock(block []byte, limit int) ([]byte, error) {
	if _, err := checkBlock(block, limit); err != nil {
		return nil, err
	}
	content, err := snappy.Decode(nil, block)
	if err != nil {
		return nil, errors.WithMessage(errMalformed, "snappy block")
	}
	return content, nil
}

// checkBlock returns how long the content of a block is, as far as that can be.
func checkBlock(block []byte, limit int) (int, error) {
	n, err := snappy.DecodedLen(block)
	switch {
	case err != nil:
		return 0, errors.WithMessage(errMalformed, "snappy block without a length")
	case n > limit:
		return 0, errors.WithMessagef(errLimit, "content of %d bytes, the limit is %d", n, limit)
	case n/snappyRatio > len(block):
		return 0, errors.WithMessagef(errMalformed, "snappy block of %d bytes that claims to hold %d", len(block), n)
	}
	return n, nil
}

// blockPiece is how far copies reach, at most: the block is made of pieces of this length,
// no element crosses their borders, and each begins with a literal. Whoever decodes it
// needs a window of this size.
const blockPiece = 64 << 10

// maxBlock is the longest content that a block has a length for.
const maxBlock = 1<<32 - 1

// blockEncoder writes content of known length as one snappy block:
//
//	literal: (length-1)<<2                length up to 60, the bytes follow
//	         60<<2, length-1              a byte more up to 256, two (61<<2) above
//	copy:    back>>8<<5|(length-4)<<2|1, back       length 4 to 11, back below 2 KiB
//	         (length-1)<<2|2, back as two bytes     length 1 to 64
//
// What it is told to copy is made of whole parts of messages, so elements are put together
// before they are written.
type blockEncoder struct {
	out  *pacedWriter
	pos  uint64 // content so far
	dst  []byte // elements that are not written yet
	back uint64 // of the copy under way,
	run  uint64 // and its length; 0: there is none
	lit  int    // place in dst of a short literal that can grow, behind which nothing is; -1: none

	heads  [2]packedLabels // of the series before and of the one under way
	before []packedSample  // of the series before,
	next   int             // of which those from here on are not older
	under  []packedSample  // of the series under way
	last   packedSample    // of the series under way; no size: there is none
	values [valueSlots]seenValue

	scratch [maxSampleBytes]byte
	room    []byte // for a piece that is packed
}

// newBlockEncoder starts a block: the length of the content stands at its front.
func newBlockEncoder(out *pacedWriter, size uint64) (*blockEncoder, error) {
	_, err := out.Write(binary.AppendUvarint(nil, size))
	return &blockEncoder{out: out, lit: -1}, err
}

// write adds a part of the content as it is.
func (e *blockEncoder) write(b []byte) error {
	e.literal(b)
	return e.drain()
}

// packed adds a part of the content of which nothing is known. What it has in common with itself is
// searched for.
func (e *blockEncoder) packed(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	e.endCopy()
	if e.room == nil {
		e.room = make([]byte, snappy.MaxEncodedLen(blockPiece))
	}
	for len(b) > 0 {
		n := min(len(b), int(blockPiece-e.pos%blockPiece))
		block := snappy.Encode(e.room, b[:n])
		_, head := binary.Uvarint(block)
		e.dst = append(e.dst, block[head:]...)
		e.pos += uint64(n)
		b = b[n:]
	}
	e.last, e.lit = packedSample{}, -1
	return e.drain()
}

// maxShort is the longest literal that is made of short ones.
const maxShort = 60

// literal adds bytes that nothing before is like.
func (e *blockEncoder) literal(b []byte) {
	for len(b) > 0 {
		n := min(len(b), int(blockPiece-e.pos%blockPiece))
		if n <= maxShort {
			e.short(b[:n])
		} else {
			e.long(b[:n])
		}
		b = b[n:]
	}
}

// long adds a literal of up to a piece.
func (e *blockEncoder) long(b []byte) {
	e.endCopy()
	n := len(b) - 1
	if n < 1<<8 {
		e.dst = append(e.dst, maxShort<<2, byte(n))
	} else {
		e.dst = append(e.dst, (maxShort+1)<<2, byte(n), byte(n>>8))
	}
	e.dst = append(e.dst, b...)
	e.lit = -1
	e.pos += uint64(len(b))
}

// short adds a literal of up to maxShort bytes that does not cross a border.
func (e *blockEncoder) short(b []byte) {
	e.endCopy()
	if n := len(b); e.lit >= 0 && int(e.dst[e.lit]>>2)+1+n <= maxShort && e.pos%blockPiece > 0 {
		e.dst[e.lit] += byte(n << 2)
	} else {
		e.lit = len(e.dst)
		e.dst = append(e.dst, byte((n-1)<<2))
	}
	e.dst = append(e.dst, b...)
	e.pos += uint64(len(b))
}

// copy adds n bytes that stand so far back, all of it in the same piece.
func (e *blockEncoder) copy(back, n uint64) {
	if e.back != back || e.run == 0 {
		e.endCopy()
		e.back = back
	}
	e.run += n
	e.pos += n
}

// maxCopy is the longest copy of one element.
const maxCopy = 64

// endCopy writes the copy under way.
func (e *blockEncoder) endCopy() {
	if e.run == 0 {
		return
	}
	n := len(e.dst)
	e.dst = slices.Grow(e.dst, copyBytes(e.run))
	e.dst = e.dst[:n+putCopy(e.dst[n:cap(e.dst)], e.back, e.run)]
	e.run, e.lit = 0, -1
}

// copyBytes is room for a copy of n bytes.
func copyBytes(n uint64) int { return int(n/maxCopy+1)*3 + 1 }

// putCopy writes a copy, nothing if it has no length, and returns how long it is. There is
// room for a byte more.
func putCopy(dst []byte, back, n uint64) (size int) {
	for ; n > maxCopy; n -= maxCopy {
		binary.LittleEndian.PutUint32(dst[size:], uint32((maxCopy-1)<<2|snappyCopy2|back<<8))
		size += 3
	}
	switch {
	case n == 0:
		return size
	case n >= 4 && n < 12 && back < 1<<11:
		binary.LittleEndian.PutUint16(dst[size:], uint16(back>>8<<5|(n-4)<<2|snappyCopy1|back&0xff<<8))
		return size + 2
	default:
		binary.LittleEndian.PutUint32(dst[size:], uint32((n-1)<<2|snappyCopy2|back<<8))
		return size + 3
	}
}

// drain hands over the elements that are complete.
func (e *blockEncoder) drain() error {
	_, err := e.out.Write(e.dst)
	e.dst, e.lit = e.dst[:0], -1
	return err
}

// flush hands over everything.
func (e *blockEncoder) flush() error {
	e.endCopy()
	return e.drain()
}
