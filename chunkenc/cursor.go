package chunkenc

// cursor is what the iterators of this package have in common: a place in a run of
// decoded samples. Its owner refills it. It must not be copied once it is used.
type cursor struct {
	ts  []int64 // the run; part of buf, or of last after a NextBatch
	vs  []float64
	sts []int64 // empty, or as long as ts
	pos int     // the current sample; -1 before the first one

	buf  Batch // made on the first use, so that readers of batches do not pay for it
	last struct {
		t [1]int64
		v [1]float64
		s [1]int64
	}
}

// At implements Iterator.
func (c *cursor) At() (int64, float64) { return c.ts[c.pos], c.vs[c.pos] }

// AtT implements Iterator.
func (c *cursor) AtT() int64 { return c.ts[c.pos] }

// AtST implements Iterator.
func (c *cursor) AtST() int64 {
	if len(c.sts) == 0 {
		return 0
	}
	return c.sts[c.pos]
}

// clear puts the cursor before an empty run.
func (c *cursor) clear() { c.ts, c.vs, c.sts, c.pos = nil, nil, nil, -1 }

// begin shows the samples of buf and moves to the first one.
func (c *cursor) begin() ValueType {
	c.ts, c.vs, c.sts, c.pos = c.buf.T, c.buf.V, c.buf.ST, 0
	if len(c.ts) > 0 {
		return ValFloat
	}
	c.clear()
	return ValNone
}

// take replaces b's content by the rest of the run and reports whether there was one.
func (c *cursor) take(b *Batch) bool {
	if c.pos+1 >= len(c.ts) {
		return false
	}
	b.open()
	n := copy(b.T, c.ts[c.pos+1:])
	n = copy(b.V[:n], c.vs[c.pos+1:])
	b.Cut(n)
	if len(c.sts) > 0 {
		b.ST = append(b.ST, c.sts[c.pos+1:c.pos+1+n]...)
	}
	c.pos += n
	return true
}

// stand moves to the last sample of a batch that went to the caller.
func (c *cursor) stand(b *Batch) ValueType {
	n := len(b.T)
	if n == 0 {
		c.clear()
		return ValNone
	}
	c.last.t[0], c.last.v[0], c.last.s[0] = b.T[n-1], b.V[n-1], b.StartOf(n-1)
	c.ts, c.vs, c.sts, c.pos = c.last.t[:], c.last.v[:], c.last.s[:], 0
	return ValFloat
}
