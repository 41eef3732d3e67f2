package wal

import (
	"encoding/binary"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// PageSize is the unit of a segment in bytes. No fragment crosses a page boundary,
// so that a reader can start again at the next one after damage.
const PageSize = 32 << 10

const (
	// fragmentHeaderSize: type byte, be16 length, be32 CRC-32C of the data.
	fragmentHeaderSize = 7
	// maxFragmentData is what one page can carry of a record, in bytes.
	maxFragmentData = PageSize - fragmentHeaderSize
)

// fragmentType is the low three bits of a fragment's type byte.
type fragmentType byte

const (
	fragmentPadding fragmentType = 0 // the rest of the page is zero
	fragmentFull    fragmentType = 1
	fragmentFirst   fragmentType = 2
	fragmentMiddle  fragmentType = 3
	fragmentLast    fragmentType = 4

	fragmentTypeMask = 0x07 // bits 5-7 are reserved: written zero, not looked at
)

// appendRecord appends data to a segment as fragments and returns the extended
// buffer. off is where the end of dst lands in the segment.
//
//	 0        1                 3                          7
//	+--------+-----------------+--------------------------+----------------+
//	| type   | length (be16)   | CRC-32C of data (be32)   | data ...       |
//	+--------+-----------------+--------------------------+----------------+
//	 bits 0-2: 1 full, 2 first, 3 middle, 4 last, 0 padding to the page's end
//	 bit 3: snappy, bit 4: zstd
//
// Fewer than seven bytes at the end of a page are filled with zeros. Exactly seven
// take an empty first fragment (a full one if the record is empty).
func appendRecord(dst []byte, off int64, c Compression, data []byte) []byte {
	left := pageLeft(off)
	if left < fragmentHeaderSize {
		dst = append(dst, make([]byte, left)...)
		left = PageSize
	}
	for first := true; ; first = false {
		n := min(len(data), left-fragmentHeaderSize)
		last := n == len(data)
		typ, crc := byte(typeOf(first, last))|c.bits(), encbuf.Checksum(data[:n])
		dst = append(dst, typ, byte(n>>8), byte(n), byte(crc>>24), byte(crc>>16), byte(crc>>8), byte(crc))
		dst = append(dst, data[:n]...)
		if last {
			return dst
		}
		data, left = data[n:], PageSize
	}
}

func typeOf(first, last bool) fragmentType {
	switch {
	case first && last:
		return fragmentFull
	case first:
		return fragmentFirst
	case last:
		return fragmentLast
	default:
		return fragmentMiddle
	}
}

// recordEnd returns where a record of n bytes ends that is appended at off: what
// appendRecord writes, without writing it.
//
//go:noinline
func recordEnd(off int64, n int) int64 {
	left := pageLeft(off)
	if left < fragmentHeaderSize {
		off, left = off+int64(left), PageSize
	}
	if n <= left-fragmentHeaderSize {
		return off + fragmentHeaderSize + int64(n)
	}
	off, n = off+int64(left), n-(left-fragmentHeaderSize)
	pages := (n - 1) / maxFragmentData // full pages before the last fragment
	return off + int64(pages)*PageSize + fragmentHeaderSize + int64(n-pages*maxFragmentData)
}

// pageLeft returns how many bytes of its page are left at off, 1 to PageSize.
func pageLeft(off int64) int { return PageSize - int(off%PageSize) }

// fragmentHeader is a parsed fragment header.
type fragmentHeader struct {
	typ  fragmentType
	comp Compression
	size int // bytes of data
	crc  uint32
}

// parseFragmentHeader takes the first seven bytes of b apart; it checks nothing.
func parseFragmentHeader(b []byte) fragmentHeader {
	return fragmentHeader{
		typ:  fragmentType(b[0] & fragmentTypeMask),
		comp: compressionOf(b[0]),
		size: int(binary.BigEndian.Uint16(b[1:])),
		crc:  binary.BigEndian.Uint32(b[3:]),
	}
}
