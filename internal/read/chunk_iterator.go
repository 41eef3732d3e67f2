package read

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
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
	gate   *Gate
	src    chunkSource
	meta   ChunkMeta
	chunk  samplemerge.Chunk
	runs   samplemerge.Runs // of one that is cut into, or merged
	run    chunkenc.Batch
	enc    chunkenc.Encoder
	buf    []byte
	err    error
	ended  bool // without an error
	ready  bool // the chunk that Next moves to is there
	pauses foreground.Pauses
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
		ci.pauses.Step(chunksAPause)
		if !ci.gate.begin() {
			ci.err = wal.ErrClosed
			return false
		}
		c := &ci.chunk
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
		if ci.encode(c) {
			return true
		}
	}
	return false
}

// encode encodes what counts of a chunk; false if that is nothing.
func (ci *ChunkIterator) encode(c *samplemerge.Chunk) bool {
	ci.enc.Reset()
	if cap(ci.run.T) == 0 {
		ci.run = *chunkenc.NewBatch(clippedRun)
	}
	var first, last int64
	err := ci.runs.Reset(c)
	for behind := false; !behind && err == nil; {
		if err = ci.runs.Next(&ci.run); err != nil || ci.run.Len() == 0 {
			break
		}
		behind = ci.run.T[ci.run.Len()-1] > c.To
		c.Clip(&ci.run)
		for i, t := range ci.run.T {
			if ci.enc.Len() == 0 {
				first = t
			}
			last = t
			if other := ci.runs.Other(); other != nil {
				ci.err = ci.enc.AppendOther(other)
			} else {
				ci.err = ci.enc.Append(t, ci.run.V[i], ci.run.StartOf(i))
			}
			if ci.err != nil {
				return false
			}
		}
	}
	if err != nil {
		ci.err = ci.src.Place(err)
	}
	if ci.err != nil || ci.enc.Len() == 0 {
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
