package chunks

import (
	"encoding/binary"
	"io"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// SegmentScanner reads the segment files of a block once, front to back, to see that the disk
// has what was written. It is used by one goroutine.
type SegmentScanner struct {
	fs       fileutil.FS
	dir      string
	segments int  // how many there are to be
	keep     bool // in the page cache

	file io.ReadCloser // of segment; nil between two
	path string
	next int   // number of the file to open next
	size int64 // of file
	base int64 // offset of buf in file
	buf  []byte
	pos  int // in buf, of the next record

	ref    BlockRef
	record int64 // size of the record at ref
	err    error
}

// NewSegmentScanner returns a scanner before the first chunk of dir, which has this many
// files. They are read past the page cache where that can be done, and through it elsewhere
// (fileutil.OpenFromDisk), where they stay if they are to be kept. The writer was told the same.
func NewSegmentScanner(fsys fileutil.FS, dir string, segments int, keepCached bool) *SegmentScanner {
	return &SegmentScanner{fs: fsys, dir: dir, segments: segments, keep: keepCached}
}

// Next reads the next chunk and checks it; false at the end of the last file and on an
// error. Damage is encbuf.ErrCorrupt with file and offset.
func (s *SegmentScanner) Next() bool {
	for s.err == nil {
		if s.file == nil {
			if s.next == s.segments {
				return false
			}
			s.err = s.open()
			continue
		}
		if s.base+int64(s.pos) == s.size {
			s.err = s.closeFile()
			continue
		}
		s.err = s.read()
		return s.err == nil
	}
	return false
}

// Ref returns the place of the chunk.
func (s *SegmentScanner) Ref() BlockRef { return s.ref }

// RecordSize returns the bytes that it takes in its file.
func (s *SegmentScanner) RecordSize() int64 { return s.record }

// Err returns what ended the scan, nil for the end of the files.
func (s *SegmentScanner) Err() error { return s.err }

// Close closes the file being read. It may be called again.
func (s *SegmentScanner) Close() error { return s.closeFile() }

//go:noinline
func (s *SegmentScanner) closeFile() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}

// open begins the next file and checks its header.
func (s *SegmentScanner) open() (err error) {
	s.path = filepath.Join(s.dir, SegmentName(s.next))
	if s.file, s.size, err = fileutil.OpenFromDisk(s.fs, s.path, s.keep); err != nil {
		return err
	}
	s.next++
	s.base, s.pos, s.buf = 0, 0, s.buf[:0]
	if err := s.fill(int(min(segmentHeaderSize, s.size))); err != nil {
		return err
	}
	if damage := checkSegmentHeader(s.buf); damage != nil {
		return damage.At(s.path, 0)
	}
	s.pos = segmentHeaderSize
	return nil
}

// read checks the record at pos and moves behind it.
func (s *SegmentScanner) read() error {
	off := s.base + int64(s.pos)
	if off > maxSegmentOffset {
		return encbuf.Corrupt(0, "chunk begins behind the last place that a ref can name").At(s.path, off)
	}
	rest := s.size - off
	if err := s.fill(int(min(maxLengthSize, rest))); err != nil {
		return err
	}
	length, n := binary.Uvarint(s.buf[s.pos:min(s.pos+maxLengthSize, len(s.buf))])
	if n <= 0 {
		return encbuf.Corrupt(0, "chunk has a bad length").At(s.path, off)
	}
	if length > maxSegmentChunk || int64(length) > rest-int64(n)-1-crcSize {
		return encbuf.Corrupt(0, "chunk is longer than its file").At(s.path, off)
	}
	size := n + 1 + int(length) + crcSize
	if err := s.fill(size); err != nil {
		return err
	}
	b := s.buf[s.pos : s.pos+size]
	if encbuf.Checksum(b[n:size-crcSize]) != binary.BigEndian.Uint32(b[size-crcSize:]) {
		return encbuf.Corrupt(0, "chunk has a wrong checksum").At(s.path, off)
	}
	s.ref, s.record = NewBlockRef(uint32(s.next-1), uint32(off)), int64(size)
	s.pos += size
	return nil
}

// fill makes sure that n bytes from pos on, which the file has, are in buf.
func (s *SegmentScanner) fill(n int) error {
	if len(s.buf)-s.pos >= n {
		return nil
	}
	kept := copy(s.buf, s.buf[s.pos:])
	s.base += int64(s.pos)
	s.pos = 0
	want := int(min(int64(max(n, segmentPieceBytes)), s.size-s.base))
	if cap(s.buf) < want {
		s.buf = append(make([]byte, 0, want), s.buf[:kept]...)
	}
	s.buf = s.buf[:want]
	got, err := io.ReadFull(s.file, s.buf[kept:])
	if err == nil {
		return nil
	}
	s.buf = s.buf[:kept+got]
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return encbuf.Corrupt(0, "file ends before its size").At(s.path, s.base+int64(kept+got))
	}
	return errors.WithMessage(err, s.path)
}
