package prom

import (
	promlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	promchunkenc "github.com/prometheus/prometheus/tsdb/chunkenc"
	promchunks "github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/seed347100a3/tsdb"
)

// chunkSeriesSet is a result of encoded chunks, a cursor for one goroutine.
type chunkSeriesSet struct {
	set   *tsdb.ChunkSeriesSet
	shard shard
	cur   *chunkSeries
}

type chunkSeries struct {
	labels promlabels.Labels
	s      *tsdb.ChunkSeries
}

// Next implements storage.ChunkSeriesSet.
func (set *chunkSeriesSet) Next() bool {
	for !set.shard.cut && set.set.Next() {
		s := set.set.At()
		ls := toTheirs(s.Labels())
		if !set.shard.takes(ls) {
			continue
		}
		set.cur = &chunkSeries{ls, s}
		return true
	}
	return false
}

// At implements storage.ChunkSeriesSet.
func (set *chunkSeriesSet) At() storage.ChunkSeries { return set.cur }

// Err implements storage.ChunkSeriesSet.
func (set *chunkSeriesSet) Err() error { return set.set.Err() }

// Warnings implements storage.ChunkSeriesSet.
func (set *chunkSeriesSet) Warnings() annotations.Annotations {
	return warningsOf(set.set.Warnings(), set.shard.cut)
}

// Labels implements storage.ChunkSeries. The result belongs to the caller for ever.
func (s *chunkSeries) Labels() promlabels.Labels { return s.labels }

// Iterator implements storage.ChunkSeries.
func (s *chunkSeries) Iterator(reuse promchunks.Iterator) promchunks.Iterator {
	it, ok := reuse.(*chunkIterator)
	if !ok {
		it = &chunkIterator{}
	}
	it.it, it.err = s.s.Chunks(it.it), nil
	return it
}

// chunkIterator is a cursor over the chunks of one series. A chunk that it gives belongs to the
// caller.
type chunkIterator struct {
	it  *tsdb.ChunkIterator
	cur promchunks.Meta
	err error
}

// Next implements chunks.Iterator.
func (it *chunkIterator) Next() bool {
	if it.err != nil || !it.it.Next() {
		return false
	}
	m := it.it.At()
	it.cur = promchunks.Meta{MinTime: m.MinT, MaxTime: m.MaxT}
	// Our bytes are overwritten by the next chunk; readers here may keep chunks.
	it.cur.Chunk, it.err = promchunkenc.FromData(promchunkenc.Encoding(m.Chunk.Encoding()), append([]byte(nil), m.Chunk.Bytes()...))
	return it.err == nil
}

// At implements chunks.Iterator.
func (it *chunkIterator) At() promchunks.Meta { return it.cur }

// Err implements chunks.Iterator.
func (it *chunkIterator) Err() error {
	if it.err != nil {
		return it.err
	}
	return it.it.Err()
}
