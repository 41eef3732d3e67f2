package index

import (
	"encoding/binary"
	"math"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// blockFile is the index file of a block, mapped. Its bytes may be damaged, or change or
// vanish while they are read.
type blockFile struct {
	name    string
	mapping fileutil.Mapping // outlives the file
	b       []byte           // all of it
	closed  atomic.Bool
}

// mapAll maps f. Its bytes are to be read under a guard.
func (bf *blockFile) mapAll(f fileutil.File) error {
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size < minBlockBytes {
		return bf.corrupt(0, "file is too short for an index")
	}
	if size > math.MaxInt {
		return errors.WithMessagef(ErrTooLarge, "map %s", bf.name)
	}
	if bf.mapping, err = f.Mmap(size); err != nil {
		return err
	}
	return bf.placed(fileutil.GuardFaults(func() error {
		bf.b, err = bf.mapping.At(0, int(size))
		return err
	}))
}

// close gives the mapping up, once.
func (bf *blockFile) close() error {
	if bf.closed.Swap(true) || bf.mapping == nil {
		return nil
	}
	return bf.mapping.Close()
}

// section returns the content of a section that fills off..end:
//
//	+---------------+---------+------------+
//	| length (be32) | content | crc (be32) |
//	+---------------+---------+------------+
func (bf *blockFile) section(off, end int, what string) ([]byte, error) {
	content := off + sectionHeadBytes
	if end-content < countBytes+crcBytes {
		return nil, bf.corrupt(off, what+" is cut off")
	}
	if uint64(binary.BigEndian.Uint32(bf.b[off:])) != uint64(end-crcBytes-content) {
		return nil, bf.corrupt(off, what+" has another length than its section")
	}
	b := bf.b[content : end-crcBytes]
	if binary.BigEndian.Uint32(bf.b[end-crcBytes:]) != encbuf.Checksum(b) {
		return nil, bf.corrupt(off, "checksum of the "+what+" does not match")
	}
	return b, nil
}

// corrupt is damage at an offset.
func (bf *blockFile) corrupt(off int, reason string) error {
	return encbuf.Corrupt(off, reason).At(bf.name, 0)
}

// at places damage of a section that begins at base in the file.
func (bf *blockFile) at(err error, base int) error {
	if damage, ok := encbuf.AsCorrupt(err); ok {
		return damage.At(bf.name, int64(base))
	}
	return err
}

// guard runs fn, which reads mapped bytes, and gives faults of the memory as errors.
func (bf *blockFile) guard(fn func() error) error {
	if bf.closed.Load() {
		return ErrClosed
	}
	return bf.placed(fileutil.GuardFaults(fn))
}

// placed gives a fault of the memory the name of the file: it is damage like other kinds.
func (bf *blockFile) placed(err error) error {
	if errors.Is(err, fileutil.ErrMemoryFault) {
		return &unreadable{encbuf.Corrupt(0, err.Error()).At(bf.name, 0)}
	}
	return err
}

// unreadable is damage that a fault of the memory has shown.
type unreadable struct{ damage *encbuf.CorruptError }

func (u *unreadable) Error() string   { return u.damage.Error() }
func (u *unreadable) Unwrap() []error { return []error{u.damage, fileutil.ErrMemoryFault} }
