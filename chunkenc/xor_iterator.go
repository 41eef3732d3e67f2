package chunkenc

// XORIterator is a cursor over the decoded runs of one XOR chunk. The zero value is
// an iterator over nothing. It allocates its run buffer once, on the first Next or Seek;
// NextBatch decodes straight into the caller's batch.
type XORIterator struct {
	cursor
	dec XORDecoder
	err error
}

var _ Iterator = (*XORIterator)(nil)

// Reset puts the iterator before the first sample of a chunk, which must stay
// unchanged while the iterator is used. Damage is reported by Err.
func (it *XORIterator) Reset(data []byte) {
	it.clear()
	it.err = it.dec.Reset(data)
}

// Next implements Iterator.
func (it *XORIterator) Next() ValueType {
	if it.pos+1 < len(it.ts) {
		it.pos++
		return ValFloat
	}
	it.decode(&it.buf)
	return it.begin()
}

// decode replaces b's content by the next samples. Samples before damage are
// delivered; the error ends the iteration when they are used up.
func (it *XORIterator) decode(b *Batch) {
	if it.err != nil || it.dec.Left() == 0 {
		b.cut(0)
		return
	}
	b.open()
	n, err := it.dec.Decode(b.T, b.V)
	it.err = err
	b.cut(n)
}

// Seek implements Iterator. Times may be in any order.
func (it *XORIterator) Seek(t int64) ValueType {
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
func (it *XORIterator) Err() error { return it.err }

// NextBatch implements Iterator.
func (it *XORIterator) NextBatch(b *Batch) ValueType {
	if it.take(b) {
		return ValFloat
	}
	it.decode(b)
	return it.stand(b)
}
