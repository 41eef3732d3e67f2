package memseries

import (
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
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

// Presence is what the oldest and the newest sample of a series tell of a range.
type Presence uint8

// The kinds of presence, each of which tells more than the one before.
const (
	Absent   Presence = iota // no sample is in the range
	Possible                 // samples are before it and behind it: it may lie in a gap between two
	Present                  // the oldest or the newest sample is in the range
)

// Visible reports whether s has a sample with mint <= t <= maxt in a snapshot, as far
// as its bounds tell: the sample itself may still be in a gap or deleted.
func (d *Directory) Visible(s *Series, snapshot uint64, mint, maxt int64) bool {
	return d.Presence(s, snapshot, mint, maxt) != Absent
}

// Presence tells what the bounds of s in a snapshot say of mint <= t <= maxt. What is deleted it does
// not know.
func (d *Directory) Presence(s *Series, snapshot uint64, mint, maxt int64) Presence {
	sh := d.ShardOf(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.presenceLocked(s, snapshot, mint, maxt)
}

func (sh *Shard) presenceLocked(s *Series, snapshot uint64, mint, maxt int64) Presence {
	newest, oldest := sh.visibleLocked(s, snapshot), s.Mint()
	switch {
	case newest == NoTime || oldest == NoTime || newest < max(mint, oldest) || oldest > maxt:
		return Absent
	case newest > maxt && oldest < mint:
		return Possible
	default:
		return Present
	}
}

// lookAhead is how many series are asked for before the first of them is looked at.
const lookAhead = 64

// AppendVisible appends those of the series with these refs to dst that are Visible, and reports whether
// all of them are Present. Series lie all over
// the memory, so many of them are asked for at once, and the shard of neighbours is locked once
// (BenchmarkSelectHead/labels). It holds one shard at a time, for lookAhead series at most.
func (d *Directory) AppendVisible(dst []*Series, refs []uint64, snapshot uint64, mint, maxt int64) (_ []*Series, present bool) {
	present = true
	var room [lookAhead]*Series
	for len(refs) > 0 {
		n := min(len(refs), lookAhead)
		near := room[:0]
		for _, ref := range refs[:n] {
			if s := d.ByRef(ref); s != nil {
				near = append(near, s)
			}
		}
		refs = refs[n:]
		touchNewest(near)
		for len(near) > 0 {
			sh, same := d.ShardOf(near[0]), 1
			for same < len(near) && d.ShardOf(near[same]) == sh {
				same++
			}
			some := false
			dst, some = sh.appendVisible(dst, near[:same], snapshot, mint, maxt)
			present = present && some
			near = near[same:]
		}
	}
	return dst, present
}

// appendVisible is AppendVisible for series of one shard.
func (sh *Shard) appendVisible(dst, series []*Series, snapshot uint64, mint, maxt int64) (_ []*Series, present bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	touchBoundsLocked(series)
	present = true
	for _, s := range series {
		if p := sh.presenceLocked(s, snapshot, mint, maxt); p != Absent {
			dst = append(dst, s)
			present = present && p == Present
		}
	}
	return dst, present
}

// View fills v with the chunks of s that overlap [mint, maxt] in a snapshot. It
// reports whether there are any.
func (d *Directory) View(s *Series, snapshot uint64, mint, maxt int64, v *View) bool {
	sh := d.ShardOf(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.viewLocked(s, snapshot, mint, maxt, v) {
		v.data = s.bytes.appendTo(v.data, d.chunkBytes)
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
	v.data = slices.Grow(v.data, int(s.bytes.size)+chunkenc.MaxSampleBytes)
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
