package wal

import (
	"io"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Reader reads the records of one segment in order, for tools and tests. It applies
// none of the reading rules: it shows what is there, private records included.
type Reader struct {
	file    string
	segment int
	close   io.Closer
	s       scanner
	d       decompressor
	stored  []byte // the record as it is in the segment
	rec     []byte // uncompressed, in stored or buf
	buf     []byte
	item    item
	err     error
}

// NewReader returns a reader of a segment of size bytes. file and segment only name
// it.
func NewReader(src io.ReaderAt, size int64, file string, segment int) *Reader {
	return &Reader{file: file, segment: segment, s: scanner{src: src, size: size}}
}

// OpenReader opens a segment that List found. Close it.
func OpenReader(fsys fileutil.FS, seg SegmentFile) (*Reader, error) {
	f, err := fsys.Open(seg.Path)
	if err != nil {
		return nil, errors.WithMessage(err, "open log segment")
	}
	size, err := f.Size()
	if err != nil {
		return nil, errors.WithMessage(fileutil.JoinErrors(err, f.Close()), "open log segment")
	}
	r := NewReader(f, size, seg.Path, seg.Number)
	r.close = f
	return r, nil
}

// Next moves to the next record. False: the segment ends here, or Err says what is
// wrong here.
func (r *Reader) Next() bool {
	if r.err != nil {
		return false
	}
	r.stored, r.item = r.s.next(r.stored[:0])
	switch {
	case r.s.err != nil:
		r.err = errors.WithMessagef(r.s.err, "read log segment %s", r.file)
	case r.item.kind == itemDamage:
		r.err = &encbuf.CorruptError{File: r.file, Offset: r.item.off, Reason: r.item.reason}
	case r.item.kind == itemRecord:
		r.decompress()
	}
	return r.err == nil && r.item.kind == itemRecord
}

func (r *Reader) decompress() {
	r.rec = r.stored
	if r.item.comp == CompressionNone {
		return
	}
	r.d.begin()
	buf, err := r.d.appendDecoded(r.buf[:0], r.item.comp, r.stored)
	r.buf = buf
	if err != nil {
		r.err = &encbuf.CorruptError{File: r.file, Offset: r.item.off, Reason: "record cannot be decompressed: " + err.Error()}
		return
	}
	r.rec = buf
}

// Record returns the record, uncompressed; valid until the next Next.
func (r *Reader) Record() []byte { return r.rec }

// Compression returns how the record is stored.
func (r *Reader) Compression() Compression { return r.item.comp }

// Segment returns the number of the segment.
func (r *Reader) Segment() int { return r.segment }

// Offset returns where the record, or the damage that ended the reading, begins in the
// segment, in bytes.
func (r *Reader) Offset() int64 { return r.item.off }

// End returns where it ends.
func (r *Reader) End() int64 { return r.item.end }

// Err returns nil at the end of the segment, otherwise an *encbuf.CorruptError or what
// the file system said.
func (r *Reader) Err() error { return r.err }

// Skip lets Next go on behind damage. It reports whether there was any.
func (r *Reader) Skip() bool {
	if !errors.Is(r.err, encbuf.ErrCorrupt) {
		return false
	}
	r.err = nil
	return true
}

// Close closes what OpenReader opened.
func (r *Reader) Close() error {
	if r.close == nil {
		return nil
	}
	return r.close.Close()
}
