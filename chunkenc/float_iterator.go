package chunkenc

// FloatIterator is a cursor over the decoded runs of one chunk of floats. The zero value
// is an iterator over nothing. It allocates its run buffer once, on the first Next or
// Seek; NextBatch decodes straight into the caller's batch.
type FloatIterator struct {
	cursor
	dec FloatDecoder
	err error
}

var _ Iterator = (*FloatIterator)(nil)

// Reset puts the iterator before the first sample of a chunk, whose bytes must stay
// unchanged while the iterator is used. Damage is reported by Err.
func (it *FloatIterator) Reset(c Chunk) {
	it.clear()
	it.err = it.dec.Reset(c.enc, c.data)
}

// Next implements Iterator.
func (it *FloatIterator) Next() ValueType {
	if it.pos+1 < len(it.ts) {
		it.pos++
		return ValFloat
	}
	it.decode(&it.buf)
	return it.begin()
}

// decode replaces b's content by the next samples. Samples before damage are
// delivered; the error ends the iteration when they are used up.
func (it *FloatIterator) decode(b *Batch) {
	if it.err != nil || it.dec.Left() == 0 {
		b.Cut(0)
		return
	}
	b.open()
	it.err = it.dec.Decode(b, len(b.T))
}

// Seek implements Iterator. Times may be in any order.
func (it *FloatIterator) Seek(t Timestamp) ValueType {
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
func (it *FloatIterator) Err() error { return it.err }

// NextBatch implements Iterator.
func (it *FloatIterator) NextBatch(b *Batch) ValueType {
	if it.take(b) {
		return ValFloat
	}
	it.decode(b)
	return it.stand(b)
}
