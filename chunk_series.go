package tsdb

import (
	"iter"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// ChunkSeriesSet is the result of SelectChunks, a cursor for one goroutine.
type ChunkSeriesSet struct {
	q        *Querier
	series   []mergedSeries
	at       int
	cur      *ChunkSeries
	warnings Warnings
	err      error
}

// Next moves to the next series.
func (cs *ChunkSeriesSet) Next() bool {
	if cs.err == nil && cs.q.closed.Load() {
		cs.err = ErrClosed
	}
	if cs.err != nil || cs.at == len(cs.series) {
		return false
	}
	cs.cur = &ChunkSeries{Series{q: cs.q, merged: cs.series[cs.at]}}
	cs.at++
	return true
}

// At returns the series that the set stands on. It stays valid when the set moves on.
func (cs *ChunkSeriesSet) At() *ChunkSeries { return cs.cur }

// Err returns what ended the set, nil for its end.
func (cs *ChunkSeriesSet) Err() error { return cs.err }

// Warnings returns what is to be known about the result.
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
	q      *Querier
	src    chunkSource
	bounds bounds
	meta   ChunkMeta
	merged *chunkenc.Batch   // not nil: several sources, samples are merged and encoded again
	it     chunkenc.Iterator // over the merged samples
	clip   seriesIterator    // over one chunk that is cut into
	enc    chunkenc.XOREncoder
	buf    []byte
	err    error
}

// mergedChunkSamples is how many samples a chunk gets that is made of several
// sources: what the format's writers aim at.
const mergedChunkSamples = 120

func (ci *ChunkIterator) reset(s *Series) {
	*ci = ChunkIterator{q: s.q, src: ci.src, clip: ci.clip, buf: ci.buf}
	if s.q.closed.Load() {
		ci.err = ErrClosed
		return
	}
	if len(s.merged.more) > 0 {
		ci.merged = chunkenc.NewBatch(mergedChunkSamples)
		ci.it = s.Iterator(nil)
		return
	}
	ci.src, ci.bounds = s.merged.first.open(ci.src)
}

// Next moves to the next chunk. The bytes of the one before are gone then.
func (ci *ChunkIterator) Next() bool {
	for ci.err == nil {
		if ci.q.closed.Load() {
			ci.err = ErrClosed
			return false
		}
		if ci.merged != nil {
			return ci.nextMerged()
		}
		c, ok, err := ci.src.next()
		if !ok {
			ci.err = err
			return false
		}
		if ci.bounds.whole(c) {
			ci.meta = ChunkMeta{MinT: c.minT, MaxT: c.maxT}
			ci.meta.Chunk, ci.err = chunkenc.FromData(c.enc, c.data)
			return ci.err == nil
		}
		if ci.nextClipped(c) {
			return true
		}
	}
	return false
}

// nextMerged encodes the next samples of all sources.
func (ci *ChunkIterator) nextMerged() bool {
	if ci.it.NextBatch(ci.merged) == chunkenc.ValNone {
		ci.err = ci.it.Err()
		return false
	}
	ci.enc.Reset()
	for i, t := range ci.merged.T {
		if ci.err = ci.enc.Append(t, ci.merged.V[i]); ci.err != nil {
			return false
		}
	}
	return ci.encoded(ci.merged.T[0], ci.merged.T[len(ci.merged.T)-1])
}

// nextClipped encodes what the bounds leave of a chunk; false if that is nothing.
func (ci *ChunkIterator) nextClipped(c sourceChunk) bool {
	ci.clip.reset(&oneChunk{c: c}, ci.bounds, &ci.q.closed)
	ci.enc.Reset()
	var first, last int64
	for ci.clip.Next() != chunkenc.ValNone {
		t, v := ci.clip.At()
		if ci.enc.Len() == 0 {
			first = t
		}
		last = t
		if ci.err = ci.enc.Append(t, v); ci.err != nil {
			return false
		}
	}
	if ci.err = ci.clip.Err(); ci.err != nil || ci.enc.Len() == 0 {
		return false
	}
	return ci.encoded(first, last)
}

func (ci *ChunkIterator) encoded(first, last int64) bool {
	ci.buf = ci.enc.AppendTo(ci.buf[:0])
	ci.meta = ChunkMeta{MinT: first, MaxT: last}
	ci.meta.Chunk, ci.err = chunkenc.FromData(chunkenc.EncXOR, ci.buf)
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

func (o *oneChunk) next() (sourceChunk, bool, error) {
	used := o.used
	o.used = true
	return o.c, !used, nil
}
