// Package chunks knows how chunks are stored in files and how they are referred
// to: series refs, chunk refs, the head-chunk files that hold full chunks of the head
// until a block has them, and the segment files of blocks. It does not look into
// chunks (that is chunkenc) and does not know labels or which chunks are still wanted.
//
// The files are stable, the Go API is not: it may change in any release.
//
// HeadFiles has one writer at a time and any number of concurrent readers; a
// SegmentWriter belongs to one goroutine, Segments to any number. Each method says
// more. The formats are described in docs/format/chunks.md.
package chunks

// SeriesRef is the number of a series in this process and its log. 0 is no series.
type SeriesRef uint64

// MaxSeriesRef is the highest ref that may be handed out: the reference keeps refs
// in five bytes and panics above.
const MaxSeriesRef SeriesRef = 1<<40 - 1

// Ref is the place of a chunk: file number in the upper 32 bits, offset of
// its record in the lower ones. Refs grow in the order of writing.
type Ref uint64

// NewRef returns the ref of a place.
func NewRef(file, offset uint32) Ref { return Ref(file)<<32 | Ref(offset) }

// File returns the number of the file.
func (r Ref) File() uint32 { return uint32(r >> 32) }

// Offset returns the bytes from the start of the file to the record.
func (r Ref) Offset() uint32 { return uint32(r) }

// Mapped is a full chunk of a series: where it is in a head-chunk file, and what times it has.
type Mapped struct {
	Ref        Ref
	MinT, MaxT int64 // closed
	Num        uint16
}
