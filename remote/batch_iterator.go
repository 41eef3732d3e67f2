package remote

import (
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// batchSource is what a batchIterator goes over.
type batchSource interface {
	// samples replaces b's content by the samples that follow; none is the end.
	samples(b *chunkenc.Batch) error
	// seek may pass over samples before t.
	seek(t int64) error
}

// batchIterator is a cursor over the samples of one series, batch by batch.
type batchIterator struct {
	src batchSource

	batch  chunkenc.Batch
	at     int // batch.T[at:] was not given out
	t      int64
	v      float64
	st     int64 // start timestamp
	stands bool  // on (t, v)
	done   bool
	err    error
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

// fill reads more samples into b; false at the end.
func (it *batchIterator) fill(b *chunkenc.Batch) bool {
	if it.done {
		return false
	}
	if err := it.src.samples(b); err != nil || b.Len() == 0 {
		it.fail(err)
	}
	return !it.done
}

// refill replaces a batch that was given out.
func (it *batchIterator) refill() bool {
	if it.at < it.batch.Len() {
		return true
	}
	it.at = 0
	if it.fill(&it.batch) {
		return true
	}
	it.batch.Cut(0)
	it.stands = false
	return false
}

func (it *batchIterator) step() chunkenc.ValueType {
	it.t, it.v, it.st, it.stands = it.batch.T[it.at], it.batch.V[it.at], it.batch.StartOf(it.at), true
	it.at++
	return chunkenc.ValFloat
}

// Next implements chunkenc.Iterator.
func (it *batchIterator) Next() chunkenc.ValueType {
	if !it.refill() {
		return chunkenc.ValNone
	}
	return it.step()
}

// Seek implements chunkenc.Iterator.
func (it *batchIterator) Seek(t chunkenc.Timestamp) chunkenc.ValueType {
	if it.stands && it.t >= t {
		return chunkenc.ValFloat
	}
	for sought := false; it.refill(); {
		i, _ := slices.BinarySearch(it.batch.T[it.at:], t)
		if it.at += i; it.at < it.batch.Len() {
			return it.step()
		}
		if !sought && !it.done {
			sought = true
			if err := it.src.seek(t); err != nil {
				it.fail(err)
			}
		}
	}
	return chunkenc.ValNone
}

// NextBatch implements chunkenc.Iterator.
func (it *batchIterator) NextBatch(b *chunkenc.Batch) chunkenc.ValueType {
	open(b)
	if it.at < it.batch.Len() {
		n := min(cap(b.T), cap(b.V), it.batch.Len()-it.at)
		b.Append(&it.batch, it.at, it.at+n)
		it.at += n
	} else if !it.fill(b) {
		b.Cut(0)
		it.stands = false
		return chunkenc.ValNone
	}
	last := b.Len() - 1
	it.t, it.v, it.st, it.stands = b.T[last], b.V[last], b.StartOf(last), true
	return chunkenc.ValFloat
}

// At implements chunkenc.Iterator.
func (it *batchIterator) At() (t int64, v float64) { return it.t, it.v }

// AtT implements chunkenc.Iterator.
func (it *batchIterator) AtT() int64 { return it.t }

// AtHistogram implements chunkenc.Iterator. It stands on floats only.
func (it *batchIterator) AtHistogram(dst *histogram.Histogram) int64 {
	dst.Clear()
	return it.t
}

// AtFloatHistogram implements chunkenc.Iterator. It stands on floats only.
func (it *batchIterator) AtFloatHistogram(dst *histogram.FloatHistogram) int64 {
	dst.Clear()
	return it.t
}

// AtST implements chunkenc.Iterator.
func (it *batchIterator) AtST() int64 { return it.st }

// Err implements chunkenc.Iterator.
func (it *batchIterator) Err() error { return it.err }
