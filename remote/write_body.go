package remote

import (
	"io"
	"net/http"
	"time"

	"github.com/golang/snappy"
	"github.com/pkg/errors"
)

// firstBody is the room for a body of unknown length, and most of what a length that a client
// claims is believed.
const firstBody = 64 << 10

// keptBody is the most memory that is kept for another body, and keptBodies are how many of those
// there may be together: one that waits for a slow client must not hold what a large one needed.
const (
	keptBody   = 1 << 20
	keptBodies = 256
)

// writeBody is a body that arrives.
type writeBody struct {
	bytes   []byte
	counted int64 // of its memory, by the handler
}

func (in *intake) borrowBody() *writeBody {
	b := in.bodies.Get().(*writeBody)
	b.bytes = b.bytes[:0]
	return b
}

func (in *intake) returnBody(b *writeBody) {
	in.buffered.Add(-b.counted)
	b.counted = 0
	if n := int64(cap(b.bytes)); n > keptBody || in.opts.MaxBufferedBytes > 0 && n > in.opts.MaxBufferedBytes/keptBodies {
		b.bytes = nil
	}
	in.bodies.Put(b)
}

// grow makes room for n more bytes. Memory is counted against that of all bodies.
func (in *intake) grow(b *writeBody, n int) error {
	more := int64(max(len(b.bytes)+n, cap(b.bytes))) - b.counted
	if all := in.buffered.Add(more); in.opts.MaxBufferedBytes > 0 && all > in.opts.MaxBufferedBytes {
		in.buffered.Add(-more)
		return errBusy
	}
	b.counted += more
	if len(b.bytes)+n > cap(b.bytes) {
		b.bytes = append(make([]byte, 0, len(b.bytes)+n), b.bytes...)
	}
	return nil
}

// receive reads the body. Memory is taken as bytes arrive.
func (in *intake) receive(w http.ResponseWriter, r *http.Request, b *writeBody) error {
	from := http.MaxBytesReader(w, r.Body, int64(in.opts.MaxBytes))
	if err := in.grow(b, int(min(max(r.ContentLength+1, 512), firstBody))); err != nil {
		return err
	}
	for {
		if len(b.bytes) == cap(b.bytes) {
			if err := in.grow(b, len(b.bytes)); err != nil {
				return err
			}
		}
		n, err := from.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case err == io.EOF:
			if in.opts.ReadTimeout > 0 {
				// Left in place it would end the request, as if the client were gone.
				_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
			}
			return nil
		case err != nil:
			return writeBodyError(err)
		}
	}
}

// writeBodyError says what is wrong with a body that could not be read.
func writeBodyError(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return errors.WithMessagef(errBodyLimit, "%d bytes", tooLarge.Limit)
	}
	return bodyError(err)
}

// decompress decodes a snappy block into the memory of dst. A length that the block cannot have is
// refused before anything is allocated for it.
func decompress(dst, block []byte, limit int) ([]byte, error) {
	n, err := checkBlock(block, limit)
	if err != nil {
		return dst, err
	}
	if cap(dst) < n {
		dst = make([]byte, n)
	}
	content, err := snappy.Decode(dst[:cap(dst)], block)
	if err != nil {
		return dst, errors.WithMessage(errMalformed, "snappy block")
	}
	return content, nil
}
