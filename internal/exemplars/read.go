package exemplars

import (
	"sort"

	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// Select returns the exemplars of a closed range of time, of the series that all matchers match,
// sorted by the labels of the series and by time; those of commits behind seq are left out. A
// label that a series does not have counts as empty.
func (r *Ring) Select(mint, maxt int64, seq uint64, ms []*labels.Matcher) []exemplar.Series {
	var found []exemplar.Series
	for _, s := range r.matching(ms) {
		if es := r.between(s, mint, maxt, seq); len(es) > 0 {
			found = append(found, exemplar.Series{Labels: s.labels, Exemplars: es})
		}
	}
	return found
}

// matching returns series by their labels. Matchers take their time, and hold up nobody.
func (r *Ring) matching(ms []*labels.Matcher) []*series {
	r.lock.Lock()
	all := make([]*series, 0, len(r.mu.byLabels))
	for _, s := range r.mu.byLabels {
		all = append(all, s)
	}
	r.lock.Unlock()
	matched := all[:0]
	for _, s := range all {
		if s.matches(ms) {
			matched = append(matched, s)
		}
	}
	sort.Slice(matched, func(i, k int) bool { return labels.Compare(matched[i].labels, matched[k].labels) < 0 })
	return matched
}

func (s *series) matches(ms []*labels.Matcher) bool {
	for _, m := range ms {
		if !m.Matches(s.labels.Get(m.Name())) {
			return false
		}
	}
	return true
}

// between returns copies of the exemplars of a series. Only where one came late they are sorted.
func (r *Ring) between(s *series, mint, maxt int64, seq uint64) []exemplar.Exemplar {
	var found []*entry
	late, newest := false, mint
	r.lock.Lock()
	for e := s.kept.first; e != nil; e = e.next[ofSeries] {
		if e.t >= mint && e.t <= maxt && e.seq <= seq {
			late = late || e.t < newest
			newest = e.t
			found = append(found, e)
		}
	}
	r.lock.Unlock()
	if late {
		sort.SliceStable(found, func(i, k int) bool { return found[i].t < found[k].t })
	}
	es := make([]exemplar.Exemplar, len(found))
	for i, e := range found {
		es[i] = e.exemplar()
	}
	return es
}

// Before returns what commits up to seq have inserted and is still there, oldest insert first: a
// log that has lost all these commits, and has these instead, brings back the same. Commits up to
// seq are settled.
func (r *Ring) Before(seq uint64) []Entry {
	r.lock.Lock()
	es := r.beforeLocked(seq)
	r.lock.Unlock()
	return es
}

//go:noinline
func (r *Ring) beforeLocked(seq uint64) (es []Entry) {
	for e := r.mu.inserts.first; e != nil; e = e.next[ofAll] {
		if e.seq <= seq {
			e.of.logged = e.ref
			es = append(es, Entry{e.of.labels, e.ref, e.seq, e.exemplar()})
		}
	}
	return es
}

// Logged is Before with one ref for each series, the newest that these commits had for it. refs has
// them all: a log needs the series records of no others.
func (r *Ring) Logged(seq uint64) (es []Entry, refs map[uint64]bool) {
	refs = map[uint64]bool{}
	r.lock.Lock()
	es = r.beforeLocked(seq)
	for i := range es {
		es[i].Ref = r.mu.byLabels[es[i].Series].logged
		refs[es[i].Ref] = true
	}
	r.lock.Unlock()
	return es, refs
}

// Stats are the numbers of a Ring.
type Stats struct {
	Exemplars, Series int
	Most              int    // that are kept
	Appended          uint64 // by commits
	SizeBytes         int64
}

// Stats returns the present numbers.
func (r *Ring) Stats() Stats {
	r.lock.Lock()
	m := &r.mu
	s := Stats{
		Exemplars: m.kept, Series: m.series, Most: m.most, Appended: m.appended,
		SizeBytes: m.bytes + 8*int64(len(m.places)),
	}
	r.lock.Unlock()
	return s
}

// Clone returns labels that lie in no memory of others.
func Clone(ls labels.Labels) labels.Labels {
	own, err := labels.FromEncoded(ls.AppendEncoded(nil))
	if err != nil {
		return ls // not of labels that there are
	}
	return own
}
