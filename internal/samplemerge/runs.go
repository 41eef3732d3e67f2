package samplemerge

import (
	"fmt"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// Runs decodes a chunk in runs, and checks that its samples ascend within the bounds that are said of
// it. The zero value is at its end.
type Runs struct {
	dec        chunkenc.FloatDecoder
	mint, maxt int64 // closed: what the next samples may be
	begun      bool
}

// Reset begins a chunk, whose samples lie in mint..maxt. Data must stay as it is meanwhile. A chunk
// without samples is damage; an encoding that cannot be decoded is chunkenc.ErrUnknownEncoding.
func (r *Runs) Reset(enc chunkenc.Encoding, data []byte, mint, maxt int64) error {
	r.mint, r.maxt, r.begun = mint, maxt, false
	if err := r.dec.Reset(enc, data); err != nil {
		return err
	}
	if r.dec.Left() == 0 {
		return NoSamples()
	}
	return nil
}

// Next replaces b's content by the next run; an empty one is the end. b gets room for a run if it
// has none.
func (r *Runs) Next(b *chunkenc.Batch) error {
	if cap(b.T) == 0 {
		*b = *chunkenc.NewBatch(chunkenc.BatchSize)
	}
	if err := r.dec.Decode(b, chunkenc.BatchSize); err != nil {
		return err
	}
	for _, t := range b.T {
		if t < r.mint || t > r.maxt || t == r.mint && r.begun {
			return encbuf.Corrupt(0, fmt.Sprintf("chunk has a sample at %d, want %d to %d in ascending order", t, r.mint, r.maxt))
		}
		r.mint, r.begun = t, true
	}
	return nil
}

// NoSamples is the damage of a chunk that has none.
func NoSamples() error { return encbuf.Corrupt(0, "chunk has no samples") }
