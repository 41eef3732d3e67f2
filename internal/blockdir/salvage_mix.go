package blockdir

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// mixedChunk is a chunk of a series that is being saved.
type mixedChunk struct {
	index.ChunkMeta
	id      uint64 // of the series entry
	lane    int    // of samples at one time that of the smallest lane stays
	times   int    // how often it is listed
	deleted tombstones.Intervals
}

// mixer has the chunks of one series, of one entry or of several whose labels are the same.
type mixer struct {
	chunks  []mixedChunk // by start, once they are sorted
	entries int
	lanes   int
	merge   sampleMix

	samplesPerChunk int // of chunks that are made of others
}

func (m *mixer) begin() { m.chunks, m.entries, m.lanes = m.chunks[:0], 0, 0 }

// add adds the chunks of an entry; entries come by ascending id.
func (m *mixer) add(id uint64, metas []index.ChunkMeta, deleted tombstones.Intervals) {
	before := len(m.chunks)
	for _, lane := range index.Lanes(metas) {
		for _, c := range lane {
			m.chunks = append(m.chunks, mixedChunk{c, id, m.lanes, 1, deleted})
		}
		m.lanes++
	}
	m.entries++
	if added := m.chunks[before:]; len(added) < len(metas) {
		countRepeats(added, metas)
	}
}

// countRepeats finds chunks that an entry lists more than once, of which Lanes gives one.
func countRepeats(added []mixedChunk, metas []index.ChunkMeta) {
	listed := map[index.ChunkMeta]int{}
	for _, c := range metas {
		listed[c]++
	}
	for i := range added {
		added[i].times = listed[added[i].ChunkMeta]
	}
}

// plain reports whether the chunks can be copied as they are, with what is deleted of them.
func (m *mixer) plain() bool { return m.entries == 1 && m.lanes == 1 }

// copySorted copies series by their labels, whatever order they stand in. listed: there is one of
// each id.
func (s *salvager) copySorted(ids func() (uint64, bool), listed bool) error {
	lost := func(_ uint64, err error) error {
		if !listed {
			return nil
		}
		s.out.LostSeries++
		return s.damaged(err)
	}
	sorted, err := s.r.Sorted(s.ctx, ids, lost)
	if err != nil {
		return err
	}
	for sorted.Next() {
		s.mixed.begin()
		for _, id := range sorted.IDs() {
			_, s.metas, err = s.r.Series(id, s.labels[:0], s.metas[:0])
			if err == nil {
				s.mixed.add(id, s.metas, s.stones.Of(id))
			} else if err = lost(id, err); err != nil {
				return err
			}
		}
		if err := s.writeSeries(sorted.Labels()); err != nil {
			return err
		}
		if s.ctx.Err() != nil {
			return s.ctx.Err()
		}
	}
	return nil
}

// writeSeries writes the chunks that are in s.mixed.
func (s *salvager) writeSeries(ls []index.SymbolPair) error {
	m := &s.mixed
	if !m.plain() {
		slices.SortStableFunc(m.chunks, func(a, b mixedChunk) int { return cmp.Compare(a.MinT, b.MinT) })
	}
	for rest := m.chunks; len(rest) > 0; {
		n, end := 1, rest[0].MaxT
		for n < len(rest) && rest[n].MinT <= end {
			end = max(end, rest[n].MaxT)
			n++
		}
		if err := s.writeRun(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	for _, p := range s.parts {
		if m.plain() && len(m.chunks) > 0 {
			p.w.SetDeleted(m.chunks[0].deleted)
		}
		if err := p.w.AddSeries(ls); err != nil {
			return err
		}
	}
	return nil
}

// writeRun writes chunks that overlap each other, and no other one. One chunk that is there several
// times is copied once, whatever its encoding.
func (s *salvager) writeRun(run []mixedChunk) error {
	c := &run[0]
	p := s.partOf(c)
	for i := range run {
		d := &run[i]
		cut := !s.mixed.plain() && d.deleted.Overlaps(d.MinT, d.MaxT)
		if p == nil || cut || d.MinT != c.MinT || d.MaxT != c.MaxT {
			return s.writeMixed(run)
		}
	}
	same, err := s.identical(run)
	if err != nil {
		return err
	}
	if !same {
		return s.writeMixed(run)
	}
	got, err := s.inspect(c)
	if got == nil {
		return err
	}
	for i := range run[1:] {
		s.out.Repeated += uint64(run[1+i].times) * got.samples
	}
	return p.w.AddChunk(Chunk{MinT: c.MinT, MaxT: c.MaxT, Num: int(got.samples), Encoding: got.enc, Data: got.data})
}

// identical reports whether chunks have the same bytes; false if one cannot be read.
func (s *salvager) identical(run []mixedChunk) (bool, error) {
	if len(run) == 1 {
		return true, nil
	}
	enc, first, err := s.chunks.segments.Read(run[0].Ref, nil)
	var data []byte
	for i := 1; i < len(run) && err == nil; i++ {
		var other chunkenc.Encoding
		if other, data, err = s.chunks.segments.Read(run[i].Ref, data); err == nil && (other != enc || !bytes.Equal(first, data)) {
			return false, nil
		}
	}
	if err != nil && !isDamage(err) {
		return false, err
	}
	return err == nil, nil
}

// partOf returns the part that a chunk lies in; nil: in several.
func (s *salvager) partOf(c *mixedChunk) *salvagePart {
	for _, p := range s.parts {
		if p.mint <= c.MinT && c.MaxT <= p.maxt {
			return p
		}
	}
	return nil
}
