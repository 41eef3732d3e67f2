package remote

import (
	"bufio"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/pkg/errors"
)

const (
	// frameReadBytes is the buffer between the connection and the frames.
	frameReadBytes = 32 << 10
	// frameStepBytes is how much of a frame room is made for before its bytes are there:
	// a length costs its sender nothing.
	frameStepBytes = 64 << 10
)

// frameReader reads the data of one frame after the other, and keeps one.
type frameReader struct {
	r     *bufio.Reader
	limit int   // of the data of a frame, in bytes
	off   int64 // of the next byte in the body
	buf   []byte
}

func newFrameReader(r io.Reader, limit int) *frameReader {
	return &frameReader{r: bufio.NewReaderSize(r, frameReadBytes), limit: limit}
}

// next returns the data of the next frame, valid until the next call. The end of the body
// between two frames is io.EOF, anywhere else it is errMalformed.
func (f *frameReader) next() ([]byte, error) {
	start := f.off
	size, err := f.size()
	if err != nil {
		return nil, err
	}
	if size > uint64(f.limit) {
		return nil, errors.WithMessagef(errLimit, "frame of %d bytes at offset %d, the limit is %d", size, start, f.limit)
	}
	var sum [crc32.Size]byte
	if err := f.read(sum[:]); err != nil {
		return nil, err
	}
	f.buf = f.buf[:0]
	for len(f.buf) < int(size) {
		at := len(f.buf)
		n := min(int(size)-at, max(frameStepBytes, at))
		if cap(f.buf) < at+n {
			f.buf = append(make([]byte, 0, at+n), f.buf...)
		}
		f.buf = f.buf[:at+n]
		if err := f.read(f.buf[at:]); err != nil {
			return nil, err
		}
	}
	if crc32.Checksum(f.buf, castagnoli) != binary.BigEndian.Uint32(sum[:]) {
		return nil, errors.WithMessagef(errMalformed, "frame at offset %d: checksum does not match", start)
	}
	return f.buf, nil
}

// size reads the length of a frame.
func (f *frameReader) size() (size uint64, err error) {
	for shift := uint(0); ; shift += 7 {
		b, err := f.r.ReadByte()
		if err == io.EOF && shift == 0 {
			return 0, io.EOF
		}
		if err != nil {
			return 0, cutOff(err, f.off)
		}
		if shift == 63 && b > 1 {
			return 0, errors.WithMessagef(errMalformed, "length of a frame at offset %d", f.off)
		}
		f.off++
		size |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return size, nil
		}
	}
}

func (f *frameReader) read(p []byte) error {
	n, err := io.ReadFull(f.r, p)
	f.off += int64(n)
	if err != nil {
		return cutOff(err, f.off)
	}
	return nil
}

// cutOff tells the end of a body where there should be none from other errors.
func cutOff(err error, off int64) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.WithMessagef(errMalformed, "cut off at offset %d", off)
	}
	return errors.Wrap(err, "read answer")
}
