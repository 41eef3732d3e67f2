package chunks

import (
	"encoding/binary"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// A head-chunk file:
//
//	+-------------------------+------------+-------------------+
//	| magic 0x0130BC91 (be32) | version 1  | three zero bytes  |
//	+-------------------------+------------+-------------------+
//	| record | record | ...                                    |
//	+----------------------------------------------------------+
//
// A record; the checksum covers all bytes of the record before it:
//
//	+---------------+------------+------------+----------------+
//	| series (be64) | mint (be64)| maxt (be64)| ooo:1 | enc:7  |
//	+---------------+------------+------------+----------------+
//	| length n (uvarint) | data (n bytes) | CRC-32C (be32)     |
//	+----------------------------------------------------------+
const (
	headMagic      = 0x0130BC91
	headVersion    = 1
	headHeaderSize = 8

	refAndTimes   = 3 * 8 // series, mint, maxt: all zero where a file has no more data
	lengthOffset  = refAndTimes + 1
	maxLengthSize = 5 // bytes of a uvarint below 2^32
	crcSize       = 4

	// minRecordSize is what a file must have left to hold a record. The reference
	// takes fewer bytes for damage unless they are zeros, although a record
	// with one byte of length and less than 4 of data would be shorter.
	minRecordSize = lengthOffset + maxLengthSize + crcSize

	// oooBit marks an out-of-order chunk in the encoding byte.
	oooBit = 0x80
)

var headHeader = [headHeaderSize]byte{headMagic >> 24, headMagic >> 16 & 0xff, headMagic >> 8 & 0xff, headMagic & 0xff, headVersion}

// Full is a chunk on its way into a head-chunk file.
type Full struct {
	Series     SeriesRef // Invariant: 1 <= Series <= MaxSeriesRef
	MinT, MaxT int64     // times of its first and last sample, milliseconds
	Encoding   chunkenc.Encoding
	OutOfOrder bool   // it may overlap other chunks of its series
	Data       []byte // the chunk; only read, and only until Write returns
}

func (c *Full) recordSize() int64 {
	n := int64(len(c.Data))
	return lengthOffset + int64(uvarintSize(uint64(n))) + n + crcSize
}

func uvarintSize(v uint64) int {
	n := 1
	for ; v >= 0x80; v >>= 7 {
		n++
	}
	return n
}

// appendRecord appends c as a record.
func appendRecord(dst []byte, c *Full) []byte {
	start := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.Series))
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.MinT))
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.MaxT))
	enc := byte(c.Encoding)
	if c.OutOfOrder {
		enc |= oooBit
	}
	dst = append(dst, enc)
	dst = encbuf.AppendUvarint(dst, uint64(len(c.Data)))
	dst = append(dst, c.Data...)
	return encbuf.AppendBE32(dst, encbuf.Checksum(dst[start:]))
}

// record is where the parts of a record are. Its checksum is not looked at yet.
type record struct {
	series     SeriesRef
	mint, maxt int64
	enc        byte
	dataStart  int // bytes from the start of the record
	dataEnd    int // the checksum follows
}

func (r record) size() int { return r.dataEnd + crcSize }

func (r record) encoding() chunkenc.Encoding { return chunkenc.Encoding(r.enc &^ oooBit) }

// parseRecord reads the frame of the record that b begins with; b goes on to the
// end of the file. The length is compared before it is converted: int has 32
// bits on some machines.
func parseRecord(b []byte) (record, *encbuf.CorruptError) {
	if len(b) < minRecordSize {
		return record{}, encbuf.Corrupt(0, "too few bytes for a record")
	}
	r := record{
		series: SeriesRef(binary.BigEndian.Uint64(b)),
		mint:   int64(binary.BigEndian.Uint64(b[8:])),
		maxt:   int64(binary.BigEndian.Uint64(b[16:])),
		enc:    b[refAndTimes],
	}
	length, n := binary.Uvarint(b[lengthOffset : lengthOffset+maxLengthSize])
	if n <= 0 {
		return record{}, encbuf.Corrupt(lengthOffset, "record has a bad length")
	}
	r.dataStart = lengthOffset + n
	if length > uint64(len(b)-r.dataStart-crcSize) {
		return record{}, encbuf.Corrupt(lengthOffset, "record is longer than its file")
	}
	r.dataEnd = r.dataStart + int(length)
	return r, nil
}

// checkRecord verifies the checksum of r, the record that b begins with.
func checkRecord(b []byte, r record) *encbuf.CorruptError {
	if encbuf.Checksum(b[:r.dataEnd]) != binary.BigEndian.Uint32(b[r.dataEnd:]) {
		return encbuf.Corrupt(0, "record has a wrong checksum")
	}
	return nil
}

// nextRecord returns the record that b, the rest of a file, begins with. ok is false
// where the data ends: at the end of the file, or at zeros up to there, which
// the reference preallocates.
func nextRecord(b []byte) (r record, ok bool, _ *encbuf.CorruptError) {
	switch {
	case len(b) == 0:
		return record{}, false, nil
	case len(b) < minRecordSize:
		if encbuf.AllZero(b) {
			return record{}, false, nil
		}
	case encbuf.AllZero(b[:refAndTimes]):
		if !encbuf.AllZero(b) {
			return record{}, false, encbuf.Corrupt(0, "zeros with data behind them")
		}
		return record{}, false, nil
	}
	r, damage := parseRecord(b)
	if damage == nil {
		damage = checkRecord(b, r)
	}
	if damage == nil && r.encoding().Known() {
		if _, err := chunkenc.FromData(r.encoding(), b[r.dataStart:r.dataEnd]); err != nil {
			damage = encbuf.Corrupt(r.dataStart, err.Error())
		}
	}
	return r, damage == nil, damage
}
