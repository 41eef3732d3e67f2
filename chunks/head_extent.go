package chunks

import (
	"encoding/binary"
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// HeadExtent is the beginning of a head-chunk file that ends with a whole record. It tells
// later what is still the same: Load need not read it again.
type HeadExtent struct {
	File uint32 // number
	Size int64  // bytes, at least those of the header
	Tail uint32 // the last four of them: the checksum of a record
}

// SyncExtents puts what was written before on stable storage and returns what all files
// have then, in order. Errors as those of Sync; damage of a page that cannot be read.
func (h *HeadFiles) SyncExtents() ([]HeadExtent, error) {
	if err := h.Sync(); err != nil {
		return nil, err
	}
	h.w.Lock()
	defer h.w.Unlock()
	h.mu.RLock()
	defer h.mu.RUnlock()
	var list []HeadExtent
	for _, f := range h.mu.live {
		e := HeadExtent{File: f.number, Size: f.size.Load()}
		if e.Size < headHeaderSize {
			continue // not written yet
		}
		var err error
		if e.Tail, err = f.tail(e.Size); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
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

// Trust makes Load begin behind the extents, which SyncExtents returned to an earlier
// process: of those that are as they were then. LoadReport.Trusted has which these are. It is
// called before Load.
func (h *HeadFiles) Trust(list []HeadExtent) error {
	h.w.Lock()
	defer h.w.Unlock()
	if h.w.loadCalled {
		return errors.New("trust head chunk files: they were loaded before")
	}
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, e := range list {
		f := h.mu.byNum[e.File]
		if f == nil || e.Size < headHeaderSize || e.Size > f.mapLen || e.Size > math.MaxUint32 {
			continue
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
			f.trusted = e
		}
	}
	return nil
}
