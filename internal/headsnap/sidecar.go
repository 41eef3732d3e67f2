package headsnap

import (
	"encoding/binary"
	"io/fs"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/wal"
)

// The sidecar says what the records must be, where the log goes on, and which head-chunk
// files the full chunks are in. Numbers are uvarints unless it says otherwise:
//
//	+---------------------+-----------+---------+----------+----------+-------------------+
//	| "hsnp" (4 bytes)    | version 1 | segment | next seq | next ref | last frame (be32) |
//	+---------------------+-----------+---------+----------+----------+-------------------+
//	| synced | head start (varint)                                                        |
//	+-------------------------------------------------------------------------------------+
//	| series | records | sum of the records (be32) | bytes                               |
//	+-------------------------------------------------------------------------------------+
//	| number of files | for each: number, size, last four bytes (be32)                    |
//	+-------------------------------------------------------------------------------------+
//	| CRC-32C of all before it (be32) |
//	+---------------------------------+
const (
	sidecarMagic    = 0x68736e70 // "hsnp"
	sidecarVersion  = 1
	maxSidecarBytes = 1 << 20 // room for 70,000 files of 128 MiB
	minFileBytes    = 1 + 1 + 4
)

// Meta is what the sidecar says.
type Meta struct {
	Start wal.Start
	// HeadStart is where the head began by the blocks that were there, in milliseconds: what
	// is before is in those only.
	HeadStart int64
	Series    uint64
	Sum       wal.SnapshotSum
	Files     []chunks.HeadExtent
}

func encodeSidecar(m *Meta) []byte {
	b := encbuf.AppendBE32(nil, sidecarMagic)
	b = append(b, sidecarVersion)
	b = encbuf.AppendUvarint(b, uint64(m.Start.Segment))
	b = encbuf.AppendUvarint(b, m.Start.NextSeq)
	b = encbuf.AppendUvarint(b, m.Start.NextRef)
	b = encbuf.AppendBE32(b, m.Start.LastFrame)
	b = encbuf.AppendUvarint(b, m.Start.Synced)
	b = encbuf.AppendVarint(b, m.HeadStart)
	b = encbuf.AppendUvarint(b, m.Series)
	b = encbuf.AppendUvarint(b, m.Sum.Records)
	b = encbuf.AppendBE32(b, m.Sum.Checksum)
	b = encbuf.AppendUvarint(b, uint64(m.Sum.Bytes))
	b = encbuf.AppendUvarint(b, uint64(len(m.Files)))
	for _, f := range m.Files {
		b = encbuf.AppendUvarint(b, uint64(f.File))
		b = encbuf.AppendUvarint(b, uint64(f.Size))
		b = encbuf.AppendBE32(b, f.Tail)
	}
	return encbuf.AppendBE32(b, encbuf.Checksum(b))
}

// decodeSidecar returns an *encbuf.CorruptError for anything that this version did not
// write.
func decodeSidecar(b []byte) (Meta, error) {
	if len(b) < 4 || encbuf.Checksum(b[:len(b)-4]) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return Meta{}, encbuf.Corrupt(0, "checksum of the snapshot's sidecar does not match")
	}
	d := encbuf.NewDec(b[:len(b)-4])
	if d.BE32() != sidecarMagic || d.Byte() != sidecarVersion {
		return Meta{}, encbuf.Corrupt(0, "snapshot of an unknown version")
	}
	var m Meta
	m.Start = wal.Start{Segment: int(d.Uvarint()), NextSeq: d.Uvarint(), NextRef: d.Uvarint(), LastFrame: d.BE32(), Synced: d.Uvarint()}
	m.HeadStart = d.Varint()
	m.Series = d.Uvarint()
	m.Sum = wal.SnapshotSum{Records: d.Uvarint(), Checksum: d.BE32(), Bytes: int64(d.Uvarint())}
	for range d.Count(minFileBytes) {
		m.Files = append(m.Files, chunks.HeadExtent{File: uint32(d.Uvarint()), Size: int64(d.Uvarint()), Tail: d.BE32()})
	}
	if d.Err() == nil && d.Len() > 0 {
		d.Fail("bytes behind the end of the snapshot's sidecar")
	}
	if d.Err() == nil && (m.Start.Segment < 1 || m.Start.NextSeq < 1) {
		d.Fail("snapshot of an impossible place")
	}
	return m, d.Err()
}

// ReadMeta reads the sidecar of a snapshot. Damage, and a snapshot without one, is an
// *encbuf.CorruptError.
func ReadMeta(fsys fileutil.FS, dir string) (Meta, error) {
	path := filepath.Join(dir, sidecarName)
	b, err := fileutil.ReadFile(fsys, path, maxSidecarBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return Meta{}, encbuf.Corrupt(0, "snapshot has no sidecar").At(path, 0)
	}
	if err != nil {
		return Meta{}, err
	}
	m, err := decodeSidecar(b)
	if corrupt, ok := encbuf.AsCorrupt(err); ok {
		return Meta{}, corrupt.At(path, 0)
	}
	return m, err
}
