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
//	| 0x6D637263 (be32) | version   | core be32 | optional (be32) | crc be32  |
//	+-------------------+-----------+-----------+-----------------+-----------+
//
// core is the checksum of fields that every writer keeps, optional that of fields that
// older ones drop, crc that of all bytes before it. Version 2 says besides that all series
// were seen to be in order, each with chunks, all inside the block's bounds; version 1 says nothing
// about that.
const (
	sidecarMagic   = 0x6D637263 // "mcrc"
	sidecarVersion = 1
	sidecarInOrder = 2 // the version of a block in order
	sidecarBytes   = 4 + 1 + 4 + 4 + 4
)

// sidecar is what one says.
type sidecar struct {
	core, optional uint32 // checksums
	inOrder        bool
}

// sidecarState is what a sidecar says beside a meta file that fits.
type sidecarState struct {
	stale   bool // it has to be written anew
	inOrder bool // all series are known to be in order and in the block's bounds
}

func encodeSidecar(m *Meta, inOrder bool) []byte {
	b := encbuf.AppendBE32(nil, sidecarMagic)
	if inOrder {
		b = append(b, sidecarInOrder)
	} else {
		b = append(b, sidecarVersion)
	}
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
func checkSidecar(fsys fileutil.FS, blockDir string, m *Meta) (sidecarState, error) {
	b, err := readSidecar(fsys, blockDir)
	if err != nil {
		return sidecarState{}, err
	}
	said, ok := decodeSidecar(b)
	switch {
	case !ok:
		return sidecarState{stale: true}, nil
	case said.core != encbuf.Checksum(appendCore(nil, m)):
		return sidecarState{}, changed(blockDir)
	case said.optional == encbuf.Checksum(appendOptional(nil, m)):
		return sidecarState{inOrder: said.inOrder}, nil
	case hasOptional(m):
		return sidecarState{}, changed(blockDir)
	default:
		return sidecarState{stale: true, inOrder: said.inOrder}, nil
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

// decodeSidecar returns what a sidecar says; ok is false for anything that this version did
// not write.
func decodeSidecar(b []byte) (s sidecar, ok bool) {
	if len(b) != sidecarBytes {
		return s, false
	}
	d := encbuf.NewDec(b)
	magic, version := d.BE32(), d.Byte()
	s.core, s.optional = d.BE32(), d.BE32()
	s.inOrder = version == sidecarInOrder
	crc := d.BE32()
	known := version == sidecarVersion || version == sidecarInOrder
	return s, known && magic == sidecarMagic && crc == encbuf.Checksum(b[:sidecarBytes-4])
}

// RenewSidecar writes the sidecar of a block whose meta file is m: after another program
// wrote the block, or wrote its meta file without fields that it does not know, or when all of
// its series were seen to be in order and in its bounds.
func RenewSidecar(fsys fileutil.FS, blockDir string, m Meta, inOrder bool) error {
	path := filepath.Join(blockDir, sidecarName)
	return fileutil.WriteFileAtomic(fsys, path+tmpSuffix, path, encodeSidecar(&m, inOrder))
}
