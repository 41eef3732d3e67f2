package backfill

import (
	"cmp"
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/minheap"
)

// weaver puts samples of one series in the order of time that several runs have of the same
// time. What is in one run is in order already, with one sample of each time.
type weaver struct {
	streams   []sampleStream
	queue     minheap.Heap[*sampleStream]
	conflictT int64 // time of samples whose values differ, if that is an error
}

// writeRuns writes what runs have of a series. If each run ends before another begins, as
// when samples came oldest or newest first, chunks pass through as they are.
func (m *Merge) writeRuns(runs []*sectionReader) error {
	if len(runs) > 1 {
		slices.SortStableFunc(runs, func(a, b *sectionReader) int { return cmp.Compare(a.entry.minT(), b.entry.minT()) })
		if overlap(runs) {
			return m.writeWoven(runs)
		}
	}
	for _, r := range runs {
		if err := m.writeChunks(r); err != nil {
			return err
		}
	}
	return nil
}

// overlap says whether runs, ascending by their first time, have a time in common.
func overlap(runs []*sectionReader) bool {
	for i := 1; i < len(runs); i++ {
		if runs[i].entry.minT() <= runs[i-1].entry.maxT() {
			return true
		}
	}
	return false
}

func (e *entry) minT() int64 { return e.heads[0].minT }
func (e *entry) maxT() int64 { return e.heads[len(e.heads)-1].maxT }

// writeChunks passes the chunks of one run on.
func (m *Merge) writeChunks(r *sectionReader) error {
	for _, h := range r.entry.heads {
		if h.minT > m.join.maxt || h.maxT < m.join.mint {
			r.pass(h)
			continue
		}
		data, err := r.chunk(h)
		if err != nil {
			return err
		}
		if err := m.join.add(h, data); err != nil {
			return err
		}
	}
	return nil
}

// writeWoven goes through runs sample by sample.
func (m *Merge) writeWoven(runs []*sectionReader) error {
	if err := m.weave.begin(runs, &m.join); err != nil {
		return err
	}
	if err := m.join.encode(); err != nil {
		return err
	}
	for len(m.weave.queue.Items) > 0 {
		x, err := m.weave.next()
		if err != nil {
			return err
		}
		for len(m.weave.queue.Items) > 0 && m.weave.queue.Items[0].at().t == x.t {
			other, err := m.weave.next()
			if err != nil {
				return err
			}
			if x, err = m.choose(x, other); err != nil {
				return err
			}
		}
		if err := m.join.addSample(x.t, x.v); err != nil {
			return err
		}
	}
	return nil
}

// choose decides between two samples of one time, of which the first came first.
func (m *Merge) choose(first, later sample) (sample, error) {
	if sameValue(first.v, later.v) {
		return first, nil
	}
	if first.t >= m.join.mint && first.t <= m.join.maxt {
		m.s.duplicates++ // other blocks of the window do not count it again
	}
	switch m.s.opts.Duplicates {
	case KeepFirst:
		return first, nil
	case KeepLast:
		return later, nil
	default:
		m.weave.conflictT = first.t
		return first, ErrDuplicate
	}
}

func (w *weaver) begin(runs []*sectionReader, j *joiner) error {
	for len(w.streams) < len(runs) {
		w.streams = append(w.streams, sampleStream{})
	}
	w.queue = minheap.Heap[*sampleStream]{
		Items: w.queue.Items[:0],
		Less: func(a, b *sampleStream) bool {
			return a.at().t < b.at().t || a.at().t == b.at().t && a.r.run < b.r.run
		},
	}
	for i, r := range runs {
		s := &w.streams[i]
		s.r, s.heads, s.n, s.pos, s.mint, s.maxt = r, r.entry.heads, 0, 0, j.mint, j.maxt
		ok, err := s.load()
		if err != nil {
			return err
		}
		if ok {
			w.queue.Push(s)
		}
	}
	return nil
}

// next takes the oldest sample, and of several the one that came first.
func (w *weaver) next() (sample, error) {
	s := w.queue.Items[0]
	x := s.at()
	if s.pos++; s.pos == s.n {
		ok, err := s.load()
		if err != nil {
			return x, err
		}
		if !ok {
			w.queue.Pop()
			return x, nil
		}
	}
	w.queue.Fix()
	return x, nil
}

// sampleStream gives out the samples that one run has of a series, a chunk at a time.
type sampleStream struct {
	r          *sectionReader
	heads      []chunkHead // not read yet
	mint, maxt int64       // closed; chunks that do not reach into it are passed over
	pos, n     int
	ts         [samplesPerChunk]int64
	vs         [samplesPerChunk]float64
}

func (s *sampleStream) at() sample { return sample{s.ts[s.pos], s.vs[s.pos]} }

// load decodes the next chunk; ok is false behind the last.
func (s *sampleStream) load() (ok bool, err error) {
	for len(s.heads) > 0 {
		h := s.heads[0]
		s.heads = s.heads[1:]
		if h.minT > s.maxt || h.maxT < s.mint {
			s.r.pass(h)
			continue
		}
		data, err := s.r.chunk(h)
		if err != nil {
			return false, err
		}
		var d chunkenc.XORDecoder
		if err := d.Reset(data); err != nil {
			return false, err
		}
		for s.pos, s.n = 0, 0; d.Left() > 0; {
			n, err := d.Decode(s.ts[s.n:], s.vs[s.n:])
			if err != nil {
				return false, err
			}
			s.n += n
		}
		return true, nil
	}
	return false, nil
}
