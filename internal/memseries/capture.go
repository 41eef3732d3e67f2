package memseries

import (
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// Captured is a copy of what one series was at one moment: the full chunks that are in
// head-chunk files, and the first one that is not, which may be the open one. What a call
// gets is valid until it returns.
type Captured struct {
	Ref        uint64
	Pairs      []index.Pair // not to be changed
	Mapped     []Mapped     // each with its Ref
	Chunk      []byte       // nil: all samples are in Mapped
	Encoding   chunkenc.Encoding
	MinT, MaxT int64  // of Chunk, closed
	LastSum    uint64 // of its last sample

	from, to int  // Chunk in the captor's buffer
	full     bool // it is no open one
}

// captureLen is how many series are copied while a shard is locked: less than a hundred
// microseconds.
const captureLen = lockedLen

// Capture calls fn with a copy of each series that the log knows by commits that were
// applied: those below restored, which recovery found, and those with an applied sample. It
// runs beside commits, so copies are of different moments. Series that are created meanwhile
// may be left out; none may be removed. An error of fn ends it and is returned.
func (d *Directory) Capture(restored uint64, fn func(*Captured) error) error {
	c := captor{d: d, restored: restored}
	pages := *d.pages.pages.Load()
	for i := range pages {
		pg := pages[i].Load()
		for from := 0; pg != nil && from < pageLen; from += captureLen {
			d.Shards.ofPage(i).eachLocked(pg.series[from:from+captureLen], c.copyLocked)
			if err := c.give(fn); err != nil {
				return err
			}
		}
	}
	for _, s := range d.pages.farSorted() {
		d.Shards.of(s).oneLocked(s, c.copyLocked)
		if err := c.give(fn); err != nil {
			return err
		}
	}
	return nil
}

// captor collects copies under a lock, and gives them out without it.
type captor struct {
	d        *Directory
	restored uint64

	series []Captured
	mapped []Mapped
	data   []byte
	ends   []int // of each series' part of mapped
	dec    splitter
}

// copyLocked copies one series.
func (c *captor) copyLocked(sh *Shard, s *Series) {
	if s.lastSeq == 0 && s.ref >= c.restored {
		return // its first commit is on its way
	}
	out := Captured{Ref: s.ref, Pairs: c.d.Pairs(s), from: len(c.data)}
	n := c.copyMapped(s)
	if n < int(s.numMapped) {
		f := sh.mu.waiting.of(s.mappedAt(n))
		out.MinT, out.MaxT, out.Encoding, out.full = f.minT, f.maxT, f.encoding, true
		c.data = f.appendTo(c.data, c.d.chunkBytes)
	} else if s.enc.Len() > 0 {
		out.MinT, out.MaxT, out.LastSum = s.enc.FirstT(), s.enc.LastT(), s.enc.LastBits()
		out.Encoding = c.copyOpen(sh, s)
	}
	out.to = len(c.data)
	c.series, c.ends = append(c.series, out), append(c.ends, len(c.mapped))
}

// copyOpen copies the open chunk, and returns its encoding.
func (c *captor) copyOpen(sh *Shard, s *Series) chunkenc.Encoding {
	if s.isWide() {
		enc := &sh.mu.wide.of(s).enc
		c.data = enc.AppendTo(c.data)
		return enc.Encoding()
	}
	from := len(c.data)
	c.data = s.bytes.appendTo(slices.Grow(c.data, int(s.bytes.size)+xorchunk.MaxSampleBytes), c.d.chunkBytes)
	c.data = append(c.data[:from], s.enc.Finish(c.data[from:])...)
	return chunkenc.EncXOR
}

// copyMapped copies the full chunks up to the first one that no file has, and returns its
// number.
func (c *captor) copyMapped(s *Series) int {
	for i, m := range s.mapped() {
		if !inFile(m) {
			return i
		}
		c.mapped = append(c.mapped, m)
	}
	return int(s.numMapped)
}

// give hands out what was copied.
func (c *captor) give(fn func(*Captured) error) error {
	first := 0
	for i := range c.series {
		s := &c.series[i]
		s.Mapped = c.mapped[first:c.ends[i]:c.ends[i]]
		first = c.ends[i]
		if s.to > s.from {
			s.Chunk = c.data[s.from:s.to:s.to]
		}
		if s.full {
			c.dec.decode(s.Encoding, s.Chunk)
			s.LastSum = c.dec.at(len(c.dec.samples.T) - 1).Sum
		}
		if err := fn(s); err != nil {
			return err
		}
	}
	c.series, c.mapped, c.data, c.ends = c.series[:0], c.mapped[:0], c.data[:0], c.ends[:0]
	return nil
}

// Unlog says of series that the log has no record of them, as far as inLog knows it up to a
// commit: of those below restored, and those whose newest applied commit is not behind it. The
// next commit of such a series writes a record. It returns how many there are.
func (d *Directory) Unlog(restored, seq uint64, inLog func(ref uint64) bool) (n int) {
	d.Shards.eachLocked(func(_ *Shard, s *Series) {
		known := s.lastSeq > 0 || s.ref < restored
		if s.Logged() && known && s.lastSeq <= seq && !inLog(s.ref) {
			s.SetLogged(false)
			n++
		}
	})
	return n
}
