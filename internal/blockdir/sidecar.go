package blockdir

import (
	"io/fs"
	"path/filepath"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// The sidecar of the meta file, meta.json.crc, lets damage be told from a change that
// somebody made: other programs write the meta file anew when they delete samples or fail
// to merge, and do not know the sidecar.
//
//	+-------------------+-----------+-----------+-----------------+-----------+
//	| 0x6D637263 (be32) | version 1 | core be32 | optional (be32) | crc be32  |
//	+-------------------+-----------+-----------+-----------------+-----------+
//
// core is the checksum of fields that every writer keeps, optional that of fields that
// older ones drop, crc that of all bytes before it.
const (
	sidecarMagic   = 0x6D637263 // "mcrc"
	sidecarVersion = 1
	sidecarBytes   = 4 + 1 + 4 + 4 + 4
)

func encodeSidecar(m *Meta) []byte {
	b := encbuf.AppendBE32(nil, sidecarMagic)
	b = append(b, sidecarVersion)
	b = encbuf.AppendBE32(b, encbuf.Checksum(appendCore(nil, m)))
	b = encbuf.AppendBE32(b, encbuf.Checksum(appendOptional(nil, m)))
	return encbuf.AppendBE32(b, encbuf.Checksum(b))
}

// appendCore appends the fields that never change and that no writer drops.
func appendCore(b []byte, m *Meta) []byte {
	b = append(b, m.ULID[:]...)
	b = encbuf.AppendVarint(b, m.MinTime)
	b = encbuf.AppendVarint(b, m.MaxTime)
	b = encbuf.AppendUvarint(b, m.Stats.NumSamples)
	b = encbuf.AppendUvarint(b, m.Stats.NumSeries)
	b = encbuf.AppendUvarint(b, m.Stats.NumChunks)
	b = encbuf.AppendVarint(b, int64(m.Compaction.Level))
	b = appendULIDs(b, m.Compaction.Sources)
	b = encbuf.AppendUvarint(b, uint64(len(m.Compaction.Parents)))
	for _, p := range m.Compaction.Parents {
		b = append(b, p.ULID[:]...)
		b = encbuf.AppendVarint(b, p.MinTime)
		b = encbuf.AppendVarint(b, p.MaxTime)
	}
	return b
}

func appendULIDs(b []byte, ids []ulid.ULID) []byte {
	b = encbuf.AppendUvarint(b, uint64(len(ids)))
	for _, id := range ids {
		b = append(b, id[:]...)
	}
	return b
}

// appendOptional appends the fields that never change either, but that a writer from
// before they were invented drops.
func appendOptional(b []byte, m *Meta) []byte {
	b = encbuf.AppendUvarint(b, m.Stats.NumFloatSamples)
	b = encbuf.AppendUvarint(b, m.Stats.NumHistogramSamples)
	b = encbuf.AppendUvarint(b, uint64(len(m.Compaction.Hints)))
	for _, h := range m.Compaction.Hints {
		b = encbuf.AppendString(b, h)
	}
	return b
}

// hasOptional tells whether m has any of them.
func hasOptional(m *Meta) bool {
	return m.Stats.NumFloatSamples != 0 || m.Stats.NumHistogramSamples != 0 || len(m.Compaction.Hints) > 0
}

// checkSidecar compares m with its sidecar. A missing or damaged sidecar, one of a
// later version, and one that knows of fields that were dropped say nothing: they are
// stale.
func checkSidecar(fsys fileutil.FS, blockDir string, m *Meta) (stale bool, err error) {
	b, err := readSidecar(fsys, blockDir)
	if err != nil {
		return false, err
	}
	core, optional, ok := decodeSidecar(b)
	switch {
	case !ok:
		return true, nil
	case core != encbuf.Checksum(appendCore(nil, m)):
		return false, changed(blockDir)
	case optional == encbuf.Checksum(appendOptional(nil, m)):
		return false, nil
	case hasOptional(m):
		return false, changed(blockDir)
	default:
		return true, nil
	}
}

// readSidecar returns the content of the sidecar, nothing if there is none or it is not of
// this version.
func readSidecar(fsys fileutil.FS, blockDir string) ([]byte, error) {
	path := filepath.Join(blockDir, sidecarName)
	info, err := fsys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || info.IsDir() || info.Size() != sidecarBytes {
		return nil, err
	}
	return fileutil.ReadFile(fsys, path, sidecarBytes)
}

func changed(blockDir string) error {
	const reason = "a field that never changes is not what it was when the block was written"
	return encbuf.Corrupt(0, reason).At(filepath.Join(blockDir, metaName), 0)
}

// decodeSidecar returns the two checksums; ok is false for anything that this version did
// not write.
func decodeSidecar(b []byte) (core, optional uint32, ok bool) {
	if len(b) != sidecarBytes {
		return 0, 0, false
	}
	d := encbuf.NewDec(b)
	magic, version := d.BE32(), d.Byte()
	core, optional = d.BE32(), d.BE32()
	crc := d.BE32()
	ok = magic == sidecarMagic && version == sidecarVersion && crc == encbuf.Checksum(b[:sidecarBytes-4])
	return core, optional, ok
}

// RenewSidecar writes the sidecar of a block whose meta file is m: after another program
// wrote the block, or wrote its meta file without fields that it does not know.
func RenewSidecar(fsys fileutil.FS, blockDir string, m Meta) error {
	path := filepath.Join(blockDir, sidecarName)
	return fileutil.WriteFileAtomic(fsys, path+tmpSuffix, path, encodeSidecar(&m))
}
