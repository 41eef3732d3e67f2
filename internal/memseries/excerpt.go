package memseries

import (
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// Excerpt is what a reader sees of one series: a copy, so nothing is locked while it is
// decoded. It is reused from series to series.
type Excerpt struct {
	Chunks []ExcerptChunk
	Maxt   int64  // newest visible time; later samples of the chunks are not visible
	data   []byte // chunks that are in memory
}

// ExcerptChunk is one chunk that overlaps what was asked for.
type ExcerptChunk struct {
	MinT, MaxT int64             // closed; of the whole chunk, visible or not
	Ref        chunks.Ref        // where to read it; 0: Data has it
	Encoding   chunkenc.Encoding // of Data; a file knows that of its chunks
	Num        int               // samples in the chunk, visible or not
	from, to   int
}

// Data returns the bytes of a chunk without a Ref, valid until the excerpt is reused.
func (e *Excerpt) Data(c ExcerptChunk) []byte { return e.data[c.from:c.to] }

// Excerpt fills e with the chunks of s that overlap [mint, maxt]. It reports whether there are any.
func (p Past) Excerpt(s *Series, mint, maxt int64, e *Excerpt) bool {
	sh := p.d.Shards.of(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.excerptLocked(s, p.seq, mint, maxt, e) {
		e.data = s.bytes.appendTo(e.data, p.d.chunkBytes)
		e.finish(s)
	}
	return len(e.Chunks) > 0
}

// excerptLocked is Excerpt without the bytes of the open chunk. It reports whether they are to be
// appended to e.data, which has room for them, before finish.
func (sh *Shard) excerptLocked(s *Series, snapshot uint64, mint, maxt int64, e *Excerpt) (open bool) {
	e.Chunks, e.data = e.Chunks[:0], e.data[:0]
	e.Maxt = sh.visibleLocked(s, snapshot)
	if e.Maxt == NoTime || e.Maxt < mint {
		return false
	}
	last := min(maxt, e.Maxt)
	from, to := s.mappedFrom(mint), s.mappedTo(last)
	e.Chunks = slices.Grow(e.Chunks, max(0, to-from)+1)
	for i := from; i < to; i++ {
		sh.excerptFullLocked(s.mappedAt(i), e)
	}
	n := s.enc.Len()
	if n == 0 || s.enc.FirstT() > last || s.enc.LastT() < mint {
		return false
	}
	e.Chunks = append(e.Chunks, ExcerptChunk{MinT: s.enc.FirstT(), MaxT: s.enc.LastT(), Encoding: s.open, Num: n, from: len(e.data)})
	if s.isWide() {
		sh.excerptWideLocked(s, e)
		return false
	}
	e.data = slices.Grow(e.data, int(s.bytes.size)+xorchunk.MaxSampleBytes)
	return true
}

// finish ends the open chunk, the bytes of which are in e.
func (e *Excerpt) finish(s *Series) {
	c := &e.Chunks[len(e.Chunks)-1]
	e.data = append(e.data[:c.from], s.enc.Finish(e.data[c.from:])...)
	c.to = len(e.data)
}

// excerptWideLocked appends the bytes of the open chunk, which is wide and the last one of e.
func (sh *Shard) excerptWideLocked(s *Series, e *Excerpt) {
	c, enc := &e.Chunks[len(e.Chunks)-1], &sh.mu.wide.of(s).enc
	e.data = enc.AppendTo(e.data)
	c.Encoding, c.to = enc.Encoding(), len(e.data)
}

func (sh *Shard) excerptFullLocked(m Mapped, e *Excerpt) {
	c := ExcerptChunk{MinT: m.MinT, MaxT: m.MaxT, Num: int(m.Num)}
	if inFile(m) {
		c.Ref = m.Ref
	} else {
		f := sh.mu.waiting.of(m)
		c.from, c.Encoding = len(e.data), f.encoding
		e.data = f.appendTo(e.data, sh.mu.pieces.arena)
		c.to = len(e.data)
	}
	e.Chunks = append(e.Chunks, c)
}
