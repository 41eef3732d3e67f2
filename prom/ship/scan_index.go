package ship

import (
	"encoding/binary"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// indexScanner sees that an index begins and ends as one: with its magic number, and with the
// table of contents and its checksum (docs/format/index.md). One that was cut does not.
type indexScanner struct {
	head []byte
	tail []byte // the last bytes that passed, tocSize at most
}

const (
	indexMagic = 0xBAAAD700
	indexHead  = 5 // magic number and version
	tocSize    = 6*8 + checksumSize

	maxIndexVersion = 2 // of those that Thanos reads
)

func (s *indexScanner) next(p []byte) (reason string) {
	if n := min(indexHead-len(s.head), len(p)); n > 0 {
		if s.head = append(s.head, p[:n]...); len(s.head) == indexHead {
			reason = s.begin()
		}
	}
	if len(p) >= tocSize {
		s.tail = append(s.tail[:0], p[len(p)-tocSize:]...)
		return reason
	}
	s.tail = append(s.tail, p...)
	if n := len(s.tail) - tocSize; n > 0 {
		s.tail = append(s.tail[:0], s.tail[n:]...)
	}
	return reason
}

func (s *indexScanner) begin() (reason string) {
	if binary.BigEndian.Uint32(s.head) != indexMagic {
		return "this is no index"
	}
	if v := s.head[indexHead-1]; v < 1 || v > maxIndexVersion {
		return "the index has a version that Thanos does not read"
	}
	return ""
}

// whole tells whether what passed last is a table of contents.
func (s *indexScanner) whole() bool {
	n := len(s.tail) - checksumSize
	return n == tocSize-checksumSize && encbuf.Checksum(s.tail[:n]) == binary.BigEndian.Uint32(s.tail[n:])
}
