package chunkenc

import "sort"

// Interval is a closed interval of times in milliseconds: both ends belong to it.
type Interval struct {
	Mint, Maxt int64
}

// BoundedIterator shows the part of another iterator that lies in a closed interval
// of times and in none of a list of deleted intervals. It relies on the other
// one's times being in order. The zero value has no samples. It allocates its run buffer
// once; NextBatch works in the caller's batch.
type BoundedIterator struct {
	cursor
	it         Iterator
	mint, maxt int64
	deleted    []Interval // those that may still matter
	done       bool       // it has nothing more for us
}

var _ Iterator = (*BoundedIterator)(nil)

// Reset makes b show the samples of it with mint <= t <= maxt that lie in no interval of
// deleted, which must be sorted and disjoint and is only read. it must be new: before its
// first sample. It belongs to b from then on, and so does deleted as long as b is used.
func (b *BoundedIterator) Reset(it Iterator, mint, maxt int64, deleted []Interval) {
	b.clear()
	b.it, b.mint, b.maxt, b.deleted = it, mint, maxt, deleted
	b.done = mint > maxt
}

// Next implements Iterator.
func (b *BoundedIterator) Next() ValueType {
	if b.pos+1 < len(b.ts) {
		b.pos++
		return ValFloat
	}
	b.fill(&b.buf)
	return b.begin()
}

// Seek implements Iterator.
func (b *BoundedIterator) Seek(t Timestamp) ValueType {
	if n := len(b.ts); n > 0 && b.ts[n-1] >= t {
		b.pos += firstAtOrAfter(b.ts[b.pos:], t)
		return ValFloat
	}
	if t > b.maxt {
		b.done = true
	}
	b.fillFrom(&b.buf, max(t, b.mint))
	return b.begin()
}

// fillFrom replaces dst by the next run at or after t, which is inside the bounds.
func (b *BoundedIterator) fillFrom(dst *Batch, t int64) {
	if b.done || b.it == nil || b.it.Seek(t) == ValNone {
		b.done = true
		dst.Cut(0)
		return
	}
	dst.open()
	dst.T[0], dst.V[0] = b.it.At()
	dst.Cut(1)
	if st := b.it.AtST(); st != 0 {
		dst.ST = append(dst.ST, st)
	}
	if !b.trim(dst) {
		b.fill(dst)
	}
}

// fill replaces dst by the next run that is not empty, if there is one.
func (b *BoundedIterator) fill(dst *Batch) {
	for !b.done && b.it != nil {
		if b.it.NextBatch(dst) == ValNone {
			b.done = true
		} else if b.trim(dst) {
			return
		}
	}
	dst.Cut(0)
}

// trim takes out of dst, which is not empty, what must not be seen, and says whether
// something is left.
func (b *BoundedIterator) trim(dst *Batch) bool {
	if last := dst.T[len(dst.T)-1]; last > b.maxt {
		b.done = true
		dst.Cut(sort.Search(len(dst.T), func(i int) bool { return dst.T[i] > b.maxt }))
	}
	if len(dst.T) > 0 && dst.T[0] < b.mint {
		dst.remove(0, firstAtOrAfter(dst.T, b.mint))
	}
	b.trimDeleted(dst)
	return len(dst.T) > 0
}

// trimDeleted takes the deleted samples out of dst and forgets the intervals that end
// before what is left to come.
func (b *BoundedIterator) trimDeleted(dst *Batch) {
	from := 0
	for len(b.deleted) > 0 && from < len(dst.T) {
		del := b.deleted[0]
		if del.Mint > dst.T[len(dst.T)-1] {
			return
		}
		from += firstAtOrAfter(dst.T[from:], del.Mint)
		to := from
		for to < len(dst.T) && dst.T[to] <= del.Maxt {
			to++
		}
		if to == len(dst.T) {
			dst.Cut(from) // the interval may go on in the next run
			return
		}
		if to > from {
			dst.remove(from, to)
		}
		b.deleted = b.deleted[1:]
	}
}

// Err implements Iterator.
func (b *BoundedIterator) Err() error {
	if b.it == nil {
		return nil
	}
	return b.it.Err()
}

// NextBatch implements Iterator.
func (b *BoundedIterator) NextBatch(dst *Batch) ValueType {
	if b.take(dst) {
		return ValFloat
	}
	b.fill(dst)
	return b.stand(dst)
}

// firstAtOrAfter returns the index of the first of the sorted times that is t or later.
func firstAtOrAfter(ts []int64, t int64) int {
	return sort.Search(len(ts), func(i int) bool { return ts[i] >= t })
}
