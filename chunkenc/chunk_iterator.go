package chunkenc

import (
	"math"

	"github.com/seed347100a3/tsdb/histogram"
)

// chunkIterator is a cursor over one chunk. The zero value is an iterator over nothing. Floats are
// decoded in runs: it allocates its run buffer once, on the first Next or Seek; NextBatch decodes
// straight into the caller's batch.
type chunkIterator struct {
	cursor
	dec Decoder
	err error
}

var _ Iterator = (*chunkIterator)(nil)

// reset puts the iterator before the first sample of a chunk, whose bytes must stay
// unchanged while the iterator is used. Damage is reported by Err.
func (it *chunkIterator) reset(c Chunk) {
	it.clear()
	if c.enc == EncNone {
		it.dec, it.err = Decoder{hist: it.dec.hist}, nil
		return
	}
	it.err = it.dec.Reset(c.enc, c.data)
}

// Next implements Iterator.
func (it *chunkIterator) Next() ValueType {
	if it.pos+1 < len(it.ts) {
		it.pos++
		return ValFloat
	}
	if it.dec.other != ValNone {
		return it.nextOther()
	}
	it.decode(&it.buf)
	return it.begin()
}

// nextOther is Next in a chunk that has no floats.
func (it *chunkIterator) nextOther() ValueType {
	if it.err == nil {
		var ok bool
		if ok, it.err = it.dec.Next(); ok {
			it.last.t[0], it.last.v[0], it.last.s[0] = it.dec.T(), math.NaN(), it.dec.ST()
			it.ts, it.vs, it.sts, it.pos = it.last.t[:], it.last.v[:], it.last.s[:], 0
			return it.dec.other
		}
	}
	it.clear()
	return ValNone
}

// decode replaces b's content by the next samples. Samples before damage are
// delivered; the error ends the iteration when they are used up.
func (it *chunkIterator) decode(b *Batch) {
	if it.err != nil || it.dec.Left() == 0 {
		b.Cut(0)
		return
	}
	b.open()
	it.err = it.dec.Decode(b, len(b.T))
}

// Seek implements Iterator. Times may be in any order.
func (it *chunkIterator) Seek(t Timestamp) ValueType {
	if it.dec.other != ValNone {
		for len(it.ts) == 0 || it.ts[it.pos] < t {
			if it.nextOther() == ValNone {
				return ValNone
			}
		}
		return it.dec.other
	}
	for i := max(it.pos, 0); ; i = 0 {
		for ; i < len(it.ts); i++ {
			if it.ts[i] >= t {
				it.pos = i
				return ValFloat
			}
		}
		it.decode(&it.buf)
		if it.begin() == ValNone {
			return ValNone
		}
	}
}

// Err implements Iterator.
func (it *chunkIterator) Err() error { return it.err }

// NextBatch implements Iterator.
func (it *chunkIterator) NextBatch(b *Batch) ValueType {
	if it.dec.other != ValNone {
		b.Cut(0)
		if it.err != nil || it.dec.Left() == 0 {
			it.clear()
			return ValNone
		}
		return it.dec.other
	}
	if it.take(b) {
		return ValFloat
	}
	it.decode(b)
	return it.stand(b)
}

// AtHistogram implements Iterator.
func (it *chunkIterator) AtHistogram(dst *histogram.Histogram) int64 {
	it.dec.Histogram(dst)
	return it.AtT()
}

// AtFloatHistogram implements Iterator.
func (it *chunkIterator) AtFloatHistogram(dst *histogram.FloatHistogram) int64 {
	it.dec.FloatHistogram(dst)
	return it.AtT()
}
