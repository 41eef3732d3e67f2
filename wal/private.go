package wal

import (
	"hash/crc32"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// Private record types: records that this library adds to the log and that others
// skip. They are stored uncompressed.
const (
	typeHeader            byte = 0x80 // first record of each segment that we create
	typeFrame             byte = 0x81 // last record of each commit, or a short one
	typeCheckpointHeader  byte = 0x82 // first record of a checkpoint that we wrote
	typeCheckpointTrailer byte = 0x83 // its last record
	typeShortFrame        byte = 0x84 // a frame that leaves out what most frames repeat
)

func isPrivateType(typ byte) bool { return typ >= typeHeader && typ <= typeShortFrame }

// privateVersion is the version of headers that we write; a higher one is refused.
const privateVersion = 1

const crcSize = 4

// maxSeq bounds sequence numbers, so that arithmetic on those of a hostile file cannot
// overflow: a million commits a second reach it in 146,000 years.
const maxSeq = 1 << 62

// header is the content of 0x80 and 0x82 records.
type header struct {
	segment uint64 // its number; of a checkpoint the number that it covers
	nextSeq uint64 // sequence number of the first commit in this segment
	nextRef uint64 // smallest series ref never handed out so far
	synced  uint64 // highest sequence number known to be on stable storage
}

// appendHeader appends a segment header.
//
//	| 0x80 | version 1 | segment | next seq | next ref | synced | CRC-32C (be32) |
//
// The middle four are uvarints; the checksum covers all before it.
func appendHeader(dst []byte, h header) []byte { return appendHeaderOf(dst, typeHeader, h) }

// appendHeaderOf appends a header of a segment, or of a checkpoint: they differ in their
// type only.
func appendHeaderOf(dst []byte, typ byte, h header) []byte {
	start := len(dst)
	dst = append(dst, typ, privateVersion)
	dst = encbuf.AppendUvarint(dst, h.segment)
	dst = encbuf.AppendUvarint(dst, h.nextSeq)
	dst = encbuf.AppendUvarint(dst, h.nextRef)
	dst = encbuf.AppendUvarint(dst, h.synced)
	return encbuf.AppendBE32(dst, encbuf.Checksum(dst[start:]))
}

// parseHeader parses a 0x80 or 0x82 record. newer says that it has a higher version,
// whose fields nobody here knows.
func parseHeader(rec []byte) (h header, newer, ok bool) {
	if len(rec) < 2 {
		return header{}, false, false
	}
	if rec[1] > privateVersion {
		return header{}, true, false
	}
	d := encbuf.NewDec(rec)
	d.Bytes(2)
	h = header{segment: d.Uvarint(), nextSeq: d.Uvarint(), nextRef: d.Uvarint(), synced: d.Uvarint()}
	end := d.Offset()
	crc := d.BE32()
	ok = d.Err() == nil && d.Len() == 0 && crc == encbuf.Checksum(rec[:end]) && h.nextSeq <= maxSeq && h.synced <= maxSeq
	return h, false, ok
}

// frame is the content of a commit frame. Its checksum covers the commit's records
// and the frame; see commitSum.
type frame struct {
	seq     uint64
	records uint64 // of this commit, before the frame
	lag     uint64 // seq minus the highest sequence number known to be on stable storage
	crc     uint32
}

// synced returns the watermark that the frame carries; 0, if it carries none.
func (f frame) synced() uint64 { return f.seq - f.lag }

// appendFrame appends a commit frame; sum is the checksum over the commit's records
// and becomes the checksum over those and the frame.
//
//	| 0x81 | seq (uvarint) | records (uvarint) | lag (uvarint) | CRC-32C (be32) |
func appendFrame(dst []byte, f frame, sum uint32) []byte {
	start := len(dst)
	dst = append(dst, typeFrame)
	dst = encbuf.AppendUvarint(dst, f.seq)
	dst = encbuf.AppendUvarint(dst, f.records)
	dst = encbuf.AppendUvarint(dst, f.lag)
	return encbuf.AppendBE32(dst, encbuf.UpdateChecksum(sum, dst[start:]))
}

// appendShortFrame appends the frame of a commit of one record that carries no watermark; the
// checksum is as in appendFrame.
//
//	| 0x84 | seq (uvarint) | CRC-32C (be32) |
func appendShortFrame(dst []byte, seq uint64, sum uint32) []byte {
	start := len(dst)
	dst = append(dst, typeShortFrame)
	dst = encbuf.AppendUvarint(dst, seq)
	return encbuf.AppendBE32(dst, encbuf.UpdateChecksum(sum, dst[start:]))
}

// isFrame tells frames of both forms from other records of ours.
func isFrame(rec []byte) bool { return rec[0] == typeFrame || rec[0] == typeShortFrame }

// parseFrame parses a record for which isFrame holds.
func parseFrame(rec []byte) (f frame, ok bool) {
	d := encbuf.NewDec(rec)
	if d.Byte() == typeShortFrame {
		seq := d.Uvarint()
		f = frame{seq: seq, records: 1, lag: seq, crc: d.BE32()}
	} else {
		f = frame{seq: d.Uvarint(), records: d.Uvarint(), lag: d.Uvarint(), crc: d.BE32()}
	}
	return f, d.Err() == nil && d.Len() == 0 && f.seq != 0 && f.seq <= maxSeq && f.lag <= f.seq
}

// commitSum adds a record to the checksum of a commit: its length as a uvarint and
// its body, both uncompressed, so that moving or recompressing it changes nothing.
func commitSum(sum uint32, rec []byte) uint32 {
	n := uint64(len(rec))
	for ; n >= 0x80; n >>= 7 {
		sum = sumByte(sum, byte(n)|0x80)
	}
	return encbuf.UpdateChecksum(sumByte(sum, byte(n)), rec)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sumByte adds one byte to a CRC-32C. A slice of a local array would escape into
// crc32.Update, one allocation for each record.
func sumByte(sum uint32, b byte) uint32 {
	sum = ^sum
	return ^(castagnoli[byte(sum)^b] ^ sum>>8)
}

// trailer is the content of a 0x83 record.
type trailer struct {
	records uint64
	crc     uint32 // over the records between header and trailer, by commitSum
}

// parseTrailer parses a 0x83 record: | 0x83 | records (uvarint) | CRC-32C (be32) |.
func parseTrailer(rec []byte) (t trailer, ok bool) {
	d := encbuf.NewDec(rec)
	d.Byte()
	t = trailer{records: d.Uvarint(), crc: d.BE32()}
	return t, d.Err() == nil && d.Len() == 0
}

func appendTrailer(dst []byte, t trailer) []byte {
	dst = append(dst, typeCheckpointTrailer)
	dst = encbuf.AppendUvarint(dst, t.records)
	return encbuf.AppendBE32(dst, t.crc)
}
