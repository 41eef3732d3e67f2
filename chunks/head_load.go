package chunks

import (
	"encoding/binary"
	"fmt"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// loadBatch is how many records are read under one guard before Load's function
// sees them: it must not run under the guard, and guards cost about 50 ns.
const loadBatch = 256

// forgetBytes is how much of a file is read before it stops counting as memory of this process:
// all files together may be more than the head has in memory.
const forgetBytes = 1 << 20

// HeadChunk is a chunk in a head-chunk file.
type HeadChunk struct {
	Series     SeriesRef
	Ref        Ref
	MinT, MaxT int64 // times of its first and last sample, milliseconds
	Encoding   chunkenc.Encoding
	NumSamples int
	OutOfOrder bool
}

// LoadReport says what Load found.
type LoadReport struct {
	Files      int   // whose chunks are used, the good part of a damaged one included
	Bytes      int64 // of them
	Chunks     int   // passed on
	OutOfOrder int   // of those
	Unknown    int   // chunks of encodings that this version does not read; skipped

	// Trusted are the extents that were taken for granted; Chunks does not count those in
	// them.
	Trusted []HeadExtent

	// Damage is the first damage, with file and offset; nil if there is none. Chunks
	// behind it, in later files too, are not used: a hole in a series would make
	// the chunks behind it worse than useless.
	Damage *encbuf.CorruptError
	// GoodBytes is the length of the good part of the damaged file, 0 if not even its
	// header is good.
	GoodBytes int64
	// DroppedFiles are the files behind the damage, and DroppedBytes the size of
	// all that is not used.
	DroppedFiles []string
	DroppedBytes int64
	// Unwritten is a last file that was created and never written, or empty. It is
	// no damage; Repair removes it.
	Unwritten string
}

// NeedsRepair says whether Repair has something to do before the first Write.
func (r *LoadReport) NeedsRepair() bool { return r.Damage != nil || r.Unwritten != "" }

// Load reads all files in order, verifies every record but those that Trust vouches for, and calls
// fn with each chunk whose encoding is known; fn may call Read and nothing else of h. Load is
// called once, before Write, and changes nothing on disk. Damage ends the reading and is in the
// report, not in the error; it and Repair's part are kept for Repair. An error of fn ends Load and
// is returned.
func (h *HeadFiles) Load(fn func(HeadChunk) error) (LoadReport, error) {
	h.w.Lock()
	defer h.w.Unlock()
	var rep LoadReport
	if h.w.loadCalled {
		return rep, errors.New("load head chunk files: they were loaded before")
	}
	h.w.loadCalled = true
	live := h.table.files()
	l := loader{fn: fn, rep: &rep, batch: make([]HeadChunk, 0, loadBatch)}
	good, err := l.loadAll(live)
	if err != nil {
		return rep, err
	}
	if good > 0 {
		h.w.out.next = live[good-1].number + 1
	} else if len(live) > 0 {
		h.w.out.next = live[0].number
	}
	h.w.loaded = true
	if !rep.NeedsRepair() {
		return rep, nil
	}
	h.w.repair = planRepair(&h.w.out, &rep, live[:good], live[good:])
	return rep, h.table.retire(live[good:])
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
	for _, e := range list {
		if f := h.table.file(e.File); f != nil {
			if err := f.trust(e); err != nil {
				return err
			}
		}
	}
	return nil
}

// isUnwritten says whether a last file is one that was created and not written: shorter
// than its header, or nothing but zeros.
func isUnwritten(f *headFile) (unwritten bool, err error) {
	if f.mapLen < headHeaderSize {
		return true, nil
	}
	m, err := f.open()
	if err != nil {
		return false, err
	}
	b, err := m.At(0, int(f.mapLen))
	if err != nil {
		return false, err
	}
	fault := fileutil.GuardFaults(func() error { unwritten = encbuf.AllZero(b); return nil })
	return unwritten && fault == nil, nil
}

// readHeader copies the header of a file that is long enough. A page that cannot be
// read gives an impossible one.
func readHeader(f *headFile) (header [headHeaderSize]byte, err error) {
	m, err := f.open()
	if err != nil {
		return header, err
	}
	b, err := m.At(0, headHeaderSize)
	if err != nil {
		return header, err
	}
	if fileutil.GuardFaults(func() error { copy(header[:], b); return nil }) != nil {
		header[0] = 0xff
	}
	return header, nil
}

// checkHeader says what is wrong with a header.
func checkHeader(header [headHeaderSize]byte) *encbuf.CorruptError {
	if magic := binary.BigEndian.Uint32(header[:]); magic != headMagic {
		return encbuf.Corrupt(0, fmt.Sprintf("magic number %#08x of a head chunk file, expected %#08x", magic, uint32(headMagic)))
	}
	if header[4] != headVersion {
		return encbuf.Corrupt(4, fmt.Sprintf("version %d of a head chunk file, expected %d", header[4], headVersion))
	}
	return nil
}

// loader reads the records of one file after the other.
type loader struct {
	fn    func(HeadChunk) error
	rep   *LoadReport
	batch []HeadChunk
	off   int // of the next record
	kept  int // where what was read and may be in memory begins
}

// loadAll reads files up to the first damage and returns how many of them are kept,
// the one whose good part is kept included.
func (l *loader) loadAll(files []*headFile) (good int, err error) {
	for i, f := range files {
		if i > 0 && f.number != files[i-1].number+1 {
			reason := fmt.Sprintf("head chunk file follows number %d, those between are missing", files[i-1].number)
			l.rep.Damage = encbuf.Corrupt(0, reason).At(f.path, 0)
			return i, nil
		}
		if i == len(files)-1 {
			unwritten, err := isUnwritten(f)
			if err != nil {
				return i, err
			}
			if unwritten {
				l.rep.Unwritten = f.path
				return i, nil
			}
		}
		if err := l.load(f); err != nil {
			return i, err
		}
		if l.rep.Damage != nil && l.rep.GoodBytes == 0 {
			return i, nil
		}
		if l.rep.Damage != nil {
			return i + 1, nil
		}
	}
	return len(files), nil
}

// load passes on the chunks of f up to damage, which it puts into the report. A file
// without a good header has no good bytes.
func (l *loader) load(f *headFile) error {
	if f.mapLen < headHeaderSize {
		l.rep.Damage = encbuf.Corrupt(int(f.mapLen), "file ends inside its header").At(f.path, 0)
		return nil
	}
	header, err := readHeader(f)
	if err != nil {
		return err
	}
	if damage := checkHeader(header); damage != nil {
		l.rep.Damage = damage.At(f.path, 0)
		return nil
	}
	m, err := f.open()
	if err != nil {
		return err
	}
	b, err := m.At(0, int(f.mapLen))
	if err != nil {
		return err
	}
	l.off = int(max(headHeaderSize, f.trusted.Size))
	l.kept = 0
	if f.trusted.Size > 0 {
		l.rep.Trusted = append(l.rep.Trusted, f.trusted)
	}
	for more := true; more; {
		if more, err = l.next(f, b); err != nil {
			return err
		}
		if l.off-l.kept >= forgetBytes {
			l.forget(m, l.off)
		}
	}
	l.kept = 0 // around a place that is read the system maps what was forgotten before, too
	l.forget(m, len(b))
	f.size.Store(int64(l.off))
	l.rep.Files++
	l.rep.Bytes += int64(l.off)
	if l.rep.Damage != nil {
		l.rep.GoodBytes = int64(l.off)
	}
	return nil
}

// forget gives back the memory of what was read up to a place.
func (l *loader) forget(m fileutil.Mapping, to int) {
	fileutil.Forget(m, int64(l.kept), int64(to-l.kept))
	l.kept = to
}

// next passes on one batch and says whether there may be more.
func (l *loader) next(f *headFile, b []byte) (more bool, err error) {
	var damage *encbuf.CorruptError
	l.batch = l.batch[:0]
	fault := fileutil.GuardFaults(func() error {
		more, damage = l.scan(f.number, b)
		return nil
	})
	if fault != nil {
		more, damage = false, encbuf.Corrupt(0, fault.Error())
	}
	if damage != nil {
		l.rep.Damage = damage.At(f.path, int64(l.off))
	}
	for i := range l.batch {
		l.rep.Chunks++
		if l.batch[i].OutOfOrder {
			l.rep.OutOfOrder++
		}
		if err := l.fn(l.batch[i]); err != nil {
			return false, err
		}
	}
	return more, nil
}

// scan fills the batch with the next records of b and moves off behind them.
func (l *loader) scan(number uint32, b []byte) (more bool, _ *encbuf.CorruptError) {
	for len(l.batch) < cap(l.batch) {
		r, ok, damage := nextRecord(b[l.off:])
		if !ok {
			return false, damage
		}
		c := HeadChunk{
			Series:     r.series,
			Ref:        NewRef(number, uint32(l.off)),
			MinT:       r.mint,
			MaxT:       r.maxt,
			Encoding:   r.encoding(),
			OutOfOrder: r.enc&oooBit != 0,
		}
		chunk, err := chunkenc.FromData(c.Encoding, b[l.off+r.dataStart:l.off+r.dataEnd])
		l.off += r.size()
		if err != nil { // too short chunks were damage already
			l.rep.Unknown++
			continue
		}
		c.NumSamples = chunk.NumSamples()
		l.batch = append(l.batch, c)
	}
	return true, nil
}
