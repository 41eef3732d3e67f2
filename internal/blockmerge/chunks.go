package blockmerge

import (
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// inputChunk is a chunk of a series that is being merged.
type inputChunk struct {
	index.ChunkMeta // closed bounds
	dir             *blockdir.Dir
	input           int64                // smaller ones win where two have a sample at one time
	deleted         tombstones.Intervals // of the series in this input
	old             bool                 // it goes, unless one that stays reaches into it
}

// damage places what is wrong with a chunk. What was encoded here has no place.
//
//go:noinline
func (p *inputChunk) damage(err error) error {
	if p.dir == nil {
		return err
	}
	return p.dir.Chunks().Place(p.Ref, err)
}

// chunkMerger writes the chunks of one series after the other. A chunk that overlaps no
// other one, has nothing deleted, and is not small is copied as it is: to decode and
// encode it again would cost a hundred times as much.
//
// Small neighbours are joined while together they are no more than one new chunk would
// be. A chunk costs more than its samples: its own first time and value in full, frame
// and checksum, an entry in the index, and a read of its own by every query. Series that
// are scraped rarely would otherwise have one small chunk for each block that was ever
// merged, and deletes and early flushes leave small ones too.
type chunkMerger struct {
	w               *blockdir.Writer
	mint, maxt      int64 // closed; samples outside are dropped
	samplesPerChunk int
	counts          Counts

	spare      []inputChunk   // what sort merges into
	buf, other []byte         // chunks that were read, or encoded
	run        chunkenc.Batch // of a chunk that is joined
	sources    sources        // that overlap
	mixed      chunkenc.Batch // of their samples
	enc        chunkEncoder   // of chunks of those
	small      smallChunk
}

// chunkEncoder is a chunk that is being encoded, with its bounds.
type chunkEncoder struct {
	chunkenc.Encoder
	mint, maxt int64
}

// add appends the samples [i, n) of a run, of which there is at least one, and for which there is
// room.
func (e *chunkEncoder) add(run *chunkenc.Batch, i, n int) {
	if e.Len() == 0 {
		e.mint = run.T[i]
	}
	e.maxt = run.T[n-1]
	for ; i < n; i++ {
		if err := e.Append(run.T[i], run.V[i], run.StartOf(i)); err != nil {
			panic("BUG: merged chunk has no end: " + err.Error())
		}
	}
}

// addOther appends a sample that is no float. False: it begins a new chunk.
func (e *chunkEncoder) addOther(d *chunkenc.Decoder) bool {
	begins := e.Len() == 0
	if e.AppendOther(d) != nil {
		return false
	}
	if begins {
		e.mint = d.T()
	}
	e.maxt = d.T()
	return true
}

// take returns the chunk, in buf, and begins a new one.
func (e *chunkEncoder) take(buf []byte) blockdir.Chunk {
	c := blockdir.Chunk{MinT: e.mint, MaxT: e.maxt, Num: e.Len(), Encoding: e.Encoding(), Data: e.AppendTo(buf[:0])}
	e.Reset()
	return c
}

// smallChunk is the last chunk, held back because its successor may be small, too.
type smallChunk struct {
	blockdir.Chunk            // Num 0: there is none
	from           inputChunk // where it was read; none if it was encoded here
	data           []byte     // its buffer
	open           bool       // its samples are in enc, Data is out of date
	enc            chunkEncoder
}

func (s *smallChunk) sizeBytes() int {
	if s.open {
		return s.enc.SizeBytes()
	}
	return len(s.Data)
}

// write writes the chunks of one series.
func (m *chunkMerger) write(ps []inputChunk) error {
	m.sort(ps)
	for len(ps) > 0 {
		n, end := 1, ps[0].MaxT
		for n < len(ps) && ps[n].MinT <= end {
			end = max(end, ps[n].MaxT)
			n++
		}
		var err error
		if n == 1 {
			err = m.one(&ps[0])
		} else {
			err = m.overlapping(ps[:n])
		}
		if err != nil {
			return err
		}
		ps = ps[n:]
	}
	return m.flush()
}

// sort sorts chunks by start, those of equal starts as they stand. They are a few runs, of one
// input each, that are merged pairwise: package slices would make its sort anew for them, and
// package sort allocates.
func (m *chunkMerger) sort(ps []inputChunk) {
	for {
		merged := m.spare[:0]
		for rest := ps; len(rest) > 0; {
			n := ascending(rest)
			if n == len(ps) {
				return
			}
			a, b := rest[:n], rest[n:]
			b = b[:ascending(b)]
			rest = rest[len(a)+len(b):]
			for len(a) > 0 && len(b) > 0 {
				from := &a
				if b[0].MinT < a[0].MinT {
					from = &b
				}
				merged = append(merged, (*from)[0])
				*from = (*from)[1:]
			}
			merged = append(append(merged, a...), b...)
		}
		m.spare = merged
		copy(ps, merged)
	}
}

// ascending returns how many chunks in front are in order.
func ascending(ps []inputChunk) int {
	n := min(len(ps), 1)
	for n < len(ps) && ps[n-1].MinT <= ps[n].MinT {
		n++
	}
	return n
}

// bounds say what of a chunk is kept.
func (m *chunkMerger) bounds(p *inputChunk) samplemerge.Bounds {
	return samplemerge.Bounds{From: m.mint, To: m.maxt, Deleted: p.deleted}
}

// whole tells whether all of a chunk is kept; gone, whether nothing is.
func (m *chunkMerger) whole(p *inputChunk) bool {
	b := m.bounds(p)
	return b.Whole(p.MinT, p.MaxT)
}

func (m *chunkMerger) gone(p *inputChunk) bool {
	b := m.bounds(p)
	return b.Hides(p.MinT, p.MaxT)
}

// one writes a chunk that overlaps no other one.
func (m *chunkMerger) one(p *inputChunk) error {
	switch {
	case m.gone(p):
		m.counts.Dropped++
		return nil
	case !m.whole(p):
		return m.mix([]inputChunk{*p}, chunkenc.MaxSamples) // one chunk remains one
	}
	c, err := m.read(p)
	if err != nil {
		return err
	}
	return m.pass(p, c)
}

// read reads a chunk into m.buf.
func (m *chunkMerger) read(p *inputChunk) (c blockdir.Chunk, err error) {
	c.MinT, c.MaxT = p.MinT, p.MaxT
	c.Encoding, m.buf, err = p.dir.Chunks().Read(p.Ref, m.buf)
	if err != nil {
		return c, err
	}
	c.Data = m.buf
	if c.Num = c.Encoding.NumSamples(c.Data); c.Num == 0 {
		return c, p.damage(samplemerge.NoSamples())
	}
	return c, nil
}

// overlapping writes chunks that overlap.
func (m *chunkMerger) overlapping(ps []inputChunk) error {
	same, c, err := m.identical(ps)
	if err != nil {
		return err
	}
	if same {
		m.counts.Dropped += uint64(len(ps) - 1)
		return m.pass(&ps[0], c)
	}
	return m.mix(ps, m.samplesPerChunk)
}

// identical tells whether the chunks are all the same chunk, and reads it into m.buf. That
// is so when a merge was interrupted before its inputs went, or two servers have seen the
// same.
func (m *chunkMerger) identical(ps []inputChunk) (bool, blockdir.Chunk, error) {
	for i := range ps {
		if ps[i].MinT != ps[0].MinT || ps[i].MaxT != ps[0].MaxT || !m.whole(&ps[i]) {
			return false, blockdir.Chunk{}, nil
		}
	}
	first, err := m.read(&ps[0])
	for i := 1; i < len(ps) && err == nil; i++ {
		m.buf, m.other = m.other, m.buf
		var c blockdir.Chunk
		c, err = m.read(&ps[i])
		m.buf, m.other = m.other, m.buf
		if err == nil && (c.Encoding != first.Encoding || !slices.Equal(c.Data, first.Data)) {
			return false, first, nil
		}
	}
	return err == nil, first, err
}

// mix decodes chunks, sorted by start, and writes their samples by time in chunks of
// perChunk samples.
func (m *chunkMerger) mix(ps []inputChunk, perChunk int) error {
	if err := m.sources.begin(m, ps); err != nil {
		return err
	}
	for {
		stop, err := m.sources.merged.Next(&m.mixed)
		if err == nil {
			err = m.addFloats(perChunk)
		}
		switch {
		case err != nil:
			return err
		case stop == samplemerge.AtOther:
			err = m.addOther(perChunk)
		case m.mixed.Len() == 0:
			return m.passEncoded()
		}
		if err != nil {
			return err
		}
	}
}

// addFloats encodes what is mixed.
func (m *chunkMerger) addFloats(perChunk int) error {
	for i := 0; i < m.mixed.Len(); {
		if m.enc.Len() == perChunk || m.enc.Encoding().Kind() != chunkenc.ValFloat {
			if err := m.passEncoded(); err != nil {
				return err
			}
		}
		n := min(m.mixed.Len(), i+perChunk-m.enc.Len())
		m.enc.add(&m.mixed, i, n)
		i = n
	}
	return nil
}

// addOther encodes the next sample, which is no float.
func (m *chunkMerger) addOther(perChunk int) error {
	d := m.sources.merged.Other()
	if m.enc.Len() == perChunk || !m.enc.addOther(d) {
		if err := m.passEncoded(); err != nil {
			return err
		}
		if !m.enc.addOther(d) {
			panic("BUG: a new chunk takes no sample")
		}
	}
	m.sources.merged.Take()
	return nil
}

// passEncoded writes what mix has encoded, if anything.
func (m *chunkMerger) passEncoded() error {
	if m.enc.Len() == 0 {
		return nil
	}
	c := m.enc.take(m.buf)
	m.buf = c.Data
	return m.pass(&inputChunk{}, c)
}

// pass writes a chunk that is in m.buf, or joins it with the one before, or holds it back
// because it is small.
func (m *chunkMerger) pass(p *inputChunk, c blockdir.Chunk) error {
	s := &m.small
	if m.joins(&c) {
		return m.join(p, c)
	}
	if err := m.flush(); err != nil {
		return err
	}
	if m.isSmall(&c) {
		s.Chunk, s.from = c, *p
		s.data, m.buf = m.buf, s.data
		return nil
	}
	if p.dir != nil {
		m.counts.Passed++
	}
	return m.w.AddChunk(c)
}

// isSmall tells whether a chunk may be joined with its neighbours. Heads end chunks of histograms
// by their bytes, and so many of them have few samples.
func (m *chunkMerger) isSmall(c *blockdir.Chunk) bool {
	return c.Encoding.Known() && c.Num < m.samplesPerChunk && (c.Encoding == chunkenc.EncXOR || len(c.Data) <= chunkenc.TargetBytes/2)
}

// joins tells whether c belongs behind the samples of the small chunk.
func (m *chunkMerger) joins(c *blockdir.Chunk) bool {
	s := &m.small
	if s.Num == 0 || s.Num+c.Num > m.samplesPerChunk || !c.Encoding.Known() || s.Encoding.Kind() != c.Encoding.Kind() {
		return false
	}
	return c.Encoding == chunkenc.EncXOR || s.sizeBytes()+len(c.Data) <= chunkenc.TargetBytes
}

// join puts the samples of c behind those of the small chunk. A histogram that cannot follow the
// others in one chunk begins the next one.
func (m *chunkMerger) join(p *inputChunk, c blockdir.Chunk) error {
	s := &m.small
	if !s.open {
		s.enc.Reset()
		if err := m.appendSamples(&s.from, s.Chunk); err != nil {
			return err
		}
		m.counts.Joined++
		s.open = true
	}
	if err := m.appendSamples(p, c); err != nil {
		return err
	}
	m.counts.Joined++
	s.Num, s.Encoding = s.enc.Len(), s.enc.Encoding()
	return nil
}

// flush writes the small chunk, if there is one.
func (m *chunkMerger) flush() error {
	s := &m.small
	if s.Num == 0 {
		return nil
	}
	if s.open {
		s.Chunk = s.enc.take(s.data)
		s.data = s.Data
	} else if s.from.dir != nil {
		m.counts.Passed++
	}
	err := m.w.AddChunk(s.Chunk)
	s.Chunk, s.from, s.open = blockdir.Chunk{}, inputChunk{}, false
	return err
}

// appendSamples decodes all of a chunk, which p may place, into the small one. Chunks that end on
// the way are written.
func (m *chunkMerger) appendSamples(p *inputChunk, c blockdir.Chunk) error {
	e := &m.small.enc
	var r samplemerge.Runs
	if err := r.Reset(&samplemerge.Chunk{Encoding: c.Encoding, Data: c.Data, MinT: c.MinT, MaxT: c.MaxT}); err != nil {
		return p.damage(err)
	}
	for {
		if err := r.Next(&m.run); err != nil {
			return p.damage(err)
		}
		if m.run.Len() == 0 {
			return nil
		}
		d := r.Other()
		if d == nil {
			e.add(&m.run, 0, m.run.Len())
			continue
		}
		if e.addOther(d) {
			continue
		}
		full := e.take(m.other)
		m.other = full.Data
		if err := m.w.AddChunk(full); err != nil {
			return err
		}
		if !e.addOther(d) {
			panic("BUG: a new chunk takes no sample")
		}
	}
}
