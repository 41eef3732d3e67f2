package record

import (
	"encoding/binary"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/wal"
)

// Records of late samples, which are private to this library (docs/format/wal-records.md).
const (
	// TypeLate is a record of samples behind a prefix: in the log they must not be taken for such
	// as came in order.
	TypeLate Type = 0x90
	// TypeLateCommit begins a commit of the out-of-order log and says which one of the log it
	// repeats.
	TypeLateCommit Type = 0x91
	// TypeLateTombstones is a tombstones record behind a prefix: of late samples that came before,
	// and of no others. In the log it says which intervals of the next tombstones record are such.
	TypeLateTombstones Type = 0x92
	// TypeLateChunks says which out-of-order chunks of head-chunk files the out-of-order log, or
	// blocks, have.
	TypeLateChunks Type = 0x93
	// TypeLateDump is TypeLateCommit where all that was there behind a commit is written anew, in
	// several commits of the out-of-order log.
	TypeLateDump Type = 0x94
	// TypeLateReach stands in a checkpoint, or a snapshot of the head, that is without late samples
	// of the log: so far the out-of-order log, which has them, reached then.
	TypeLateReach Type = 0x95
)

// AppendLate begins a TypeLate record at the end of dst. The samples record follows. segment is
// that of the out-of-order log which is written now.
func AppendLate(dst []byte, segment int) []byte {
	return encbuf.AppendUvarint(append(dst, byte(TypeLate)), uint64(segment))
}

// ReadLate returns the samples record of a TypeLate, and its segment.
func ReadLate(rec []byte) (segment int, samples []byte, err error) {
	if n, k := binary.Uvarint(rec[1:]); k > 0 && n < 1<<31 {
		return int(n), rec[1+k:], nil
	}
	return 0, nil, encbuf.Corrupt(1, "late samples without a segment")
}

// AppendLateCommit appends the record that names a commit by its sequence number.
//
//go:noinline
func AppendLateCommit(dst []byte, seq uint64) []byte {
	return encbuf.AppendUvarint(append(dst, byte(TypeLateCommit)), seq)
}

// AppendLateDump appends the record that says behind which commit there was what follows.
func AppendLateDump(dst []byte, seq uint64) []byte {
	return encbuf.AppendUvarint(append(dst, byte(TypeLateDump)), seq)
}

// ReadLateCommit returns the sequence number of a TypeLateCommit, or of a TypeLateDump.
func ReadLateCommit(rec []byte) (seq uint64, err error) {
	if seq, k := binary.Uvarint(rec[1:]); k > 0 && 1+k == len(rec) {
		return seq, nil
	}
	return 0, encbuf.Corrupt(1, "commit of late samples without a number")
}

// AppendLateTombstones begins a TypeLateTombstones record. The tombstones record follows.
func AppendLateTombstones(dst []byte) []byte { return append(dst, byte(TypeLateTombstones)) }

// ReadLateTombstones returns the tombstones record.
func ReadLateTombstones(rec []byte) []byte { return rec[1:] }

// AppendLateChunks appends a record that says so of all chunks before a ref.
func AppendLateChunks(dst []byte, ref uint64) []byte {
	return encbuf.AppendUvarint(append(dst, byte(TypeLateChunks)), ref)
}

// ReadLateChunks returns the ref.
func ReadLateChunks(rec []byte) (ref uint64, err error) {
	if ref, k := binary.Uvarint(rec[1:]); k > 0 && 1+k == len(rec) {
		return ref, nil
	}
	return 0, encbuf.Corrupt(1, "late chunks without a place")
}

// AppendLateReach appends a record of where the out-of-order log begins, and how far it reaches, as
// wal.Log.Bounds has it.
func AppendLateReach(dst []byte, r *wal.Reach) []byte {
	dst = append(dst, byte(TypeLateReach))
	for _, n := range [...]uint64{uint64(r.Mark), r.NextRef, uint64(r.Segment), r.FirstSeq, r.Synced} {
		dst = encbuf.AppendUvarint(dst, n)
	}
	return dst
}

// ReadLateReach returns what it says.
func ReadLateReach(rec []byte) (*wal.Reach, error) {
	d := encbuf.NewDec(rec)
	d.Byte()
	var n [5]uint64
	for i := range n {
		n[i] = d.Uvarint()
	}
	r := &wal.Reach{Mark: int64(n[0]), NextRef: n[1], Segment: int(n[2]), FirstSeq: n[3], Synced: n[4]}
	if d.Err() == nil && (d.Len() > 0 || r.Mark < 0 || r.Mark > int64(r.Segment)) {
		d.Fail("reach of the out-of-order log makes no sense")
	}
	return r, d.Err()
}
