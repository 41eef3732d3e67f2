package cardinality

import (
	"cmp"
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/read"
)

// Encoded is what chunks of one encoding take.
type Encoded struct {
	Encoding               chunkenc.Encoding
	Chunks, Samples, Bytes uint64
	// Buckets are those that each histogram of a chunk has room for, positive and negative ones, of
	// all chunks together; MinBuckets and MaxBuckets are those of one chunk. Stale markers that are
	// alone in a chunk have none. All are 0 for floats.
	Buckets, MinBuckets, MaxBuckets uint64
}

// encodings counts chunks by their encoding.
type encodings struct {
	by      [256]*Encoded
	decoder chunkenc.Decoder
	h       histogram.FloatHistogram
}

// add notes a chunk whose bytes are there, and returns how many samples it has.
func (e *encodings) add(chunk read.StoredChunk) uint64 {
	of := e.by[chunk.Encoding]
	if of == nil {
		of = &Encoded{Encoding: chunk.Encoding}
		e.by[chunk.Encoding] = of
	}
	samples := uint64(chunk.Encoding.NumSamples(chunk.Data))
	of.Chunks++
	of.Samples += samples
	of.Bytes += uint64(len(chunk.Data))
	if kind := chunk.Encoding.Kind(); kind == chunkenc.ValHistogram || kind == chunkenc.ValFloatHistogram {
		n := e.buckets(chunk)
		if of.Chunks == 1 || n < of.MinBuckets {
			of.MinBuckets = n
		}
		of.MaxBuckets = max(of.MaxBuckets, n)
		of.Buckets += n
	}
	return samples
}

// buckets counts those of the first sample: all of a chunk have the same.
func (e *encodings) buckets(chunk read.StoredChunk) uint64 {
	if err := e.decoder.Reset(chunk.Encoding, chunk.Data); err != nil {
		return 0 // damage, which reading samples will tell
	}
	if ok, err := e.decoder.Next(); !ok || err != nil {
		return 0
	}
	e.decoder.FloatHistogram(&e.h)
	return uint64(len(e.h.PositiveBuckets) + len(e.h.NegativeBuckets))
}

// list has those that there are, by bytes.
func (e *encodings) list() (all []Encoded) {
	for _, of := range e.by {
		if of != nil {
			all = append(all, *of)
		}
	}
	slices.SortStableFunc(all, func(a, b Encoded) int { return cmp.Compare(b.Bytes, a.Bytes) })
	return all
}
