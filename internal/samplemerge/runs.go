package samplemerge

import (
	"fmt"
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// Runs gives the samples of a chunk in runs, and checks that they ascend within the bounds that are
// said of it. The zero value is at its end.
type Runs struct {
	dec        chunkenc.Decoder
	given      *chunkenc.Batch // samples that need no decoding; nil: there are none left
	at         int             // the next one of them
	mint, maxt int64           // closed: what the next samples may be
	begun      bool
	other      bool // the samples of the chunk are no floats
}

// Reset begins a chunk, which must stay as it is meanwhile. A chunk without samples is damage; an
// encoding that cannot be decoded is chunkenc.ErrUnknownEncoding.
//
// Here and nowhere else the encoding of what is merged decides what becomes of it. Floats go in
// runs. What is no float goes one by one: its run has its time and no value, and Other has the
// rest.
func (r *Runs) Reset(c *Chunk) error {
	r.mint, r.maxt, r.begun = c.MinT, c.MaxT, false
	r.given, r.at, r.other = c.Samples, 0, false
	if r.given == nil {
		if err := r.dec.Reset(c.Encoding, c.Data); err != nil {
			return err
		}
		r.other = r.dec.Kind() != chunkenc.ValFloat
		if r.dec.Left() > 0 {
			return nil
		}
	} else if r.dec.Stop(); r.given.Len() > 0 { // of the chunk before, which may be read in part only
		return nil
	}
	return NoSamples()
}

// Next replaces b's content by the next run; an empty one is the end. b gets room for a run if it
// has none.
func (r *Runs) Next(b *chunkenc.Batch) error {
	if r.dec.Left() == 0 && r.given == nil {
		b.Cut(0)
		return nil
	}
	if cap(b.T) == 0 {
		*b = *chunkenc.NewBatch(chunkenc.BatchSize)
	}
	if r.given != nil {
		r.copyGiven(b)
	} else if r.other {
		if err := r.nextOther(b); err != nil {
			return err
		}
	} else if err := r.dec.Decode(b, chunkenc.BatchSize); err != nil {
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

// Other returns the decoder of a chunk that has no floats, which stands on the sample that Next
// gave; nil if it has.
func (r *Runs) Other() *chunkenc.Decoder {
	if !r.other {
		return nil
	}
	return &r.dec
}

// nextOther makes b the run of one sample that is no float.
func (r *Runs) nextOther(b *chunkenc.Batch) error {
	b.Cut(0)
	ok, err := r.dec.Next()
	if !ok {
		return err
	}
	b.T, b.V = append(b.T, r.dec.T()), append(b.V, math.NaN())
	return nil
}

// copyGiven takes samples that are decoded.
func (r *Runs) copyGiven(b *chunkenc.Batch) {
	n := min(r.given.Len()-r.at, cap(b.T), cap(b.V))
	b.Cut(0)
	b.Append(r.given, r.at, r.at+n)
	if r.at += n; r.at == r.given.Len() {
		r.given = nil
	}
}

// NoSamples is the damage of a chunk that has none.
func NoSamples() error { return encbuf.Corrupt(0, "chunk has no samples") }
