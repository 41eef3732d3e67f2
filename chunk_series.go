package tsdb

import (
	"iter"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/labels"
)

// ChunkSeriesSet is the result of SelectChunks, a cursor for one goroutine.
type ChunkSeriesSet struct {
	set *read.Set
	cur *ChunkSeries
}

// Next moves to the next series. Once it has returned false it always does.
func (cs *ChunkSeriesSet) Next() bool {
	next, ok := cs.set.Next()
	if !ok {
		return false
	}
	if cs.cur == nil || !cs.set.Transient() {
		cs.cur = &ChunkSeries{}
	}
	cs.cur.series = next
	cs.set.Place(&cs.cur.series)
	return true
}

// At returns the series that the set stands on. It stays valid when the set moves on,
// unless SelectHints.Transient was set.
func (cs *ChunkSeriesSet) At() *ChunkSeries { return cs.cur }

// Err returns what ended the set, nil for its end.
func (cs *ChunkSeriesSet) Err() error { return cs.set.Err() }

// Warnings returns what is to be known about the result; ask at its end.
func (cs *ChunkSeriesSet) Warnings() Warnings { return cs.set.Warnings() }

// All ranges over the series that are left; an error comes last, with a nil series.
func (cs *ChunkSeriesSet) All() iter.Seq2[*ChunkSeries, error] {
	return func(yield func(*ChunkSeries, error) bool) {
		for cs.Next() {
			if !yield(cs.At(), nil) {
				return
			}
		}
		if err := cs.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// ChunkSeries is one series of a result with its encoded chunks.
type ChunkSeries struct{ series read.Series }

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
	reuse.chunks = s.series.Chunks(reuse.chunks)
	return reuse
}

// ChunkMeta is one encoded chunk: MinT and MaxT are the times of its first and last
// sample, in milliseconds.
type ChunkMeta struct {
	MinT, MaxT int64
	Chunk      chunkenc.Chunk
}

// ChunkIterator is a cursor over the chunks of one series, for one goroutine. The zero value is at
// its end.
type ChunkIterator struct{ chunks *read.ChunkIterator }

// Next moves to the next chunk. The bytes of the one before are gone then. Once it has returned
// false it always does.
func (ci *ChunkIterator) Next() bool { return ci.chunks != nil && ci.chunks.Next() }

// At returns the chunk; its bytes are valid until the next Next.
func (ci *ChunkIterator) At() ChunkMeta {
	if ci.chunks == nil {
		return ChunkMeta{}
	}
	return ChunkMeta(ci.chunks.At())
}

// Err returns what ended the iteration, nil for its end.
func (ci *ChunkIterator) Err() error {
	if ci.chunks == nil {
		return nil
	}
	return ci.chunks.Err()
}
