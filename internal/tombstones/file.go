package tombstones

import (
	"slices"
	"sort"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// The tombstones file of a block:
//
//	+-----------------+---------+---------------------------------------+-----------+
//	| 0x0130BA30 be32 | 0x01 u8 | entries: ref uvarint | mint varint |   | crc be32  |
//	|                 |         |          maxt varint                  |           |
//	+-----------------+---------+---------------------------------------+-----------+
//
// The checksum covers the entries only.
const (
	// FileName is the name inside a block directory.
	FileName = "tombstones"

	fileMagic   = 0x0130BA30
	fileVersion = 1
	headerBytes = 4 + 1
	crcBytes    = 4
)

// Encode returns the bytes of a tombstones file, series in ascending order.
func Encode(s *Set) []byte {
	b := AppendBody(encbuf.AppendBE32(nil, fileMagic), s)
	return encbuf.AppendBE32(b, encbuf.Checksum(b[headerBytes:]))
}

// AppendBody appends the version and the entries, without what a file has around them.
func AppendBody(b []byte, s *Set) []byte {
	b = append(b, fileVersion)
	for _, ref := range s.Refs() {
		for _, iv := range s.Of(ref) {
			b = encbuf.AppendUvarint(b, ref)
			b = encbuf.AppendVarint(b, iv.Mint)
			b = encbuf.AppendVarint(b, iv.Maxt)
		}
	}
	return b
}

// Decode reads a tombstones file. Entries may stand in any order and overlap; one
// that ends before it begins deletes nothing. The error is an *encbuf.CorruptError
// without the file's name.
func Decode(b []byte) (*Set, error) {
	entries, err := checkFile(b)
	if err != nil {
		return nil, err
	}
	return decodeSet(entries, headerBytes)
}

// DecodeBody reads what AppendBody appended. The error is an *encbuf.CorruptError.
func DecodeBody(b []byte) (*Set, error) {
	if len(b) == 0 || b[0] != fileVersion {
		return nil, encbuf.Corrupt(0, "unknown version of tombstones")
	}
	return decodeSet(b[1:], 1)
}

// decodeSet makes a set of entries that begin at base of the input.
func decodeSet(entries []byte, base int) (*Set, error) {
	stones, err := decodeEntries(entries, base)
	if err != nil {
		return nil, err
	}
	sort.Slice(stones, func(i, k int) bool {
		a, b := stones[i], stones[k]
		return a.ref < b.ref || a.ref == b.ref && a.Mint < b.Mint
	})
	return fromSorted(stones), nil
}

// checkFile verifies all but the entries, which it returns.
func checkFile(b []byte) ([]byte, error) {
	if len(b) < headerBytes+crcBytes {
		return nil, encbuf.Corrupt(len(b), "tombstones file is shorter than its header and checksum")
	}
	d := encbuf.NewDec(b)
	if d.BE32() != fileMagic {
		return nil, encbuf.Corrupt(0, "no magic number of a tombstones file")
	}
	if d.Byte() != fileVersion {
		return nil, encbuf.Corrupt(4, "unknown version of a tombstones file")
	}
	entries := d.Bytes(d.Len() - crcBytes)
	if off := d.Offset(); d.BE32() != encbuf.Checksum(entries) {
		return nil, encbuf.Corrupt(off, "tombstones checksum does not match the entries")
	}
	return entries, nil
}

// stone is one entry of the file.
type stone struct {
	ref uint64
	Interval
}

// minEntryBytes is the shortest entry: three varints of one byte.
const minEntryBytes = 3

func decodeEntries(b []byte, base int) ([]stone, error) {
	d := encbuf.NewDec(b)
	stones := make([]stone, 0, len(b)/minEntryBytes)
	for d.Len() > 0 {
		stones = append(stones, stone{d.Uvarint(), Interval{d.Varint(), d.Varint()}})
	}
	if d.Err() != nil {
		return nil, encbuf.Corrupt(base+d.Offset(), "tombstones entry is cut or malformed")
	}
	return stones, nil
}

// fromSorted makes a set of entries sorted by series and time.
func fromSorted(stones []stone) *Set {
	s := new(Set)
	var ivs []Interval
	for i, st := range stones {
		ivs = append(ivs, st.Interval)
		if i+1 == len(stones) || stones[i+1].ref != st.ref {
			s.put(st.ref, slices.Clip(merge(make(Intervals, 0, len(ivs)), ivs)))
			ivs = ivs[:0]
		}
	}
	return s
}
