package memseries

import (
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
)

// CutAt makes t the border of chunks: from its return on no chunk in memory has samples
// before t and others at or after it, nor will one that is begun later. That lasts until
// the next CutAt. It returns how many chunks reach over t all the same, because they are in
// files or on the way there: of those a reader must take the part it means.
//
// Samples, their order and what readers see do not change.
func (d *Directory) CutAt(t int64) (over int) {
	for i := range d.shards {
		sh := &d.shards[i]
		sh.mu.Lock()
		sh.mu.limit = t
		sh.mu.Unlock()
	}
	c := splitter{d: d, t: t}
	d.eachLocked(c.cutLocked)
	return c.over
}

// splitter splits chunks at t. It keeps its buffers from chunk to chunk.
type splitter struct {
	d    *Directory
	t    int64
	over int // chunks that reach over t and cannot be split

	data []byte
	ts   []int64
	vs   []float64
	enc  chunkenc.XOREncoder
}

// cutLocked splits what reaches over t of one series: it is one chunk at most.
func (c *splitter) cutLocked(sh *Shard, s *Series) {
	if s.enc.Len() > 0 && s.enc.FirstT() < c.t {
		if s.enc.LastT() >= c.t {
			c.splitOpenLocked(sh, s)
		}
		if s.enc.FirstT() < c.t {
			s.cutAt = min(s.cutAt, c.t)
		}
		return
	}
	i := s.mappedFrom(c.t)
	if i == int(s.numMapped) || s.mappedAt(i).MinT >= c.t {
		return
	}
	m := s.mappedAt(i)
	if m.inFile() || sh.mu.waiting.of(m).taken {
		c.over++
		return
	}
	c.splitFullLocked(sh, s, i, sh.mu.waiting.of(m))
}

// splitOpenLocked makes a full chunk of the samples before t and appends the others to a
// new open one, by the usual rules. The series' newest commit stands for those of the
// samples.
func (c *splitter) splitOpenLocked(sh *Shard, s *Series) {
	a := &sh.mu.appender
	c.data = s.enc.Finish(s.bytes.appendTo(c.data[:0], a.pieces.arena))
	n := c.decode(c.data)
	s.bytes.drop(&a.pieces)
	s.enc.Reset()
	a.seq = s.lastSeq
	for i := range n {
		a.encode(s, c.ts[i], c.vs[i])
	}
	a.closeChunk(s)
	a.open(s, c.ts[n])
	for i := n; i < len(c.ts); i++ {
		a.append(s, c.ts[i], c.vs[i])
	}
}

// splitFullLocked puts two chunks in the place of number i, which is f and which no file has.
func (c *splitter) splitFullLocked(sh *Shard, s *Series, i int, f *fullChunk) {
	whole := *f
	c.data = whole.appendTo(c.data[:0], sh.mu.pieces.arena)
	n := c.decode(c.data)
	c.d.dropFullLocked(sh, f)

	sh.mu.begun++
	sh.mu.insertMapped(s, i, c.addFullLocked(sh, whole, 0, n))
	sh.mu.setMapped(s, i+1, c.addFullLocked(sh, whole, n, len(c.ts)))
	sh.mu.waiting.mixed = true
}

// addFullLocked makes a full chunk of some decoded samples of f.
func (c *splitter) addFullLocked(sh *Shard, f fullChunk, from, to int) Mapped {
	c.enc.Reset()
	for i := from; i < to; i++ {
		if err := c.enc.Append(c.ts[i], c.vs[i]); err != nil {
			panic("BUG: part of a chunk does not fit a chunk: " + err.Error())
		}
	}
	f.minT, f.maxT, f.num = c.ts[from], c.ts[to-1], uint16(to-from)
	c.data, f.bytes = c.enc.AppendTo(c.data[:0]), chunkBytes{}
	f.bytes.add(&sh.mu.pieces, c.data)
	return Mapped{Ref: sh.mu.onFull(f), MinT: f.minT, MaxT: f.maxT, Num: f.num}
}

// decode fills ts and vs with the samples of a chunk that this process encoded, and
// returns how many are before t.
func (c *splitter) decode(data []byte) int {
	var dec chunkenc.XORDecoder
	err := dec.Reset(data)
	n := dec.Left()
	c.ts, c.vs = slices.Grow(c.ts[:0], n)[:n], slices.Grow(c.vs[:0], n)[:n]
	if err == nil {
		_, err = dec.Decode(c.ts, c.vs)
	}
	if err != nil {
		panic("BUG: chunk in memory is damaged: " + err.Error())
	}
	before, _ := slices.BinarySearch(c.ts, c.t)
	return before
}
