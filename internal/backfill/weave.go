package backfill

import (
	"cmp"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
)

// weaver puts samples of one series in the order of time that several runs have of the same
// time. What is in one run is in order already, with one sample of each time.
type weaver struct {
	merged    samplemerge.Merger
	run       chunkenc.Batch // of it
	sources   []*runSource
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
	var last sample // not written yet: the next one may have its time
	for some := false; ; some = true {
		if _, err := m.weave.merged.Next(&m.weave.run); err != nil { // runs have floats only
			return err
		}
		if m.weave.run.Len() == 0 && some {
			return m.join.addSample(last.t, last.v)
		}
		if m.weave.run.Len() == 0 {
			return nil
		}
		for i, t := range m.weave.run.T {
			x := sample{t, m.weave.run.V[i]}
			var err error
			switch {
			case !some:
				some = true
			case t == last.t:
				x, err = m.choose(last, x)
			default:
				err = m.join.addSample(last.t, last.v)
			}
			if err != nil {
				return err
			}
			last = x
		}
	}
}

// choose decides between two samples of one time, of which the first came first.
func (m *Merge) choose(first, later sample) (sample, error) {
	if sameValue(first.v, later.v) {
		return first, nil
	}
	if first.t >= m.join.mint && first.t <= m.join.maxt {
		m.s.sorter.dropped++ // other blocks of the window do not count it again
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

// begin starts with runs of one series: of samples of one time, that of the first run comes first.
func (w *weaver) begin(runs []*sectionReader, j *joiner) error {
	slices.SortFunc(runs, func(a, b *sectionReader) int { return a.run - b.run })
	for len(w.sources) < len(runs) {
		w.sources = append(w.sources, &runSource{})
	}
	w.merged.Reset()
	w.merged.Repeats = true // choose decides
	for i, r := range runs {
		*w.sources[i] = runSource{r: r, heads: r.entry.heads, mint: j.mint, maxt: j.maxt}
		if err := w.merged.Add(w.sources[i]); err != nil {
			return err
		}
	}
	return nil
}

// runSource gives the chunks that one run has of a series.
type runSource struct {
	r          *sectionReader
	heads      []chunkHead // not read yet
	mint, maxt int64       // closed; chunks that do not reach into it are passed over
}

// Next implements samplemerge.Source. All samples of a chunk count: whether two of one time differ
// is told of the whole window.
func (s *runSource) Next(_ int64, c *samplemerge.Chunk) (bool, error) {
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
		*c = samplemerge.Chunk{Encoding: Encoding, Data: data, MinT: h.minT, MaxT: h.maxT, Bounds: samplemerge.Everything()}
		return true, nil
	}
	return false, nil
}

// Place implements samplemerge.Source.
func (s *runSource) Place(err error) error {
	return errors.WithMessagef(err, "scratch file %s", s.r.chunks.name)
}
