package remote

import (
	"io"
	"net/http"
	"slices"

	"github.com/golang/snappy"
	"github.com/pkg/errors"
)

// firstBody is the room for a body of unknown length, and most of what a length that a client
// claims is believed.
const firstBody = 64 << 10

// receive reads the body. Memory is taken as bytes arrive, and counted against that of all
// bodies.
func (h *writeHandler) receive(w http.ResponseWriter, r *http.Request, q *writeRequest) error {
	in := http.MaxBytesReader(w, r.Body, int64(h.opts.MaxBytes))
	q.body = q.body[:0]
	q.body = slices.Grow(q.body, int(min(max(r.ContentLength+1, 512), firstBody)))
	for {
		if len(q.body) == cap(q.body) {
			q.body = slices.Grow(q.body, len(q.body))
		}
		n, err := in.Read(q.body[len(q.body):cap(q.body)])
		q.body = q.body[:len(q.body)+n]
		q.buffered += int64(n)
		all := h.buffered.Add(int64(n))
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return writeBodyError(err)
		case h.opts.MaxBufferedBytes > 0 && all > h.opts.MaxBufferedBytes:
			return errBusy
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
