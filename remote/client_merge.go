package remote

import (
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
	"github.com/seed347100a3/tsdb/labels"
)

// maxOpenChunks is how many chunks of a series may overlap each other. Each costs a batch of
// samples. Servers have a handful: blocks, and the head.
const maxOpenChunks = 256

// maxOpenBuckets is how many buckets the chunks of histograms that are open may have at most: a
// bucket takes a bit of a chunk, and sixteen bytes of who decodes it.
const maxOpenBuckets = 4 * histogram.MaxBuckets

// maxFreeChunk is how large a buffer is kept for the next chunk, in bytes. There may be as
// many as chunks overlap; those of usual chunks have hundreds of bytes.
const maxFreeChunk = 64 << 10

// chunkSource decodes a streamed answer. The chunks of one series that overlap each other in time
// are in memory: rarely more than one.
type chunkSource struct {
	stream chunkStream
	limit  int // bytes of chunks that overlap each other

	merged     samplemerge.Merger
	begun      bool         // the first chunk of the series is in merged
	newest     *openChunk   // the last one in merged; nil: there is none behind those that are held
	open       []*openChunk // those in use are in merged
	openChunks int          // that are held
	openBytes  int          // of them
	buckets    int          // that they may have

	mergedOther
}

func newChunkSource(b *answerBody, limit int) *chunkSource {
	return &chunkSource{stream: newChunkStream(b, limit), limit: limit}
}

// nextSeries implements answerSource.
func (s *chunkSource) nextSeries() ([]labels.Label, error) {
	s.merged.Reset()
	s.begun, s.newest, s.mergedOther = false, nil, mergedOther{}
	for _, c := range s.open {
		if c.used {
			c.close()
		}
	}
	return s.stream.nextSeries()
}

// samples implements answerSource. Chunks come by the time of their first samples, and may overlap:
// a sample is given out when no chunk can have an older one. So the chunk behind one is known
// before that is decoded.
func (s *chunkSource) samples(b *chunkenc.Batch) (chunkenc.ValueType, error) {
	if !s.begun {
		s.begun = true
		if err := s.addNext(); err != nil {
			return chunkenc.ValNone, err
		}
	}
	s.leave(&s.merged)
	for {
		stop, err := s.merged.Step(b)
		if stop != samplemerge.AtChunk || err != nil {
			return s.stopped(&s.merged, stop, b), err
		}
		if c, _ := s.merged.Due(); s.newest != nil && s.newest.as == c {
			err = s.addNext()
		} else {
			s.before, err = nil, s.merged.Open()
		}
		if err != nil {
			return chunkenc.ValNone, err
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
		if s.buckets+c.buckets() > maxOpenBuckets {
			return errors.WithMessage(errLimit, "chunks that overlap each other have too many buckets")
		}
		c.hold()
	}
	if err := s.stream.peek(); err != nil || !s.stream.hasPeeked {
		return err
	}
	s.stream.hasPeeked = false
	s.newest = s.place()
	s.newest.added = &s.stream.peeked
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
	if int32(enc) != c.typ || !enc.Known() {
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
	c.of.buckets += c.buckets()
}

// buckets returns how many buckets the chunk may have at most.
func (c *openChunk) buckets() int {
	if c.as.Encoding.Kind() <= chunkenc.ValFloat {
		return 0
	}
	return min(8*len(c.as.Data), histogram.MaxBuckets)
}

// close makes room for another chunk.
func (c *openChunk) close() {
	if c.held {
		c.of.openChunks--
		c.of.openBytes -= len(c.data)
		c.of.buckets -= c.buckets()
	}
	if cap(c.data) > maxFreeChunk {
		c.data = nil
	}
	*c = openChunk{of: c.of, data: c.data[:0]}
}
