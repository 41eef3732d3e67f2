package ship

import (
	"encoding/binary"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// scanner goes through a file of chunks as it passes. Its format is described in
// docs/format/chunks.md: eight bytes, then of each chunk its length, its encoding, its data and a
// checksum of both.
type scanner struct {
	state    int
	head     int    // bytes of the header that have passed
	length   uint64 // of the data of a chunk, as far as it is known
	shift    int
	start    int // bytes of the length
	left     uint64
	crc      uint32
	sum      [checksumSize]byte
	encoding [1]byte
	summed   int
	largest  int64 // bytes of the largest chunk, all of it
	unknown  bool  // the encoding is one that Thanos does not know
	enc      chunkenc.Encoding
}

// What comes next.
const (
	inHeader = iota
	inLength
	inEncoding
	inData
	inSum
	inRest // zeros behind the last chunk
)

const (
	checksumSize = 4
	maxChunkSize = 1 << 30 // more is no chunk
	maxShift     = 28      // of a length below that
)

// header is what a file of chunks begins with: a magic number, version 1, and zeros.
var header = [...]byte{0x85, 0xBD, 0x40, 0xDD, 1, 0, 0, 0}

// known are the encodings that Thanos reads.
func known(e chunkenc.Encoding) bool {
	return e == chunkenc.EncXOR || e == chunkenc.EncHistogram || e == chunkenc.EncFloatHistogram
}

// whole tells whether the file may end here.
func (s *scanner) whole() bool { return s.state == inLength && s.start == 0 || s.state == inRest }

// next takes the next bytes of the file, and returns what is wrong with them. It stops at a chunk
// of an encoding that is unknown to Thanos.
func (s *scanner) next(p []byte) (reason string) {
	for len(p) > 0 && reason == "" && !s.unknown {
		switch s.state {
		case inData:
			n := min(uint64(len(p)), s.left)
			s.crc = encbuf.UpdateChecksum(s.crc, p[:n])
			if s.left -= n; s.left == 0 {
				s.state = inSum
			}
			p = p[n:]
		case inRest:
			if p[0] != 0 {
				return "there is something behind the last chunk"
			}
			p = p[1:]
		default:
			reason = s.one(p[0])
			p = p[1:]
		}
	}
	return reason
}

// one takes a byte that is not of the data of a chunk.
func (s *scanner) one(b byte) (reason string) {
	switch s.state {
	case inHeader:
		if b != header[s.head] {
			return "this is no file of chunks of version 1"
		}
		if s.head++; s.head == len(header) {
			s.state = inLength
		}
	case inLength:
		return s.lengthByte(b)
	case inEncoding:
		s.enc = chunkenc.Encoding(b)
		s.unknown = !known(s.enc)
		s.encoding[0] = b
		s.crc, s.left, s.state = encbuf.UpdateChecksum(0, s.encoding[:]), s.length, inData
	case inSum:
		s.sum[s.summed] = b
		if s.summed++; s.summed < checksumSize {
			return ""
		}
		if binary.BigEndian.Uint32(s.sum[:]) != s.crc {
			return "the checksum of a chunk does not match"
		}
		s.largest = max(s.largest, int64(s.start)+1+int64(s.length)+checksumSize)
		s.length, s.shift, s.start, s.summed, s.state = 0, 0, 0, 0, inLength
	}
	return ""
}

func (s *scanner) lengthByte(b byte) (reason string) {
	s.length |= uint64(b&0x7f) << s.shift
	s.shift += 7
	s.start++
	switch {
	case b >= 0x80 && s.shift <= maxShift:
	case b >= 0x80, s.length > maxChunkSize:
		return "the length of a chunk is out of range"
	case s.length == 0 && s.start == 1:
		s.state = inRest
	default:
		s.state = inEncoding
	}
	return ""
}

// damage is that of a file.
func damage(file string, off int64, reason string) error {
	return encbuf.Corrupt(0, reason).At(file, off)
}
