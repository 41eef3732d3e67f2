// Package encbuf has the primitive encodings that every file of the library is made
// of: big-endian integers, varints and length-prefixed strings, appended to a byte
// slice and read back through a cursor with bounds. It knows no file format; it owns
// the error that all damage is reported with.
//
// Functions are safe for concurrent use; a Dec belongs to one goroutine.
package encbuf

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// Longest forms of the varints, in bytes.
const (
	MaxVarintLen64 = binary.MaxVarintLen64
	MaxVarintLen32 = binary.MaxVarintLen32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Checksum returns the CRC-32 (Castagnoli) of b: the checksum of every file format
// of the library, stored as be32.
//
//go:noinline
func Checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// UpdateChecksum returns the checksum of what crc covers followed by b; crc of
// nothing is 0.
func UpdateChecksum(crc uint32, b []byte) uint32 { return crc32.Update(crc, castagnoli, b) }

// What follows is not inlined: that took 45 kB of each program. Loops that have many numbers inline
// what they need, or write into a buffer that has room.

// AppendUvarint appends v in 7-bit groups, little groups first: 1 to 10 bytes.
//
//go:noinline
func AppendUvarint(dst []byte, v uint64) []byte {
	if v < 0x80 {
		return append(dst, byte(v))
	}
	return binary.AppendUvarint(dst, v)
}

// AppendVarint appends v zig-zag mapped as a uvarint, so that small negative numbers
// are short too.
func AppendVarint(dst []byte, v int64) []byte {
	return AppendUvarint(dst, Zigzag(v))
}

// AppendVarints is AppendVarint of one number after the other. Those of up to two bytes take no
// branch that depends on how many (BenchmarkAppendHistograms of the root).
func AppendVarints(dst []byte, list []int64) []byte {
	dst = slices.Grow(dst, MaxVarintLen64*len(list))
	to, n := dst[:cap(dst)], len(dst)
	for _, x := range list {
		u := Zigzag(x)
		if u >= 1<<14 {
			n += binary.PutUvarint(to[n:], u)
			continue
		}
		more := (0x7f - u) >> 63 // 1: there is a second byte
		two := to[n : n+2]
		two[0], two[1] = byte(u&0x7f|more<<7), byte(u>>7)
		n += 1 + int(more)
	}
	return to[:n]
}

// Zigzag maps small numbers, negative or not, to small ones.
func Zigzag(v int64) uint64 { return uint64(v)<<1 ^ uint64(v>>63) }

// AppendBE32 appends v as four bytes, big endian.
//
//go:noinline
func AppendBE32(dst []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(dst, v) }

// AppendBE64 appends v as eight bytes, big endian.
//
//go:noinline
func AppendBE64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

// AppendString appends the length of s in bytes as a uvarint, then s.
//
//go:noinline
func AppendString[S ~string | ~[]byte](dst []byte, s S) []byte {
	dst = AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}
