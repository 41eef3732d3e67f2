package chunks

import (
	"encoding/binary"
	"math"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// HeadExtent is the beginning of a head-chunk file that ends with a whole record. It tells
// later what is still the same: Load need not read it again.
type HeadExtent struct {
	File uint32 // number
	Size int64  // bytes, at least those of the header
	Tail uint32 // the last four of them: the checksum of a record
}

// tail returns the last four bytes before size.
func (f *headFile) tail(size int64) (tail uint32, err error) {
	m, err := f.open()
	if err != nil {
		return 0, err
	}
	b, err := m.At(size-crcSize, crcSize)
	if err != nil {
		return 0, err
	}
	err = fileutil.GuardFaults(func() error { tail = binary.BigEndian.Uint32(b); return nil })
	return tail, err
}

// trust takes an extent for granted if the file is as it was then.
func (f *headFile) trust(e HeadExtent) error {
	if e.Size < headHeaderSize || e.Size > f.mapLen || e.Size > math.MaxUint32 {
		return nil
	}
	header, err := readHeader(f)
	if err != nil {
		return err
	}
	tail, err := f.tail(e.Size)
	if err != nil {
		return err
	}
	if checkHeader(header) == nil && tail == e.Tail {
		f.trusted, f.synced = e, e.Size
	}
	return nil
}
