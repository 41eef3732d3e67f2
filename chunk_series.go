package tsdb

import (
	"iter"
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/labels"
)

// ChunkSeriesSet is the result of SelectChunks, a cursor for one goroutine.
type ChunkSeriesSet struct {
	q        *Querier
	series   *seriesMerger // nil after an error
	cur      *ChunkSeries
	warnings Warnings
	err      error
}

// Next moves to the next series.
func (cs *ChunkSeriesSet) Next() bool {
	merged, ok := cs.q.nextSeries(cs.series, &cs.warnings, &cs.err)
	if ok {
		if cs.cur == nil || !cs.series.transient {
			cs.cur = &ChunkSeries{}
		}
		cs.cur.series = Series{q: cs.q, merged: merged}
	}
	return ok
}

// At returns the series that the set stands on. It stays valid when the set moves on,
// unless SelectHints.Transient was set.
func (cs *ChunkSeriesSet) At() *ChunkSeries { return cs.cur }

// Err returns what ended the set, nil for its end.
func (cs *ChunkSeriesSet) Err() error { return cs.err }

// Warnings returns what is to be known about the result; ask at its end.
func (cs *ChunkSeriesSet) Warnings() Warnings { return cs.warnings }

// All ranges over the series that are left; an error comes last, with a nil series.
func (cs *ChunkSeriesSet) All() iter.Seq2[*ChunkSeries, error] {
	return func(yield func(*ChunkSeries, error) bool) {
		for cs.Next() {
			if !yield(cs.At(), nil) {
				return
			}
		}
		if cs.err != nil {
			yield(nil, cs.err)
		}
	}
}

// ChunkSeries is one series of a result with its encoded chunks.
type ChunkSeries struct{ series Series }

// Labels returns the labels. The result belongs to the caller for ever.
func (s *ChunkSeries) Labels() labels.Labels { return s.series.Labels() }

// AppendLabels appends the labels to dst, sorted by name.
func (s *ChunkSeries) AppendLabels(dst []labels.Label) []labels.Label {
	return s.series.AppendLabels(dst)
}

// Chunks returns a cursor over the chunks, oldest first; they do not overlap. A reuse
// that an earlier call returned is used again; nil is fine.
func (s *ChunkSeries) Chunks(reuse *ChunkIterator) *ChunkIterator {
	if reuse == nil {
		reuse = &ChunkIterator{}
	}
	reuse.reset(&s.series)
	return reuse
}

// ChunkMeta is one encoded chunk: MinT and MaxT are the times of its first and last
// sample, in milliseconds.
type ChunkMeta struct {
	MinT, MaxT int64
	Chunk      chunkenc.Chunk
}

// ChunkIterator is a cursor over the chunks of one series, for one goroutine.
type ChunkIterator struct {
	q     *Querier
	src   chunkSource
	meta  ChunkMeta
	clip  seriesIterator // over one chunk that is cut into
	one   oneChunk       // as it is stored
	enc   chunkenc.FloatEncoder
	buf   []byte
	err   error
	turns foreground.Turns
}

func (ci *ChunkIterator) reset(s *Series) {
	ci.q, ci.meta, ci.err = s.q, ChunkMeta{}, nil
	if !s.q.begin() {
		ci.err = ErrClosed
		return
	}
	defer s.q.end()
	ci.src = s.merged.open(ci.src)
}

// Next moves to the next chunk. The bytes of the one before are gone then.
func (ci *ChunkIterator) Next() bool {
	for ci.err == nil {
		ci.turns.Step(chunksATurn)
		if !ci.q.begin() {
			ci.err = ErrClosed
			return false
		}
		c := &ci.one.c
		ok, err := ci.src.next(math.MinInt64, c)
		ci.q.end()
		if !ok {
			ci.err = err
			return false
		}
		if c.whole() {
			ci.meta = ChunkMeta{MinT: c.minT, MaxT: c.maxT}
			ci.meta.Chunk, ci.err = chunkenc.FromData(c.enc, c.data)
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
	ci.one.used = false
	ci.clip.reset(&ci.one, ci.q)
	ci.enc.Reset()
	var first, last int64
	for ci.clip.Next() != chunkenc.ValNone {
		t, v := ci.clip.At()
		if ci.enc.Len() == 0 {
			first = t
		}
		last = t
		if ci.err = ci.enc.Append(t, v, ci.clip.AtST()); ci.err != nil {
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

// At returns the chunk; its bytes are valid until the next Next.
func (ci *ChunkIterator) At() ChunkMeta { return ci.meta }

// Err returns what ended the iteration, nil for its end.
func (ci *ChunkIterator) Err() error { return ci.err }

// oneChunk is a source of a single chunk.
type oneChunk struct {
	c    sourceChunk
	used bool
}

func (o *oneChunk) next(_ int64, c *sourceChunk) (bool, error) {
	used := o.used
	*c, o.used = o.c, true
	return !used, nil
}
