// Package blocklist knows the list of the blocks that there should be in a data directory: a
// small file at its top, blocks.tsdb, which is ours alone. What is in the directory and not in
// the list is a block all the same. What is in the list and not in the directory has
// vanished, unless somebody knows where it went: that question is the root's.
//
// The file may lack at any time. Other engines do not know it, and change blocks without it.
//
// The format is described in docs/format/blocks-list.md. Functions of one directory must not
// run at the same time, except Read.
package blocklist

import (
	"io/fs"
	"math"
	"path/filepath"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// FileName is the name of the list in a data directory; a new one is written under TempName.
const (
	FileName = "blocks.tsdb"
	TempName = "tmp-" + FileName
)

// The file:
//
//	+-------------------+-----------+---------------+-----------------------+-----------+
//	| 0x74624C73 (be32) | version   | count uvarint | blocks                | crc be32  |
//	+-------------------+-----------+---------------+-----------------------+-----------+
//
// and a block in it:
//
//	+---------+--------------+------------------------+---------------+--------------------+
//	| id 16 B | mint varint  | length of time uvarint | count uvarint | sources, 16 B each |
//	+---------+--------------+------------------------+---------------+--------------------+
//
// The checksum covers all bytes before it. The version is 1, or 2 if some block is empty: then the
// count of sources is twice what it is, plus 1 if the block is.
const (
	magic        = 0x74624C73 // "tbLs"
	version      = 1
	versionEmpty = 2
	headerBytes  = 4 + 1
	crcBytes     = 4
	idBytes      = 16
	// minBlockBytes is what a block takes at least.
	minBlockBytes = idBytes + 3
	// maxBytes bounds what is read: room for more than 300 years of blocks of two hours.
	maxBytes = 64 << 20
)

// Block is what the list knows of a block.
type Block struct {
	ULID             ulid.ULID
	MinTime, MaxTime int64 // half-open bounds in milliseconds
	// Sources are the first blocks of all that it was made of. None: it is one of them.
	Sources []ulid.ULID
	Empty   bool // all of it is deleted: nothing is lost with it
}

// Encode returns the bytes of a list.
func Encode(blocks []Block) []byte {
	v := byte(version)
	for i := range blocks {
		if blocks[i].Empty {
			v = versionEmpty
		}
	}
	b := append(encbuf.AppendBE32(nil, magic), v)
	b = encbuf.AppendUvarint(b, uint64(len(blocks)))
	for i := range blocks {
		m := &blocks[i]
		b = append(b, m.ULID[:]...)
		b = encbuf.AppendVarint(b, m.MinTime)
		b = encbuf.AppendUvarint(b, uint64(m.MaxTime)-uint64(m.MinTime))
		n := uint64(len(m.Sources))
		if v == versionEmpty {
			n <<= 1
		}
		if m.Empty {
			n++
		}
		b = encbuf.AppendUvarint(b, n)
		for _, id := range m.Sources {
			b = append(b, id[:]...)
		}
	}
	return encbuf.AppendBE32(b, encbuf.Checksum(b))
}

// Decode reads a list. The error is an *encbuf.CorruptError without the file's name.
func Decode(b []byte) ([]Block, error) {
	if len(b) < headerBytes+crcBytes {
		return nil, encbuf.Corrupt(len(b), "list of blocks is shorter than its header and checksum")
	}
	end := len(b) - crcBytes
	crc := encbuf.NewDec(b[end:])
	d := encbuf.NewDec(b[:end])
	v := b[headerBytes-1]
	switch {
	case d.BE32() != magic:
		return nil, encbuf.Corrupt(0, "no magic number of a list of blocks")
	case d.Byte() != version && v != versionEmpty:
		return nil, encbuf.Corrupt(4, "unknown version of a list of blocks")
	case crc.BE32() != encbuf.Checksum(b[:end]):
		return nil, encbuf.Corrupt(end, "checksum of the list of blocks does not match")
	}
	blocks := make([]Block, d.Count(minBlockBytes))
	for i := range blocks {
		m := &blocks[i]
		copy(m.ULID[:], d.Bytes(idBytes))
		m.MinTime = d.Varint()
		length := d.Uvarint()
		if length > math.MaxInt64-uint64(m.MinTime) {
			d.Fail("block ends behind all times")
		}
		m.MaxTime = int64(uint64(m.MinTime) + length)
		n := d.Uvarint()
		if v == versionEmpty {
			n, m.Empty = n>>1, n&1 == 1
		}
		if n > uint64(d.Len()/idBytes) {
			d.Fail("more sources than bytes")
			break
		}
		if n > 0 {
			m.Sources = make([]ulid.ULID, n)
			for k := range m.Sources {
				copy(m.Sources[k][:], d.Bytes(idBytes))
			}
		}
	}
	if d.Len() > 0 {
		d.Fail("there is something behind the last block")
	}
	return blocks, d.Err()
}

// State is what Read found.
type State uint8

// The states. A damaged list, and one of a later version, is as good as none.
const (
	None State = iota
	Damaged
	Good
)

// Read reads the list of a data directory. An error is one of the file system.
func Read(fsys fileutil.FS, dataDir string) ([]Block, State, error) {
	path := filepath.Join(dataDir, FileName)
	info, err := fsys.Stat(path)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxBytes) {
		return nil, Damaged, nil
	}
	var b []byte
	if err == nil {
		b, err = fileutil.ReadFile(fsys, path, maxBytes)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, None, nil
	}
	if err != nil {
		return nil, None, errors.WithMessage(err, "read list of blocks")
	}
	blocks, err := Decode(b)
	if err != nil {
		return nil, Damaged, nil
	}
	return blocks, Good, nil
}

// Write replaces the list. When it returns nil the new one is on stable storage. On an error,
// and after a crash, the old or the new one is there, whole.
func Write(fsys fileutil.FS, dataDir string, blocks []Block) error {
	tmp, final := filepath.Join(dataDir, TempName), filepath.Join(dataDir, FileName)
	return errors.WithMessage(fileutil.WriteFileAtomic(fsys, tmp, final, Encode(blocks)), "write list of blocks")
}

// Remove removes the list, for good when it returns nil. That needs no room on the disk.
func Remove(fsys fileutil.FS, dataDir string) error {
	for _, name := range []string{TempName, FileName} {
		if err := fsys.Remove(filepath.Join(dataDir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return errors.WithMessage(err, "remove list of blocks")
		}
	}
	return errors.WithMessage(fsys.SyncDir(dataDir), "remove list of blocks")
}
