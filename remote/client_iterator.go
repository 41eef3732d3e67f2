package remote

import (
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
)

// sampleIterator is a cursor over the samples of one series, batch by batch.
type sampleIterator struct {
	set  *SeriesSet
	turn int

	batch  chunkenc.Batch
	at     int // batch.T[at:] was not given out
	t      int64
	v      float64
	st     int64 // start timestamp
	stands bool  // on (t, v)
	done   bool
	err    error
}

// fill reads more samples into b; false at the end.
func (it *sampleIterator) fill(b *chunkenc.Batch) bool {
	if it.done {
		return false
	}
	it.err = it.set.samples(it.turn, b)
	it.done = it.err != nil || b.Len() == 0
	return !it.done
}

// refill replaces a batch that was given out.
func (it *sampleIterator) refill() bool {
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

func (it *sampleIterator) step() chunkenc.ValueType {
	it.t, it.v, it.st, it.stands = it.batch.T[it.at], it.batch.V[it.at], it.batch.StartOf(it.at), true
	it.at++
	return chunkenc.ValFloat
}

// Next implements chunkenc.Iterator.
func (it *sampleIterator) Next() chunkenc.ValueType {
	if !it.refill() {
		return chunkenc.ValNone
	}
	return it.step()
}

// Seek implements chunkenc.Iterator.
func (it *sampleIterator) Seek(t chunkenc.Timestamp) chunkenc.ValueType {
	if it.stands && it.t >= t {
		return chunkenc.ValFloat
	}
	for it.refill() {
		i, _ := slices.BinarySearch(it.batch.T[it.at:], t)
		if it.at += i; it.at < it.batch.Len() {
			return it.step()
		}
	}
	return chunkenc.ValNone
}

// NextBatch implements chunkenc.Iterator.
func (it *sampleIterator) NextBatch(b *chunkenc.Batch) chunkenc.ValueType {
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
func (it *sampleIterator) At() (t int64, v float64) { return it.t, it.v }

// AtT implements chunkenc.Iterator.
func (it *sampleIterator) AtT() int64 { return it.t }

// AtST implements chunkenc.Iterator.
func (it *sampleIterator) AtST() int64 { return it.st }

// Err implements chunkenc.Iterator.
func (it *sampleIterator) Err() error { return it.err }
