package memseries

import (
	"slices"

	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// A log of another engine may have samples of a series before its record: two of its appenders
// created the series, and the one that was second to do so committed first. Such samples are set
// aside and appended once the record has come, before later ones of the series.

// maxAside is how many samples a worker sets aside: a few MiB, and more than a log has unless the
// record of a series is lost. Others are unknown at once.
const maxAside = 1 << 16

// aside are samples of refs that no series has yet, by ref, those of each in the order of the log.
type aside struct {
	runs map[uint64]*Run
	n    int
}

// setAside keeps a sample until its series record comes, w as well if it is wide; false: there are
// too many.
func (a *aside) setAside(ref uint64, s xorchunk.Sample, w *WideSample) bool {
	if a.n == maxAside {
		return false
	}
	run := a.runs[ref]
	if run == nil {
		if a.runs == nil {
			a.runs = map[uint64]*Run{}
		}
		run = &Run{Ref: ref}
		a.runs[ref] = run
	}
	if w != nil {
		own := *w
		own.Body = slices.Clone(w.Body) // its memory is used again
		run.Wide = append(run.Wide, WideAt{len(run.Samples), own})
	}
	run.Samples = append(run.Samples, s)
	a.n++
	return true
}

// take returns the samples of a ref, which are not aside any more.
//
//go:noinline
func (a *aside) take(ref uint64) Run {
	run := a.runs[ref]
	if run == nil {
		return Run{}
	}
	delete(a.runs, ref)
	a.n -= len(run.Samples)
	return *run
}

// Adopt appends to a series of this worker's what another worker has set aside under a ref that
// turned out to be another name for it. Both are at rest.
func (r *Restorer) Adopt(from *Restorer, ref uint64, s *Series) {
	if run := from.aside.take(ref); len(run.Samples) > 0 {
		run.Ref = s.ref
		r.appendRef(s, &run)
	}
}

// endAside appends what is set aside to series that have a record by now, of which the log had no
// later sample. The rest stays unknown.
func (r *Restorer) endAside() {
	for ref := range r.aside.runs {
		if s := r.d.ByRef(ref); s != nil {
			r.appendRef(s, &Run{Ref: ref})
		}
	}
	r.Unknown += uint64(r.aside.n)
	r.aside = aside{}
}
