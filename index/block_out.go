package index

import (
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

const (
	// outBytes is how much is gathered for one write: larger ones are no faster.
	outBytes = 256 << 10

	// syncBytes is how much may wait for a sync: a large one at the end would hold up
	// the syncs of the log, which shares the disk.
	syncBytes = 8 << 20
)

// blockOut is a file that is written front to back.
type blockOut struct {
	f        fileutil.File
	written  func(n int) error // told of each write; may be nil
	buf      []byte            // not yet written
	flushed  int64             // bytes written
	unsynced int
	behind   fileutil.WriteBehind
	err      error // the first one; nothing is written behind it
}

// pos returns where the next byte goes.
func (o *blockOut) pos() int64 { return o.flushed + int64(len(o.buf)) }

// align fills up with zeros to a multiple of n.
//
//go:noinline
func (o *blockOut) align(n int64) {
	for pos := o.pos(); pos%n != 0; pos++ {
		o.buf = append(o.buf, 0)
	}
}

// write takes b, of any length.
func (o *blockOut) write(b []byte) error {
	for len(b) > 0 {
		n := min(len(b), max(outBytes-len(o.buf), 1))
		o.buf = append(o.buf, b[:n]...)
		b = b[n:]
		if err := o.flushFull(); err != nil {
			return err
		}
	}
	return nil
}

// flushFull writes if enough has been gathered for it.
func (o *blockOut) flushFull() error {
	if len(o.buf) < outBytes {
		return o.err
	}
	return o.flush()
}

// flush writes all that was gathered. Its errors stay.
func (o *blockOut) flush() error {
	if o.err != nil || len(o.buf) == 0 {
		return o.err
	}
	n, err := o.f.Write(o.buf)
	o.flushed += int64(n)
	o.unsynced += n
	o.buf = o.buf[:0]
	if err == nil {
		o.behind.Grown(o.f, o.flushed, fileutil.BehindBytes)
	}
	if err == nil && o.written != nil {
		err = o.written(n)
	}
	if err == nil && o.unsynced >= syncBytes {
		err = o.sync()
	}
	o.err = err
	return err
}

func (o *blockOut) sync() error {
	o.unsynced = 0
	return o.f.Sync()
}

// finish makes everything durable and closes the file, whatever happens.
func (o *blockOut) finish() error {
	err := o.flush()
	if err == nil {
		err = o.sync()
	}
	err = fileutil.JoinErrors(err, o.f.Close())
	o.err = fileutil.JoinErrors(err, ErrClosed)
	return err
}

// seriesScan reads back the series entries that were written, in order.
type seriesScan struct {
	f        fileutil.File
	off, end int64  // of the next entry, and of the last byte
	buf      []byte // bytes of the file from bufOff on
	bufOff   int64
}

// maxLengthBytes is the longest form of an entry's length.
const maxLengthBytes = encbuf.MaxVarintLen32

// next returns the place and the body of the next entry; nil at the end. Bodies are
// valid until the next call.
func (s *seriesScan) next() (off int64, body []byte, err error) {
	s.off = alignUp(s.off, seriesAlign)
	if s.off >= s.end {
		return 0, nil, nil
	}
	head, err := s.bytes(int(min(maxLengthBytes, s.end-s.off)))
	if err != nil {
		return 0, nil, err
	}
	d := encbuf.NewDec(head)
	length := d.Uvarint()
	n := d.Offset()
	if d.Err() != nil || length > uint64(s.end-s.off)-min(uint64(n+crcBytes), uint64(s.end-s.off)) {
		return 0, nil, s.corrupt("length of a series entry is not what was written")
	}
	entry, err := s.bytes(n + int(length) + crcBytes)
	if err != nil {
		return 0, nil, err
	}
	body = entry[n : n+int(length)]
	d = encbuf.NewDec(entry[n+int(length):])
	if d.BE32() != encbuf.Checksum(body) {
		return 0, nil, s.corrupt("series entry is not what was written")
	}
	off = s.off
	s.off += int64(len(entry))
	return off, body, nil
}

func (s *seriesScan) corrupt(reason string) error {
	return encbuf.Corrupt(0, reason).At(s.f.Name(), s.off)
}

// bytes returns n bytes from off on.
func (s *seriesScan) bytes(n int) ([]byte, error) {
	if s.off < s.bufOff || s.off+int64(n) > s.bufOff+int64(len(s.buf)) {
		if err := s.fill(n); err != nil {
			return nil, err
		}
	}
	from := int(s.off - s.bufOff)
	return s.buf[from : from+n], nil
}

func (s *seriesScan) fill(n int) error {
	want := int(min(int64(max(n, outBytes)), s.end-s.off))
	if cap(s.buf) < want {
		s.buf = make([]byte, want)
	}
	s.buf, s.bufOff = s.buf[:want], s.off
	if got, err := s.f.ReadAt(s.buf, s.off); got < want {
		s.buf = s.buf[:0]
		return errors.WithMessage(err, "read series back")
	}
	return nil
}
