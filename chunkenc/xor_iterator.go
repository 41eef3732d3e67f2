package chunkenc

// XORIterator is a cursor over the decoded runs of one XOR chunk. The zero value is
// an iterator over nothing. It allocates its run buffer once, on the first Next or Seek;
// NextBatch decodes straight into the caller's batch.
type XORIterator struct {
	dec XORDecoder
	run Batch // decoded samples
	pos int   // the current one in run; -1 before its first
	t   int64 // the last sample of the last NextBatch, while batched
	v   float64
	// batched says that the iterator stands on (t, v), behind all of run.
	batched bool
	err     error
}

var _ Iterator = (*XORIterator)(nil)

// Reset puts the iterator before the first sample of a chunk, which must stay
// unchanged while the iterator is used. Damage is reported by Err.
func (it *XORIterator) Reset(data []byte) {
	it.run.cut(0)
	it.pos, it.batched = -1, false
	it.err = it.dec.Reset(data)
}

// Next implements Iterator.
func (it *XORIterator) Next() ValueType {
	if it.pos+1 < len(it.run.T) {
		it.pos++
		return ValFloat
	}
	return it.nextRun()
}

// nextRun decodes the next run and moves to its first sample.
func (it *XORIterator) nextRun() ValueType {
	it.pos, it.batched = -1, false
	it.decode(&it.run)
	if len(it.run.T) == 0 {
		return ValNone
	}
	it.pos = 0
	return ValFloat
}

// decode replaces b's content by the next samples. Samples before damage are
// delivered; the error shows when they are used up.
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

// Seek implements Iterator.
func (it *XORIterator) Seek(t int64) ValueType {
	if it.batched && it.t >= t {
		return ValFloat
	}
	i := max(it.pos, 0)
	for {
		for ts := it.run.T; i < len(ts); i++ {
			if ts[i] >= t {
				it.pos = i
				return ValFloat
			}
		}
		if it.nextRun() == ValNone {
			return ValNone
		}
		i = 0
	}
}

// At implements Iterator.
func (it *XORIterator) At() (int64, float64) {
	if it.batched {
		return it.t, it.v
	}
	return it.run.T[it.pos], it.run.V[it.pos]
}

// AtT implements Iterator.
func (it *XORIterator) AtT() int64 {
	if it.batched {
		return it.t
	}
	return it.run.T[it.pos]
}

// Err implements Iterator.
func (it *XORIterator) Err() error { return it.err }

// NextBatch implements Iterator.
func (it *XORIterator) NextBatch(b *Batch) ValueType {
	if it.pos+1 < len(it.run.T) {
		it.pos += b.fillFrom(&it.run, it.pos+1)
		return ValFloat
	}
	it.decode(b)
	n := len(b.T)
	it.run.cut(0)
	it.pos = -1
	if it.batched = n > 0; !it.batched {
		return ValNone
	}
	it.t, it.v = b.T[n-1], b.V[n-1]
	return ValFloat
}
