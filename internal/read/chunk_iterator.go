package read

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
	"github.com/seed347100a3/tsdb/wal"
)

// ChunkMeta is one encoded chunk: MinT and MaxT are the times of its first and last
// sample, in milliseconds.
type ChunkMeta struct {
	MinT, MaxT int64
	Chunk      chunkenc.Chunk
}

// ChunkIterator is a cursor over the chunks of one series, for one goroutine.
type ChunkIterator struct {
	gate *Gate
	src  chunkSource
	meta ChunkMeta
	clip iterator // over one chunk that is cut into
	one  oneChunk // as it is stored
	enc  chunkenc.Encoder
	buf  []byte

	hist   histogram.Histogram // scratch
	floats histogram.FloatHistogram

	err   error
	ended bool // without an error
	ready bool // the chunk that Next moves to is there
	turns foreground.Turns
}

func (ci *ChunkIterator) begin(gate *Gate, s *mergedSeries) {
	ci.gate, ci.meta, ci.err, ci.ended, ci.ready = gate, ChunkMeta{}, nil, false, false
	if !gate.begin() {
		ci.err = wal.ErrClosed
		return
	}
	defer gate.end()
	ci.src = s.open(ci.src)
}

// prime is begin, and makes the first chunk. It reports whether there is one; an error counts as
// one, as nobody knows what is behind it.
func (ci *ChunkIterator) prime(gate *Gate, s *mergedSeries) bool {
	ci.begin(gate, s)
	ci.ready = ci.Next()
	return ci.ready || ci.err != nil
}

// Next moves to the next chunk. The bytes of the one before are gone then. Once it has returned
// false it always does.
func (ci *ChunkIterator) Next() bool {
	if ci.ready {
		ci.ready = false
		return true
	}
	for ci.err == nil && !ci.ended {
		ci.turns.Step(chunksATurn)
		if !ci.gate.begin() {
			ci.err = wal.ErrClosed
			return false
		}
		c := &ci.one.c
		ok, err := ci.src.Next(math.MinInt64, c)
		ci.gate.end()
		if !ok {
			ci.err, ci.ended = err, true
			return false
		}
		if c.Samples == nil && c.Whole() {
			ci.meta = ChunkMeta{MinT: c.MinT, MaxT: c.MaxT}
			ci.meta.Chunk, ci.err = chunkenc.FromData(c.Encoding, c.Data)
			return ci.err == nil
		}
		if ci.nextClipped() {
			return true
		}
	}
	return false
}

// nextClipped encodes what the bounds leave of the chunk; false if that is nothing.
func (ci *ChunkIterator) nextClipped() bool {
	ci.one.of, ci.one.used = ci.src, false
	ci.clip.reset(&ci.one, ci.gate)
	ci.enc.Reset()
	var first, last int64
	for kind := ci.clip.Next(); kind != chunkenc.ValNone; kind = ci.clip.Next() {
		last = ci.clip.AtT()
		if ci.enc.Len() == 0 {
			first = last
		}
		if ci.err = ci.encode(kind); ci.err != nil {
			return false
		}
	}
	if ci.err = ci.clip.Err(); ci.err != nil || ci.enc.Len() == 0 {
		return false
	}
	ci.buf = ci.enc.AppendTo(ci.buf[:0])
	ci.meta = ChunkMeta{MinT: first, MaxT: last}
	ci.meta.Chunk, ci.err = chunkenc.FromData(ci.enc.Encoding(), ci.buf)
	return ci.err == nil
}

// encode appends the sample that clip stands on. A part of a chunk is always one chunk.
func (ci *ChunkIterator) encode(kind chunkenc.ValueType) error {
	switch kind {
	case chunkenc.ValFloat:
		t, v := ci.clip.At()
		return ci.enc.Append(t, v, ci.clip.AtST())
	case chunkenc.ValHistogram:
		t := ci.clip.AtHistogram(&ci.hist)
		return ci.enc.AppendHistogram(t, &ci.hist, ci.clip.AtST())
	default:
		t := ci.clip.AtFloatHistogram(&ci.floats)
		return ci.enc.AppendFloatHistogram(t, &ci.floats, ci.clip.AtST())
	}
}

// At returns the chunk; its bytes are valid until the next Next.
func (ci *ChunkIterator) At() ChunkMeta { return ci.meta }

// Err returns what ended the iteration, nil for its end.
func (ci *ChunkIterator) Err() error { return ci.err }

// oneChunk is a source of a single chunk.
type oneChunk struct {
	c    samplemerge.Chunk
	of   chunkSource // that it comes from
	used bool
}

// Next implements chunkSource.
func (o *oneChunk) Next(_ int64, c *samplemerge.Chunk) (bool, error) {
	used := o.used
	*c, o.used = o.c, true
	return !used, nil
}

// Place implements chunkSource.
func (o *oneChunk) Place(err error) error { return o.of.Place(err) }
