package backfill

import (
	"cmp"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
)

// weaver puts samples of one series in the order of time that several runs have of the same
// time. What is in one run is in order already, with one sample of each time.
type weaver struct {
	merged    samplemerge.Merger
	run       chunkenc.Batch // of it
	read      chunkReader
	last      memseries.WideSample // not written yet
	body      []byte               // of last
	held      bool                 // there is one
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
	w := &m.weave
	if err := w.begin(runs, &m.join); err != nil {
		return err
	}
	if err := m.join.build(); err != nil {
		return err
	}
	for w.held = false; ; {
		stop, err := w.merged.Next(&w.run)
		if err != nil {
			return err
		}
		for i := range w.run.T {
			x := floatIn(&w.run, i)
			if err := m.weaveIn(&x); err != nil {
				return err
			}
		}
		if stop == samplemerge.AtOther {
			x := w.read.read(w.merged.Other())
			if err := m.weaveIn(&x); err != nil {
				return err
			}
			w.merged.Take()
		} else if w.run.Len() == 0 {
			if !w.held {
				return nil
			}
			return m.join.addSample(&w.last)
		}
	}
}

// weaveIn takes the next sample. It is held back, as the one behind it may have its time.
func (m *Merge) weaveIn(x *memseries.WideSample) error {
	w := &m.weave
	if w.held && x.T == w.last.T {
		keep, err := m.choose(&w.last, x)
		if !keep {
			w.hold(x)
		}
		return err
	}
	if w.held {
		if err := m.join.addSample(&w.last); err != nil {
			return err
		}
	}
	w.hold(x)
	return nil
}

// hold keeps a copy of a sample.
func (w *weaver) hold(x *memseries.WideSample) {
	w.body = append(w.body[:0], x.Body...)
	w.last, w.held = *x, true
	w.last.Body = w.body
}

// choose decides between two samples of one time, of which the first came first, and reports
// whether it is kept.
func (m *Merge) choose(first, later *memseries.WideSample) (keep bool, err error) {
	if first.Sum == later.Sum {
		return true, nil
	}
	if first.T >= m.join.mint && first.T <= m.join.maxt {
		m.s.sorter.dropped++ // other blocks of the window do not count it again
	}
	switch m.s.opts.Duplicates {
	case KeepFirst:
		return true, nil
	case KeepLast:
		return false, nil
	default:
		m.weave.conflictT = first.T
		return true, ErrDuplicate
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
		*c = samplemerge.Chunk{Encoding: h.enc, Data: data, MinT: h.minT, MaxT: h.maxT, Bounds: samplemerge.Everything()}
		return true, nil
	}
	return false, nil
}

// Place implements samplemerge.Source.
func (s *runSource) Place(err error) error {
	return errors.WithMessagef(err, "scratch file %s", s.r.chunks.name)
}
