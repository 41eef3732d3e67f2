package memseries

import "github.com/seed347100a3/tsdb/chunkenc"

// A log of another engine may have samples of a series before its record: two of its appenders
// created the series, and the one that was second to do so committed first. Such samples are set
// aside and appended once the record has come, before later ones of the series.

// maxAside is how many samples a worker sets aside: a few MiB, and more than a log has unless the
// record of a series is lost. Others are unknown at once.
const maxAside = 1 << 16

// aside are samples of refs that no series has yet, by ref, each in the order of the log.
type aside struct {
	samples map[uint64][]chunkenc.Sample
	n       int
}

// setAside keeps a sample until its series record comes; false: there are too many.
func (a *aside) setAside(ref uint64, s chunkenc.Sample) bool {
	if a.n == maxAside {
		return false
	}
	if a.samples == nil {
		a.samples = map[uint64][]chunkenc.Sample{}
	}
	a.samples[ref] = append(a.samples[ref], s)
	a.n++
	return true
}

// take returns the samples of a ref, which are not aside any more.
func (a *aside) take(ref uint64) []chunkenc.Sample {
	samples := a.samples[ref]
	if len(samples) > 0 {
		delete(a.samples, ref)
		a.n -= len(samples)
	}
	return samples
}

// Adopt appends to a series of this worker's what another worker has set aside under a ref that
// turned out to be another name for it. Both are at rest.
func (r *Restorer) Adopt(from *Restorer, ref uint64, s *Series) {
	if samples := from.aside.take(ref); len(samples) > 0 {
		r.appendRef(s, s.ref, samples)
	}
}

// endAside appends what is set aside to series that have a record by now, of which the log had no
// later sample. The rest stays unknown.
func (r *Restorer) endAside() {
	for ref := range r.aside.samples {
		if s := r.d.ByRef(ref); s != nil {
			r.appendRef(s, ref, nil)
		}
	}
	r.Unknown += uint64(r.aside.n)
	r.aside = aside{}
}
