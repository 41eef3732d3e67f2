package remote

import (
	"io"
	"math"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
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

	overlap
}

// overlap is the chunks of a series that may overlap each other.
type overlap struct {
	merged     samplemerge.Merger
	begun      bool         // the first chunk of the series is in merged
	newest     *openChunk   // the last one in merged; nil: there is none behind those that are held
	open       []*openChunk // those in use are in merged
	openChunks int          // that are held
	openBytes  int          // of them
}

func newChunkSource(b *answerBody, limit int) *chunkSource {
	return &chunkSource{frames: newFrameReader(b, limit), endKnown: b.endKnown(), limit: limit}
}

// nextSeries implements answerSource.
func (s *chunkSource) nextSeries() ([]labels.Label, error) {
	s.merged.Reset()
	s.begun, s.newest = false, nil
	for _, c := range s.open {
		if c.used {
			c.close()
		}
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

// samples implements answerSource. Chunks come by the time of their first samples, and
// may overlap: a sample is given out when no chunk can have an older one. So the chunk behind one is
// known before that is decoded.
func (s *chunkSource) samples(b *chunkenc.Batch) error {
	if !s.begun {
		s.begun = true
		if err := s.addNext(); err != nil {
			return err
		}
	}
	for {
		stop, err := s.merged.Step(b)
		if stop == samplemerge.AtOther {
			err = errNoFloat
		}
		if stop != samplemerge.AtChunk || err != nil {
			return err
		}
		if c, _ := s.merged.Due(); s.newest != nil && s.newest.as == c {
			err = s.addNext()
		} else {
			err = s.merged.Open()
		}
		if err != nil {
			return err
		}
	}
}

// addNext adds the next chunk of the series to those that are merged, if there is one. The bytes of
// the one before are copied, as those of its frame are gone then.
func (s *chunkSource) addNext() error {
	if c := s.newest; c != nil {
		s.newest = nil
		if s.openChunks == maxOpenChunks || s.openBytes+len(c.as.Data) > s.limit {
			return errors.WithMessagef(errLimit, "chunks that overlap each other: more than %d, or than %d bytes", maxOpenChunks, s.limit)
		}
		c.hold()
	}
	if err := s.peek(); err != nil || !s.hasPeeked {
		return err
	}
	s.hasPeeked = false
	s.newest = s.place()
	s.newest.added = &s.peeked
	return s.merged.Add(s.newest)
}

// place returns the first openChunk that is not in use, a new one if all are.
func (s *chunkSource) place() *openChunk {
	for _, c := range s.open {
		if !c.used {
			c.used = true
			return c
		}
	}
	c := &openChunk{of: s, used: true}
	s.open = append(s.open, c)
	return c
}

// openChunk is a chunk that is merged with others.
type openChunk struct {
	of    *chunkSource
	used  bool
	added *frameChunk        // nil: the merger has it
	as    *samplemerge.Chunk // what the merger has
	typ   int32
	data  []byte // a copy, once it is held
	held  bool
}

// Next implements samplemerge.Source. What is said of the newest sample holds nobody: a chunk that
// still grows may be said to have no end.
func (c *openChunk) Next(_ int64, out *samplemerge.Chunk) (bool, error) {
	if c.added == nil {
		c.close()
		return false, nil
	}
	c.typ = c.added.typ
	enc := chunkenc.Encoding(c.typ)
	if int32(enc) != c.typ || enc.Kind() != chunkenc.ValFloat {
		enc = chunkenc.EncNone
	}
	*out = samplemerge.Chunk{Encoding: enc, Data: c.added.data, MinT: c.added.mint, MaxT: math.MaxInt64, Bounds: samplemerge.Everything()}
	c.as, c.added = out, nil
	return true, nil
}

// Place implements samplemerge.Source.
func (c *openChunk) Place(err error) error {
	if errors.Is(err, chunkenc.ErrUnknownEncoding) {
		return errors.WithMessagef(tsdb.ErrUnsupported, "chunk of type %d", c.typ)
	}
	return errors.WithMessagef(errMalformed, "chunk: %v", err)
}

// hold copies the bytes: those in the frame go with it.
func (c *openChunk) hold() {
	c.data = append(c.data[:0], c.as.Data...)
	c.as.Data, c.held = c.data, true
	c.of.openChunks++
	c.of.openBytes += len(c.data)
}

// close makes room for another chunk.
func (c *openChunk) close() {
	if c.held {
		c.of.openChunks--
		c.of.openBytes -= len(c.data)
	}
	if cap(c.data) > maxFreeChunk {
		c.data = nil
	}
	*c = openChunk{of: c.of, data: c.data[:0]}
}
