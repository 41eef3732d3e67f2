package remote

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"

	"github.com/pkg/errors"
)

// inflater inflates bodies. It keeps its memory.
type inflater struct {
	zipped  bytes.Reader
	from    gzip.Reader
	content countedBytes
}

const leastRead = 512 // bytes that there is room for at a time

// inflate inflates a body. What it returns is good until the next call. How much there is of it is
// seen as it comes, and much needs another place.
func (z *inflater) inflate(ctx context.Context, b *writeBody, turn *turn) ([]byte, error) {
	limit := turn.in.opts.MaxBytes
	defer z.zipped.Reset(nil)
	z.zipped.Reset(b.bytes)
	if err := z.from.Reset(&z.zipped); err != nil {
		return nil, errors.WithMessage(errMalformed, err.Error())
	}
	z.content.bytes = z.content.bytes[:0]
	ended, err := z.more(&b.memory, min(lightContent, limit))
	if err == nil && !ended {
		if err = turn.becomeHeavy(ctx); err == nil {
			_, err = z.more(&b.memory, limit)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case len(z.content.bytes) > limit:
		return nil, errors.WithMessagef(errBodyLimit, "%d bytes", limit)
	}
	turn.in.endBody(b)
	return z.content.bytes, nil
}

// more inflates up to the end, or up to a little more than so many bytes.
func (z *inflater) more(memory *memoryShare, upTo int) (ended bool, err error) {
	for len(z.content.bytes) <= upTo {
		if err := z.content.grow(memory, leastRead, upTo+leastRead); err != nil {
			return false, err
		}
		n, err := z.from.Read(z.content.bytes[len(z.content.bytes):cap(z.content.bytes)])
		z.content.bytes = z.content.bytes[:len(z.content.bytes)+n]
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, errors.WithMessage(errMalformed, err.Error())
		}
	}
	return false, nil
}
