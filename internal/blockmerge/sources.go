package blockmerge

import (
	"github.com/seed347100a3/tsdb/internal/samplemerge"
)

// sources are chunks that overlap, as sources of which none has two that do: one for each input,
// several for one whose chunks overlap each other.
type sources struct {
	active []*source // in the order of inputs
	pool   []*source
	merged samplemerge.Merger
}

// source is chunks of one input, one behind the other.
type source struct {
	m     *chunkMerger
	input int64
	ps    []inputChunk
	next  int // index into ps of the first one that is not begun
	buf   []byte
}

// begin starts with chunks sorted by start.
func (s *sources) begin(m *chunkMerger, ps []inputChunk) error {
	s.active = s.active[:0]
	for _, p := range ps {
		of := s.of(m, p.input)
		of.ps = append(of.ps, p)
	}
	for i := range s.active { // few
		for k := i; k > 0 && s.active[k].input < s.active[k-1].input; k-- {
			s.active[k], s.active[k-1] = s.active[k-1], s.active[k]
		}
	}
	s.merged.Reset()
	for _, of := range s.active {
		if err := s.merged.Add(of); err != nil {
			return err
		}
	}
	return nil
}

// of returns the source of an input, a new one if there is none.
func (s *sources) of(m *chunkMerger, input int64) *source {
	for _, of := range s.active {
		if of.input == input {
			return of
		}
	}
	n := len(s.active)
	if n == len(s.pool) {
		s.pool = append(s.pool, &source{m: m})
	}
	of := s.pool[n]
	of.input, of.ps, of.next = input, of.ps[:0], 0
	s.active = append(s.active, of)
	return of
}

// Next implements samplemerge.Source. Chunks without a sample to keep are not read.
func (s *source) Next(_ int64, c *samplemerge.Chunk) (bool, error) {
	for s.next < len(s.ps) {
		p := &s.ps[s.next]
		s.next++
		if s.m.gone(p) {
			s.m.counts.Dropped++
			continue
		}
		enc, data, err := p.dir.Chunks().Read(p.Ref, s.buf)
		if err != nil {
			return false, err
		}
		s.buf = data
		s.m.counts.Reencoded++
		*c = samplemerge.Chunk{Encoding: enc, Data: data, MinT: p.MinT, MaxT: p.MaxT, Bounds: s.m.bounds(p)}
		return true, nil
	}
	return false, nil
}

// Place implements samplemerge.Source.
func (s *source) Place(err error) error { return s.ps[s.next-1].damage(err) }
