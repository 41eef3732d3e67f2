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
	q      *Querier
	series *seriesMerger // nil after an error
	cur    *ChunkSeries
	err    error
}

// Next moves to the next series. Once it has returned false it always does.
func (cs *ChunkSeriesSet) Next() bool {
	cs.q.chunkIterators.withdraw()
	for {
		merged, ok := cs.q.nextSeries(cs.series, &cs.err)
		if !ok {
			return false
		}
		var it *ChunkIterator
		if cs.series.mustLook(&merged) {
			if it = cs.q.chunkIterators.next(); !it.prime(cs.q, &merged) {
				cs.q.chunkIterators.back(it)
				cs.err = cs.series.ctx.Err()
				continue
			}
		}
		if !cs.series.admit() {
			return false
		}
		if cs.cur == nil || !cs.series.transient {
			cs.cur = &ChunkSeries{}
		}
		cs.cur.series = Series{q: cs.q, merged: merged}
		if it != nil {
			cs.q.chunkIterators.offer(cs.cur, it)
		}
		return true
	}
}

// At returns the series that the set stands on. It stays valid when the set moves on,
// unless SelectHints.Transient was set.
func (cs *ChunkSeriesSet) At() *ChunkSeries { return cs.cur }

// Err returns what ended the set, nil for its end.
func (cs *ChunkSeriesSet) Err() error { return cs.err }

// Warnings returns what is to be known about the result; ask at its end.
func (cs *ChunkSeriesSet) Warnings() Warnings {
	if cs.series == nil {
		return nil
	}
	return cs.series.warnings
}

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
	if prepared := s.series.q.chunkIterators.take(s, reuse); prepared != nil {
		return prepared
	}
	if reuse == nil {
		reuse = &ChunkIterator{}
	}
	reuse.begin(s.series.q, &s.series.merged)
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
	ended bool // without an error
	ready bool // the chunk that Next moves to is there
	turns foreground.Turns
}

func (ci *ChunkIterator) begin(q *Querier, s *mergedSeries) {
	ci.q, ci.meta, ci.err, ci.ended, ci.ready = q, ChunkMeta{}, nil, false, false
	if !q.begin() {
		ci.err = ErrClosed
		return
	}
	defer q.end()
	ci.src = s.open(ci.src)
}

// prime is begin, and makes the first chunk. It reports whether there is one; an error counts as
// one, as nobody knows what is behind it.
func (ci *ChunkIterator) prime(q *Querier, s *mergedSeries) bool {
	ci.begin(q, s)
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
		if !ci.q.begin() {
			ci.err = ErrClosed
			return false
		}
		c := &ci.one.c
		ok, err := ci.src.next(math.MinInt64, c)
		ci.q.end()
		if !ok {
			ci.err, ci.ended = err, true
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
