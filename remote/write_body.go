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

// writeBody is a body that arrives, and the memory of its request.
type writeBody struct {
	countedBytes
	memory  memoryShare // of all that the request takes
	waiting memoryShare // of bodies: of this one
}

// take implements memoryTaker.
func (b *writeBody) take(n int64) error {
	if err := b.waiting.take(n); err != nil {
		return err
	}
	err := b.memory.take(n)
	if err != nil {
		b.waiting.give(n)
	}
	return err
}

// give implements memoryTaker.
func (b *writeBody) give(n int64) {
	b.waiting.give(n)
	b.memory.give(n)
}

func (in *intake) borrowBody() *writeBody {
	b := in.bodies.Get().(*writeBody)
	b.memory.of, b.waiting.of = &in.memory, &in.buffered
	return b
}

// endBody lets go of a body that nobody needs any more.
func (in *intake) endBody(b *writeBody) {
	kept := keptBody
	if most := in.opts.MaxBufferedBytes; most > 0 {
		kept = min(kept, int(most/keptBodies))
	}
	b.reset(b, kept)
}

// returnBody ends a request: it gives back all that was taken for it.
func (in *intake) returnBody(b *writeBody) {
	in.endBody(b)
	b.memory.end()
	in.bodies.Put(b)
}

// receive reads the body. Memory is taken as bytes arrive.
func (in *intake) receive(w http.ResponseWriter, r *http.Request, b *writeBody) error {
	from := http.MaxBytesReader(w, r.Body, int64(in.opts.MaxBytes))
	had := int64(cap(b.bytes))
	if err := b.take(had); err != nil {
		return err
	}
	b.counted = had
	if err := b.grow(b, int(min(max(r.ContentLength+1, 512), firstBody)), 0); err != nil {
		return err
	}
	for {
		if len(b.bytes) == cap(b.bytes) {
			if err := b.grow(b, 1, in.roomFor(r, len(b.bytes))); err != nil {
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

// roomFor is the room that a body may need of which some bytes are there: as much as its client
// says, and a byte to find its end, if it is not there yet.
func (in *intake) roomFor(r *http.Request, arrived int) int {
	if said := r.ContentLength + 1; said > int64(arrived) {
		return int(min(said, int64(in.opts.MaxBytes)+1))
	}
	return in.opts.MaxBytes + 1
}

// writeBodyError says what is wrong with a body that could not be read.
func writeBodyError(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return errors.WithMessagef(errBodyLimit, "%d bytes", tooLarge.Limit)
	}
	return bodyError(err)
}

// decompress decodes a snappy block of n bytes of content, which was checked, into the memory of
// dst. Of that a pool may have had some before.
func decompress(dst, block []byte, n int, memory *memoryShare) ([]byte, error) {
	if err := memory.take(int64(n)); err != nil {
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
