package read

import "sync/atomic"

// handover passes an iterator from a set to whoever reads the series that it stands on. To tell
// whether a series has a sample that may be seen, a set begins to read it with an iterator of its
// own when nothing else tells; the first call for an iterator of the series gets this one, so
// nothing is decoded twice (BenchmarkSelectNarrow). The one that is given for reuse takes its place
// in the set.
//
// I is an iterator over a series. All sets of a Query share it, in any goroutines: who offers last
// is the one whose reader is spared the work.
type handover[I any] struct {
	ready atomic.Pointer[prepared[I]]
	spare atomic.Pointer[I]
}

// prepared is an iterator before the first sample of a series.
type prepared[I any] struct {
	of *Series
	it *I
}

// next returns an iterator to begin with.
func (h *handover[I]) next() *I {
	if it := h.spare.Swap(nil); it != nil {
		return it
	}
	return new(I)
}

// back takes one that found nothing.
func (h *handover[I]) back(it *I) { h.spare.Store(it) }

// offer keeps one for the first who asks for an iterator of the series.
func (h *handover[I]) offer(of *Series, it *I) { h.ready.Store(&prepared[I]{of, it}) }

// withdraw ends the offer: the set moves on.
func (h *handover[I]) withdraw() {
	if h.ready.Load() == nil {
		return
	}
	if p := h.ready.Swap(nil); p != nil {
		h.back(p.it)
	}
}

// take returns the iterator that was kept for a series, nil if there is none. Then instead, which
// may be nil, belongs to the set.
func (h *handover[I]) take(of *Series, instead *I) *I {
	p := h.ready.Load()
	if p == nil || p.of != of || !h.ready.CompareAndSwap(p, nil) {
		return nil
	}
	if instead != nil {
		h.back(instead)
	}
	return p.it
}
