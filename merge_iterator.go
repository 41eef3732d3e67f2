package tsdb

import "github.com/seed347100a3/tsdb/chunkenc"

// mergeIterator merges the samples of one series from several places by time. Where
// two have a sample at the same time, the first place wins.
type mergeIterator struct {
	parts []chunkenc.Iterator // those that stand on a sample
	begun bool
	cur   int // index into parts of the sample to return
	err   error
}

func newMergeIterator(parts []chunkenc.Iterator) *mergeIterator {
	return &mergeIterator{parts: parts}
}

// Next implements chunkenc.Iterator.
func (it *mergeIterator) Next() chunkenc.ValueType {
	if !it.begun {
		return it.advance(func(p chunkenc.Iterator) chunkenc.ValueType { return p.Next() })
	}
	if len(it.parts) == 0 {
		return chunkenc.ValNone
	}
	t := it.AtT()
	return it.advance(func(p chunkenc.Iterator) chunkenc.ValueType {
		if p.AtT() > t {
			return chunkenc.ValFloat
		}
		return p.Next()
	})
}

// Seek implements chunkenc.Iterator.
func (it *mergeIterator) Seek(t int64) chunkenc.ValueType {
	return it.advance(func(p chunkenc.Iterator) chunkenc.ValueType { return p.Seek(t) })
}

// advance moves every part by step, drops those at their end and finds the earliest.
func (it *mergeIterator) advance(step func(chunkenc.Iterator) chunkenc.ValueType) chunkenc.ValueType {
	it.begun = true
	left := it.parts[:0]
	for _, p := range it.parts {
		switch {
		case step(p) != chunkenc.ValNone:
			left = append(left, p)
		case p.Err() != nil && it.err == nil:
			it.err = p.Err()
		}
	}
	it.parts = left
	if it.err != nil {
		it.parts = nil // a sample behind damage could be out of order
	}
	if len(it.parts) == 0 {
		return chunkenc.ValNone
	}
	it.cur = 0
	for i := 1; i < len(it.parts); i++ {
		if it.parts[i].AtT() < it.parts[it.cur].AtT() {
			it.cur = i
		}
	}
	return chunkenc.ValFloat
}

// At implements chunkenc.Iterator.
func (it *mergeIterator) At() (int64, float64) { return it.parts[it.cur].At() }

// AtT implements chunkenc.Iterator.
func (it *mergeIterator) AtT() int64 { return it.parts[it.cur].AtT() }

// Err implements chunkenc.Iterator.
func (it *mergeIterator) Err() error { return it.err }

// NextBatch implements chunkenc.Iterator.
func (it *mergeIterator) NextBatch(b *chunkenc.Batch) chunkenc.ValueType {
	grow(b)
	b.T, b.V = b.T[:0], b.V[:0]
	for len(b.T) < min(cap(b.T), cap(b.V)) && it.Next() != chunkenc.ValNone {
		t, v := it.At()
		b.T, b.V = append(b.T, t), append(b.V, v)
	}
	if len(b.T) == 0 {
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}
