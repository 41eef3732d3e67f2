package chunks

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// A segment file of a block, chunks/000001 and so on:
//
//	+-------------------------+------------+-------------------+
//	| magic 0x85BD40DD (be32) | version 1  | three zero bytes  |
//	+-------------------------+------------+-------------------+
//	| record | record | ...                                    |
//	+----------------------------------------------------------+
//
// A record; the checksum covers the encoding byte and the data:
//
//	+--------------------+------------+------+-----------------+
//	| length n (uvarint) | encoding   | data | CRC-32C (be32)  |
//	+--------------------+------------+------+-----------------+
const (
	segmentMagic      = 0x85BD40DD
	segmentVersion    = 1
	segmentHeaderSize = 8

	// SegmentHeaderBytes is what a segment file has before its first chunk.
	SegmentHeaderBytes = segmentHeaderSize

	// DefaultSegmentBytes is what a segment file grows to; the reference has the
	// same limit.
	DefaultSegmentBytes = 512 << 20

	// maxSegmentOffset is the last place where a chunk may begin: refs have 32 bits
	// for it.
	maxSegmentOffset = math.MaxUint32

	// maxSegmentChunk is the largest data of one chunk, in bytes. 65,535 samples of
	// the longest encoding need a thousandth of it.
	maxSegmentChunk = 1 << 30
)

var segmentHeader = [segmentHeaderSize]byte{segmentMagic >> 24, segmentMagic >> 16 & 0xff, segmentMagic >> 8 & 0xff, segmentMagic & 0xff, segmentVersion}

// BlockRef is the place of a chunk in the segment files of its block: number of the file
// in the upper 32 bits, counted from 0 (file 000001 is 0), offset of its record in
// the lower ones. Refs grow in the order of writing.
type BlockRef uint64

// NewBlockRef returns the ref of a place.
func NewBlockRef(segment, offset uint32) BlockRef {
	return BlockRef(segment)<<32 | BlockRef(offset)
}

// Segment returns the number of the segment file, counted from 0.
func (r BlockRef) Segment() uint32 { return uint32(r >> 32) }

// Offset returns the bytes from the start of the file to the record.
func (r BlockRef) Offset() uint32 { return uint32(r) }

// SegmentRecordSize returns the bytes that a chunk takes in a segment file if its data
// has n bytes.
func SegmentRecordSize(n int) int64 {
	return int64(uvarintSize(uint64(n))) + 1 + int64(n) + crcSize
}

// appendSegmentRecord appends a chunk as a record.
func appendSegmentRecord(dst []byte, enc chunkenc.Encoding, data []byte) []byte {
	dst = encbuf.AppendUvarint(dst, uint64(len(data)))
	start := len(dst)
	dst = append(dst, byte(enc))
	dst = append(dst, data...)
	return encbuf.AppendBE32(dst, encbuf.Checksum(dst[start:]))
}

// segmentRecord is where the parts of a record are, in bytes from its start.
type segmentRecord struct {
	encAt   int // the encoding byte; data follows it
	dataEnd int // the checksum follows
}

func (r segmentRecord) size() int { return r.dataEnd + crcSize }

// parseSegmentRecord reads the frame of the record that b begins with; b goes on to the
// end of the file. The length is compared before it is converted: int has 32 bits on
// some machines.
func parseSegmentRecord(b []byte) (segmentRecord, *encbuf.CorruptError) {
	length, n := binary.Uvarint(b[:min(maxLengthSize, len(b))])
	if n <= 0 {
		return segmentRecord{}, encbuf.Corrupt(0, "chunk has a bad length")
	}
	if rest := len(b) - n - 1 - crcSize; rest < 0 || length > uint64(rest) {
		return segmentRecord{}, encbuf.Corrupt(0, "chunk is longer than its file")
	}
	return segmentRecord{encAt: n, dataEnd: n + 1 + int(length)}, nil
}

// copySegmentChunk copies the data of the record that b begins with to dst[:0] and
// verifies the checksum over the copy: what is returned is what was checked. size is the
// record's, 0 if not even its frame is whole.
func copySegmentChunk(b, dst []byte) (enc chunkenc.Encoding, data []byte, size int, _ *encbuf.CorruptError) {
	r, damage := parseSegmentRecord(b)
	if damage != nil {
		return 0, dst[:0], 0, damage
	}
	enc = chunkenc.Encoding(b[r.encAt])
	dst = append(dst[:0], b[r.encAt+1:r.dataEnd]...)
	crc := encbuf.UpdateChecksum(checksumOfByte[enc], dst)
	if crc != binary.BigEndian.Uint32(b[r.dataEnd:]) {
		return 0, dst[:0], r.size(), encbuf.Corrupt(0, "chunk has a wrong checksum")
	}
	return enc, dst, r.size(), nil
}

// checksumOfByte has the checksum of each encoding byte, which is copied once so that
// nobody can change it between the check and its use.
var checksumOfByte = func() (sums [256]uint32) {
	for i := range sums {
		sums[i] = encbuf.Checksum([]byte{byte(i)})
	}
	return sums
}()

// checkSegmentHeader says what is wrong with the start of a segment file.
func checkSegmentHeader(b []byte) *encbuf.CorruptError {
	if len(b) < segmentHeaderSize {
		return encbuf.Corrupt(len(b), "chunk segment ends inside its header")
	}
	if magic := binary.BigEndian.Uint32(b); magic != segmentMagic {
		return encbuf.Corrupt(0, fmt.Sprintf("magic number %#08x of a chunk segment, expected %#08x", magic, uint32(segmentMagic)))
	}
	if b[4] != segmentVersion {
		return encbuf.Corrupt(4, fmt.Sprintf("version %d of a chunk segment, expected %d", b[4], segmentVersion))
	}
	return nil
}

// SegmentName returns the name of a segment file, counted from 0 as in BlockRef.
func SegmentName(segment int) string { return fileName(uint32(segment + 1)) }
