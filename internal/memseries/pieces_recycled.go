package memseries

// recycled are free pieces of recovery, which frees them by the thousand: by number, so that
// taking one does not wait for the one before it.
type recycled struct {
	chunks []chunkBytes // whole chunks
	spare  []uint32
	walk   walk
}

// put frees the pieces of a chunk.
func (c *recycled) put(b chunkBytes) { c.chunks = append(c.chunks, b) }

// get returns a piece, 0 if there is none.
func (c *recycled) get(a *pieceArena) uint32 {
	if len(c.spare) == 0 {
		c.unlink(a)
	}
	l := len(c.spare)
	if l == 0 {
		return 0
	}
	n := c.spare[l-1]
	c.spare = c.spare[:l-1]
	return n
}

// unlink makes spare pieces of some chunks.
func (c *recycled) unlink(a *pieceArena) {
	some := c.chunks[max(0, len(c.chunks)-GroupLen):]
	c.walk.begin(len(some), func(i int) chunkBytes { return some[i] }, a)
	for i := range some {
		c.spare = append(c.spare, c.walk.of(i)...)
		rest := c.walk.rest(i, a)
		for n, left := rest.first, int(rest.size); left > 0; left -= piecePayload {
			c.spare = append(c.spare, n)
			n = a.at(n).next
		}
	}
	c.chunks = c.chunks[:len(c.chunks)-len(some)]
}

// linkTo gives all of them to an owner.
func (c *recycled) linkTo(p *pieces) {
	for _, b := range c.chunks {
		p.put(b.first, b.last)
	}
	for _, n := range c.spare {
		p.put(n, n)
	}
	*c = recycled{}
}
