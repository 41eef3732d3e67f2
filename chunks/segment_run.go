package chunks

import (
	"encoding/binary"
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Run is a copy of chunks that lie close behind each other in a segment file, as those of
// one series do: one access of the file for all of them. It is only what is read ahead.
// Whatever is wrong with a chunk, it is not in the run, and Segments.Read tells what it is.
// The zero Run is empty; a Run belongs to one goroutine.
type Run struct {
	first BlockRef
	buf   []byte
}

// maxRunChunk is the longest record that a run ends with: longer ones are read by
// themselves, so that a run has little more than what lies between its ends. Those of 120
// samples have a thousand bytes.
const maxRunChunk = 16 << 10

// usualChunk is room for the last record of most runs: 120 samples of thirty bits.
const usualChunk = 480

// ReadRun copies the records from first to last, which is in the same file and not before
// it, to the run, whose memory is used again.
func (s *Segments) ReadRun(r *Run, first, last BlockRef) {
	r.first, r.buf = first, r.buf[:0]
	if last < first || first.Segment() != last.Segment() || uint64(first.Segment()) >= uint64(len(s.files)) {
		return
	}
	f := &s.files[first.Segment()]
	if f.damage != nil || first.Offset() < segmentHeaderSize || int64(last.Offset()) >= f.size {
		return
	}
	off := int64(first.Offset())
	b, err := f.mapping.At(off, int(f.size-off))
	if err != nil {
		return
	}
	err = fileutil.GuardFaults(func() error {
		// Front to back: the start of the last record by itself would be waited for.
		r.buf = append(slices.Grow(r.buf, int(last-first)+usualChunk), b[:last-first]...)
		b = b[last-first:]
		if record, damage := parseSegmentRecord(b); damage == nil && record.size() <= maxRunChunk {
			r.buf = append(r.buf, b[:record.size()]...)
		}
		return nil
	})
	if err != nil {
		r.buf = r.buf[:0]
	}
}

// Reset empties the run: refs of another block mean something else.
func (r *Run) Reset() { r.buf = r.buf[:0] }

// Chunk returns the chunk at ref if the run has it and its checksum is right. The data
// aliases the run.
func (r *Run) Chunk(ref BlockRef) (enc chunkenc.Encoding, data []byte, ok bool) {
	if ref < r.first || ref-r.first >= BlockRef(len(r.buf)) {
		return 0, nil, false
	}
	b := r.buf[ref-r.first:]
	record, damage := parseSegmentRecord(b)
	if damage != nil {
		return 0, nil, false
	}
	sum := binary.BigEndian.Uint32(b[record.dataEnd:])
	if encbuf.Checksum(b[record.encAt:record.dataEnd]) != sum {
		return 0, nil, false
	}
	return chunkenc.Encoding(b[record.encAt]), b[record.encAt+1 : record.dataEnd : record.dataEnd], true
}
