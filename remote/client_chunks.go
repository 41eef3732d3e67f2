package remote

import (
	"io"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// maxOpenChunks is how many chunks of a series may overlap each other. Each costs a batch of
// samples. Servers have a handful: blocks, and the head.
const maxOpenChunks = 256

// maxFreeChunk is how large a buffer is kept for the next chunk, in bytes. There may be as
// many as chunks overlap; those of usual chunks have hundreds of bytes.
const maxFreeChunk = 64 << 10

// chunkSource reads a streamed answer. One frame is in memory, and the chunks of one
// series that overlap each other in time: rarely more than one.
type chunkSource struct {
	frames    *frameReader
	endKnown  bool
	names     interner
	limit     int         // bytes of chunks that overlap each other
	rest      fieldReader // of the frame: series that were not looked at
	chunks    fieldReader // of the series: chunks that were not looked at
	cur, next []labels.Label
	ahead     bool // next and chunks are a series that was not moved to
	end       bool // of the answer

	peeked    frameChunk
	hasPeeked bool
	open      []*openChunk
	free      []*openChunk
	openBytes int
}

func newChunkSource(b *answerBody, limit int) *chunkSource {
	return &chunkSource{frames: newFrameReader(b, limit), endKnown: b.endKnown(), limit: limit}
}

// nextSeries implements answerSource.
func (s *chunkSource) nextSeries() ([]labels.Label, error) {
	for len(s.open) > 0 {
		s.close(len(s.open) - 1)
	}
	for {
		if err := s.peek(); err != nil {
			return nil, err
		}
		if !s.hasPeeked {
			break
		}
		s.hasPeeked = false
	}
	if s.end {
		return nil, io.EOF
	}
	s.ahead = false
	s.cur = append(s.cur[:0], s.next...)
	return s.cur, nil
}

// peek looks at the next chunk of the series; none is there at its end, and then the next
// series is known, or that there is none.
func (s *chunkSource) peek() error {
	for !s.hasPeeked && !s.ahead && !s.end {
		if s.chunks.next() {
			if s.chunks.num != 2 {
				continue
			}
			c, err := decodeChunk(s.chunks.bytes())
			if err == nil {
				err = s.chunks.err
			}
			if err != nil {
				return err
			}
			s.peeked, s.hasPeeked = c, true
			return nil
		}
		if s.chunks.err != nil {
			return s.chunks.err
		}
		if err := s.part(); err != nil {
			return err
		}
	}
	return nil
}

// part finds the next ChunkedSeries. It goes on with the present series when it has the
// same labels.
func (s *chunkSource) part() error {
	for !s.rest.next() || s.rest.num != 1 {
		if s.rest.err != nil {
			return s.rest.err
		}
		if len(s.rest.rest) > 0 {
			continue
		}
		if err := s.frame(); err != nil || s.end {
			return err
		}
	}
	message := s.rest.bytes()
	if s.rest.err != nil {
		return s.rest.err
	}
	s.chunks = readFields(message)
	if err := s.labels(message); err != nil {
		return err
	}
	s.ahead = len(s.cur) == 0 || !slices.Equal(s.cur, s.next)
	return nil
}

// labels reads those of a ChunkedSeries.
func (s *chunkSource) labels(message []byte) error {
	s.next = s.next[:0]
	size := 0
	for r := readFields(message); r.next(); {
		if r.num != 1 {
			continue
		}
		b := r.bytes()
		size += sizeBytes(len(b))
		if err := checkLabelBytes(int64(size)); err != nil {
			return err
		}
		l, err := s.names.label(b)
		if err != nil {
			return err
		}
		s.next = append(s.next, l)
	}
	return nil
}

// frame reads the next frame.
func (s *chunkSource) frame() error {
	data, err := s.frames.next()
	if err == io.EOF {
		if !s.endKnown {
			return errors.WithMessage(errMalformed, "the answer ends with its connection, so nobody knows whether it is complete")
		}
		s.end, err = true, nil
	}
	if err != nil {
		return err
	}
	s.rest = readFields(data)
	r := s.rest
	for r.next() {
		if r.num == 2 && r.varint() != 0 {
			return errors.WithMessagef(errMalformed, "a frame for query %d, one was asked", int64(r.v))
		}
	}
	return r.err
}

// openChunk is a chunk that is being decoded. Its bytes are its own.
type openChunk struct {
	data  []byte
	it    chunkenc.Iterator
	batch chunkenc.Batch
	at    int
}

// head is the time of the oldest sample that was not given out.
func (c *openChunk) head() int64 { return c.batch.T[c.at] }

// advance takes n samples off; false at the end of the chunk.
func (c *openChunk) advance(n int) (bool, error) {
	if c.at += n; c.at < c.batch.Len() {
		return true, nil
	}
	c.at = 0
	if c.it.NextBatch(&c.batch) == chunkenc.ValFloat {
		return true, nil
	}
	if err := c.it.Err(); err != nil {
		return false, errors.WithMessagef(errMalformed, "chunk: %v", err)
	}
	return false, nil
}

// openPeeked starts to decode the chunk that was looked at.
func (s *chunkSource) openPeeked() error {
	s.hasPeeked = false
	typ := s.peeked.typ
	enc := chunkenc.Encoding(typ)
	if int32(enc) != typ || !enc.Known() {
		return errors.WithMessagef(tsdb.ErrUnsupported, "chunk of type %d", typ)
	}
	if len(s.open) == maxOpenChunks || s.openBytes+len(s.peeked.data) > s.limit {
		return errors.WithMessagef(errLimit, "chunks that overlap each other: more than %d, or than %d bytes", maxOpenChunks, s.limit)
	}
	s.openBytes += len(s.peeked.data)
	c := &openChunk{}
	if n := len(s.free); n > 0 {
		c, s.free = s.free[n-1], s.free[:n-1]
	}
	c.data = append(c.data[:0], s.peeked.data...)
	chunk, err := chunkenc.FromData(enc, c.data)
	if err != nil {
		return errors.WithMessagef(errMalformed, "chunk: %v", err)
	}
	c.it = chunk.Iterator(c.it)
	c.batch.Cut(0)
	c.at = 0
	s.open = append(s.open, c)
	return s.advance(len(s.open)-1, 0)
}

// advance takes n samples off an open chunk, and closes it at its end.
func (s *chunkSource) advance(i, n int) error {
	more, err := s.open[i].advance(n)
	if err == nil && !more {
		s.close(i)
	}
	return err
}

func (s *chunkSource) close(i int) {
	c := s.open[i]
	s.openBytes -= len(c.data)
	if cap(c.data) > maxFreeChunk {
		c.data = nil
	}
	s.free = append(s.free, c)
	s.open = slices.Delete(s.open, i, i+1)
}

// samples implements answerSource. Chunks come by the time of their first samples, and
// may overlap: a sample is given out when no chunk can have an older one.
func (s *chunkSource) samples(b *chunkenc.Batch) error {
	for room := min(cap(b.T), cap(b.V)); b.Len() < room; {
		oldest, bound, err := s.oldest()
		if err != nil || oldest < 0 {
			return err
		}
		c := s.open[oldest]
		times := c.batch.T[c.at:min(c.batch.Len(), c.at+room-b.Len())]
		n := len(times)
		if times[n-1] >= bound {
			n = 1 // one by one where chunks overlap
		}
		b.Append(&c.batch, c.at, c.at+n)
		if err := s.advance(oldest, n); err != nil {
			return err
		}
	}
	return nil
}

// oldest opens what is needed to know the open chunk with the oldest sample, -1 at the
// end of the series, and the time from which on others may have samples.
func (s *chunkSource) oldest() (at int, bound int64, err error) {
	for {
		if err := s.peek(); err != nil {
			return -1, 0, err
		}
		at, bound = s.least()
		if !s.hasPeeked || at >= 0 && s.open[at].head() < s.peeked.mint {
			break
		}
		if err := s.openPeeked(); err != nil {
			return -1, 0, err
		}
	}
	if s.hasPeeked {
		bound = min(bound, s.peeked.mint)
	}
	return at, bound, nil
}

// least is the open chunk with the oldest sample, the first of several, and the oldest
// time of the others.
func (s *chunkSource) least() (at int, bound int64) {
	at, bound = -1, noBound
	for i, c := range s.open {
		switch t := c.head(); {
		case at < 0:
			at = i
		case t < s.open[at].head():
			at, bound = i, s.open[at].head()
		default:
			bound = min(bound, t)
		}
	}
	return at, bound
}
