package remote

import (
	"math"
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// batchSource is what a batchIterator goes over.
type batchSource interface {
	// samples replaces b's content by the floats that follow. If the next sample is none it moves
	// to that, leaves b empty, and returns its kind. ValNone is the end.
	samples(b *chunkenc.Batch) (chunkenc.ValueType, error)
	// other returns the sample that samples has moved to, until the next call of it.
	other() otherSample
	// seek may pass over samples before t.
	seek(t int64) error
}

// otherSample is a sample that is no float. A chunkenc.Decoder is one.
type otherSample interface {
	T() int64
	ST() int64
	// Histogram makes dst the sample; one of another kind makes it empty.
	Histogram(dst *histogram.Histogram)
	// FloatHistogram does the same, and knows integers as floats.
	FloatHistogram(dst *histogram.FloatHistogram)
}

// batchIterator is a cursor over the samples of one series, batch by batch.
type batchIterator struct {
	src batchSource

	batch chunkenc.Batch
	at    int                // batch.T[at:] was not given out
	ahead chunkenc.ValueType // of the sample that src has moved to, if it was not given out
	t     int64
	v     float64
	st    int64              // start timestamp
	kind  chunkenc.ValueType // of the sample that the iterator stands on, at t; ValNone: on none
	done  bool
	err   error
}

var _ chunkenc.Iterator = (*batchIterator)(nil)

// reset puts the iterator before the first sample. It keeps its memory.
func (it *batchIterator) reset(src batchSource) {
	b := it.batch
	b.Cut(0)
	*it = batchIterator{src: src, batch: b}
}

// fail ends the iteration with an error, which is nil at the end of the samples.
func (it *batchIterator) fail(err error) { it.err, it.done = err, true }

// fill reads more floats into b, which is empty, and returns the kind of what comes next.
func (it *batchIterator) fill(b *chunkenc.Batch) chunkenc.ValueType {
	if it.done || it.ahead != chunkenc.ValNone {
		return it.ahead
	}
	kind, err := it.src.samples(b)
	switch {
	case err != nil || kind == chunkenc.ValNone:
		it.fail(err)
		return chunkenc.ValNone
	case kind != chunkenc.ValFloat:
		it.ahead = kind
	}
	return kind
}

// refill replaces a batch that was given out, and returns the kind of what comes next.
func (it *batchIterator) refill() chunkenc.ValueType {
	if it.at < it.batch.Len() {
		return chunkenc.ValFloat
	}
	it.at = 0
	kind := it.fill(&it.batch)
	if kind != chunkenc.ValFloat {
		it.batch.Cut(0)
	}
	if kind == chunkenc.ValNone {
		it.kind = chunkenc.ValNone
	}
	return kind
}

// step moves to the next sample, which is one of the batch.
func (it *batchIterator) step() chunkenc.ValueType {
	it.t, it.v, it.st = it.batch.T[it.at], it.batch.V[it.at], it.batch.StartOf(it.at)
	it.kind = chunkenc.ValFloat
	it.at++
	return chunkenc.ValFloat
}

// stepOther moves to the next sample, which is no float.
func (it *batchIterator) stepOther() chunkenc.ValueType {
	s := it.src.other()
	it.t, it.v, it.st = s.T(), math.NaN(), s.ST()
	it.kind, it.ahead = it.ahead, chunkenc.ValNone
	return it.kind
}

// Next implements chunkenc.Iterator.
func (it *batchIterator) Next() chunkenc.ValueType {
	switch it.refill() {
	case chunkenc.ValNone:
		return chunkenc.ValNone
	case chunkenc.ValFloat:
		return it.step()
	default:
		return it.stepOther()
	}
}

// Seek implements chunkenc.Iterator.
func (it *batchIterator) Seek(t chunkenc.Timestamp) chunkenc.ValueType {
	if it.kind != chunkenc.ValNone && it.t >= t {
		return it.kind
	}
	for sought := false; ; {
		switch it.refill() {
		case chunkenc.ValNone:
			return chunkenc.ValNone
		case chunkenc.ValFloat:
			i, _ := slices.BinarySearch(it.batch.T[it.at:], t)
			if it.at += i; it.at < it.batch.Len() {
				return it.step()
			}
		default:
			if it.src.other().T() >= t {
				return it.stepOther()
			}
			it.ahead = chunkenc.ValNone
		}
		if !sought && !it.done {
			sought = true
			if err := it.src.seek(t); err != nil {
				it.fail(err)
			}
		}
	}
}

// NextBatch implements chunkenc.Iterator.
func (it *batchIterator) NextBatch(b *chunkenc.Batch) chunkenc.ValueType {
	open(b)
	if it.at < it.batch.Len() {
		n := min(cap(b.T), cap(b.V), it.batch.Len()-it.at)
		b.Append(&it.batch, it.at, it.at+n)
		it.at += n
	} else if kind := it.fill(b); kind != chunkenc.ValFloat {
		b.Cut(0)
		if kind == chunkenc.ValNone {
			it.kind = chunkenc.ValNone
		}
		return kind
	}
	last := b.Len() - 1
	it.t, it.v, it.st, it.kind = b.T[last], b.V[last], b.StartOf(last), chunkenc.ValFloat
	return chunkenc.ValFloat
}

// At implements chunkenc.Iterator.
func (it *batchIterator) At() (t int64, v float64) { return it.t, it.v }

// AtT implements chunkenc.Iterator.
func (it *batchIterator) AtT() int64 { return it.t }

// AtHistogram implements chunkenc.Iterator.
func (it *batchIterator) AtHistogram(dst *histogram.Histogram) int64 {
	if s := it.standsOn(); s != nil {
		s.Histogram(dst)
	} else {
		dst.Clear()
	}
	return it.t
}

// AtFloatHistogram implements chunkenc.Iterator.
func (it *batchIterator) AtFloatHistogram(dst *histogram.FloatHistogram) int64 {
	if s := it.standsOn(); s != nil {
		s.FloatHistogram(dst)
	} else {
		dst.Clear()
	}
	return it.t
}

// standsOn returns the sample that the iterator stands on if that is no float, else nil.
func (it *batchIterator) standsOn() otherSample {
	if it.kind <= chunkenc.ValFloat || it.ahead != chunkenc.ValNone {
		return nil
	}
	return it.src.other()
}

// AtST implements chunkenc.Iterator.
func (it *batchIterator) AtST() int64 { return it.st }

// Err implements chunkenc.Iterator.
func (it *batchIterator) Err() error { return it.err }
