package read

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
	"github.com/seed347100a3/tsdb/wal"
)

// StoredChunk is a chunk as one place has it: MinT and MaxT are the times of its first and last
// sample, visible or not.
type StoredChunk struct {
	MinT, MaxT int64
	Encoding   chunkenc.Encoding
	Data       []byte // empty if it was not read
}

// StoredChunks is a cursor over the chunks that the places of a series have in the range, place by
// place and as they are stored: for those who count, and not for readers of samples. It belongs to
// one goroutine.
type StoredChunks struct {
	gate  *Gate
	parts []sourceSeries // whose turn has not come
	data  bool           // bytes are wanted
	metas []index.ChunkMeta
	src   chunkSource // of the place that is open
	open  bool
	chunk samplemerge.Chunk
	cur   StoredChunk
	err   error
	ended bool // without an error
}

// Stored returns a cursor before the first chunk. Without data bytes may be missing: then those of
// blocks are not read. A reuse that an earlier call returned is used again; nil is fine.
func (s *Series) Stored(reuse *StoredChunks, data bool) *StoredChunks {
	if reuse == nil {
		reuse = &StoredChunks{}
	}
	parts := s.merged.appendParts(reuse.parts[:0])
	*reuse = StoredChunks{gate: &s.q.Gate, parts: parts, data: data, src: reuse.src}
	return reuse
}

// Next moves to the next chunk. The bytes of the one before are gone then.
func (sc *StoredChunks) Next() bool {
	if sc.err != nil || sc.ended {
		return false
	}
	if !sc.gate.begin() {
		sc.err = wal.ErrClosed
		return false
	}
	defer sc.gate.end()
	for {
		if len(sc.metas) > 0 {
			sc.cur = StoredChunk{MinT: sc.metas[0].MinT, MaxT: sc.metas[0].MaxT}
			sc.metas = sc.metas[1:]
			return true
		}
		if sc.open {
			c := &sc.chunk
			if sc.open, sc.err = sc.src.Next(math.MinInt64, c); sc.open {
				sc.cur = StoredChunk{MinT: c.MinT, MaxT: c.MaxT, Encoding: c.Encoding, Data: c.Data}
				return true
			}
			if sc.err != nil {
				return false
			}
		}
		if sc.ended = len(sc.parts) == 0; sc.ended {
			return false
		}
		sc.openNext()
	}
}

// openNext goes to the next place.
func (sc *StoredChunks) openNext() {
	part := sc.parts[0]
	sc.parts = sc.parts[1:]
	if b, ok := part.(*blockSeries); ok && !sc.data {
		sc.metas = b.metas
		return
	}
	sc.src, sc.open = part.open(sc.src), true
}

// At returns the chunk; its bytes are valid until the next Next.
func (sc *StoredChunks) At() StoredChunk { return sc.cur }

// Err returns what ended the cursor, nil for its end.
func (sc *StoredChunks) Err() error { return sc.err }
