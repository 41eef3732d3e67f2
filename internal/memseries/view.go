package memseries

import (
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// View is what a reader sees of one series: a copy, so nothing is locked while it is
// decoded. It is reused from series to series.
type View struct {
	Chunks []ViewChunk
	Maxt   int64  // newest visible time; later samples of the chunks are not visible
	data   []byte // chunks that are in memory
}

// ViewChunk is one chunk that overlaps what was asked for.
type ViewChunk struct {
	MinT, MaxT int64             // closed; of the whole chunk, visible or not
	Ref        chunks.Ref        // where to read it; 0: Data has it
	Encoding   chunkenc.Encoding // of Data; a file knows that of its chunks
	Num        int               // samples in the chunk, visible or not
	from, to   int
}

// Data returns the bytes of a chunk without a Ref, valid until the view is reused.
func (v *View) Data(c ViewChunk) []byte { return v.data[c.from:c.to] }

// View fills v with the chunks of s that overlap [mint, maxt]. It reports whether there are any.
func (p Past) View(s *Series, mint, maxt int64, v *View) bool {
	sh := p.d.Shards.of(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.viewLocked(s, p.seq, mint, maxt, v) {
		v.data = s.bytes.appendTo(v.data, p.d.chunkBytes)
		v.finish(s)
	}
	return len(v.Chunks) > 0
}

// viewLocked is View without the bytes of the open chunk. It reports whether they are to be
// appended to v.data, which has room for them, before finish.
func (sh *Shard) viewLocked(s *Series, snapshot uint64, mint, maxt int64, v *View) (open bool) {
	v.Chunks, v.data = v.Chunks[:0], v.data[:0]
	v.Maxt = sh.visibleLocked(s, snapshot)
	if v.Maxt == NoTime || v.Maxt < mint {
		return false
	}
	last := min(maxt, v.Maxt)
	from, to := s.mappedFrom(mint), s.mappedTo(last)
	v.Chunks = slices.Grow(v.Chunks, max(0, to-from)+1)
	for i := from; i < to; i++ {
		sh.viewFullLocked(s.mappedAt(i), v)
	}
	n := s.enc.Len()
	if n == 0 || s.enc.FirstT() > last || s.enc.LastT() < mint {
		return false
	}
	v.Chunks = append(v.Chunks, ViewChunk{MinT: s.enc.FirstT(), MaxT: s.enc.LastT(), Encoding: s.open, Num: n, from: len(v.data)})
	if s.isWide() {
		sh.viewWideLocked(s, v)
		return false
	}
	v.data = slices.Grow(v.data, int(s.bytes.size)+xorchunk.MaxSampleBytes)
	return true
}

// finish ends the open chunk, the bytes of which are in v.
func (v *View) finish(s *Series) {
	c := &v.Chunks[len(v.Chunks)-1]
	v.data = append(v.data[:c.from], s.enc.Finish(v.data[c.from:])...)
	c.to = len(v.data)
}

// viewWideLocked appends the bytes of the open chunk, which is wide and the last one of v.
func (sh *Shard) viewWideLocked(s *Series, v *View) {
	c, enc := &v.Chunks[len(v.Chunks)-1], &sh.mu.wide.open[s.ref].enc
	v.data = enc.AppendTo(v.data)
	c.Encoding, c.to = enc.Encoding(), len(v.data)
}

func (sh *Shard) viewFullLocked(m Mapped, v *View) {
	c := ViewChunk{MinT: m.MinT, MaxT: m.MaxT, Num: int(m.Num)}
	if m.inFile() {
		c.Ref = m.Ref
	} else {
		f := sh.mu.waiting.of(m)
		c.from, c.Encoding = len(v.data), f.encoding
		v.data = f.appendTo(v.data, sh.mu.pieces.arena)
		c.to = len(v.data)
	}
	v.Chunks = append(v.Chunks, c)
}
