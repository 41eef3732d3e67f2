// Package exemplars keeps the exemplars of a head: so many of the newest ones, in memory.
//
// A Ring knows exemplars, the labels of their series, and the order of commits. It does not know
// samples, nor where a log is: it says what a log must have so that replay finds the same again.
// It is safe for concurrent use; its lock is a leaf. docs/design/exemplars.md tells the whole.
package exemplars

import (
	"math"
	"sync"
	"unsafe"

	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// Entry is an exemplar, and where it belongs.
type Entry struct {
	Series labels.Labels
	Ref    uint64 // of the series, as the log has it beside this exemplar
	Seq    uint64 // of the commit; 0: of one before all that the log numbers
	exemplar.Exemplar
}

// Ring keeps exemplars, at most so many: one more takes the place of the one that was inserted
// first, whatever the series and the times are. Those of a series are in the order of their times.
//
// Commits insert in their order. One that has its place in the log reserves; what it brings is in
// the ring when it is published (Settle), or never (Cancel).
type Ring struct {
	mu struct {
		sync.Mutex
		most     int // 0: none are kept
		byLabels map[labels.Labels]*series
		byRef    map[uint64]*series // by the newest ref of each
		inserts  []*entry           // a circle; the first insert is number first
		first    int
		kept     int
		series   int      // that have some
		coming   []*entry // reserved, in the order of commits
		bytes    int64
		appended uint64
	}
}

// series is the exemplars of one label set. One that has none is forgotten.
type series struct {
	labels labels.Labels
	ref    uint64 // the newest
	logged uint64 // scratch of Logged
	kept   byTime
	coming byTime // reserved
}

// byTime has entries in the order of time, those of one time as they came.
type byTime []*entry

type entry struct {
	of  *series
	ref uint64
	seq uint64
	exemplar.Exemplar
}

// New returns a Ring of at most so many exemplars; 0 and less: it keeps none.
func New(most int) *Ring {
	r := &Ring{}
	r.SetMost(most)
	return r
}

// SetMost changes how many are kept. Of what is more than that the oldest inserts go; with 0 or
// less all of them, and those that are on their way.
func (r *Ring) SetMost(most int) {
	r.mu.Lock()
	m := &r.mu
	if m.most = max(most, 0); m.most == 0 || m.byLabels == nil {
		m.byLabels, m.byRef = map[labels.Labels]*series{}, map[uint64]*series{}
		m.inserts, m.first, m.kept, m.series, m.coming, m.bytes = nil, 0, 0, 0, nil, 0
	}
	for m.kept > m.most {
		r.dropOldestLocked()
	}
	if len(m.inserts) > m.most {
		r.resizeLocked(m.kept)
	}
	r.mu.Unlock()
}

// Most returns how many exemplars are kept at most; 0: none.
func (r *Ring) Most() int {
	r.mu.Lock()
	most := r.mu.most
	r.mu.Unlock()
	return most
}

// Look returns the labels of the series with a ref, none if nothing of it is here, and whether the
// series has this exemplar.
func (r *Ring) Look(ref uint64, e *exemplar.Exemplar) (ls labels.Labels, repeat bool) {
	r.mu.Lock()
	if s := r.mu.byRef[ref]; s != nil {
		ls, repeat = s.labels, s.kept.has(e)
	}
	r.mu.Unlock()
	return ls, repeat
}

// Reserve takes what commit seq brings, and returns those of them that are no repeats: the log
// gets these. It is called with the shards of their series locked, when the commit has its place
// in the log: so commits of one series reserve in their order. entries is used up.
func (r *Ring) Reserve(seq uint64, entries []Entry) []Entry {
	r.mu.Lock()
	m, fresh := &r.mu, entries[:0]
	for i := range entries {
		e := r.newLocked(&entries[i])
		if e == nil {
			continue
		}
		e.seq = seq
		e.of.coming = e.of.coming.with(e)
		m.coming = append(m.coming, e)
		for at := len(m.coming) - 1; at > 0 && m.coming[at-1].seq > seq; at-- { // of other shards
			m.coming[at], m.coming[at-1] = m.coming[at-1], e
		}
		fresh = append(fresh, entries[i])
	}
	r.mu.Unlock()
	return fresh
}

// Cancel forgets what a commit has reserved that was not written.
func (r *Ring) Cancel(seq uint64) { r.arrived(seq, seq, false) }

// Settle inserts what commits up to a published one have reserved.
func (r *Ring) Settle(published uint64) { r.arrived(0, published, true) }

// arrived takes those of some commits from what is on its way.
func (r *Ring) arrived(from, to uint64, inserted bool) {
	r.mu.Lock()
	m := &r.mu
	left := m.coming[:0]
	for _, e := range m.coming {
		if e.seq < from || e.seq > to {
			left = append(left, e)
			continue
		}
		e.of.coming = without(e.of.coming, e)
		if inserted {
			r.insertLocked(e)
			m.appended++
		} else {
			r.forgetLocked(e.of)
		}
	}
	clear(m.coming[len(left):])
	m.coming = left
	r.mu.Unlock()
}

// Restore inserts an exemplar that a log or a snapshot has; its labels are copied. A repeat
// changes nothing.
func (r *Ring) Restore(e *Entry) {
	r.mu.Lock()
	if made := r.newLocked(e); made != nil {
		made.Labels = Clone(made.Labels)
		r.insertLocked(made)
	}
	r.mu.Unlock()
}

// newLocked makes an entry; nil if it is a repeat, or none are kept.
func (r *Ring) newLocked(e *Entry) *entry {
	m := &r.mu
	if m.most == 0 {
		return nil
	}
	s := m.byLabels[e.Series]
	if s == nil {
		s = &series{labels: Clone(e.Series)}
		m.byLabels[s.labels] = s
		m.bytes += s.sizeBytes()
	} else if s.kept.has(&e.Exemplar) || s.coming.has(&e.Exemplar) {
		return nil
	}
	if m.byRef[s.ref] == s {
		delete(m.byRef, s.ref)
	}
	s.ref = e.Ref
	m.byRef[s.ref] = s
	made := &entry{of: s, ref: e.Ref, seq: e.Seq, Exemplar: e.Exemplar}
	made.HasT = true
	return made
}

// insertLocked puts an entry where it belongs, and drops what is too many.
func (r *Ring) insertLocked(e *entry) {
	m, s := &r.mu, e.of
	s.kept = s.kept.with(e)
	if len(s.kept) == 1 {
		m.series++
	}
	if m.kept == m.most {
		r.dropOldestLocked()
	}
	if m.kept == len(m.inserts) {
		r.resizeLocked(min(max(2*m.kept, leastCircle), m.most))
	}
	m.inserts[(m.first+m.kept)%len(m.inserts)] = e
	m.kept++
	m.bytes += e.sizeBytes()
}

// leastCircle is how many inserts there is room for at first.
const leastCircle = 16

// resizeLocked makes a circle of another size, with all inserts.
//
//go:noinline
func (r *Ring) resizeLocked(size int) {
	m := &r.mu
	circle := make([]*entry, size)
	for i := range m.kept {
		circle[i] = m.inserts[(m.first+i)%len(m.inserts)]
	}
	m.inserts, m.first = circle, 0
}

func (r *Ring) dropOldestLocked() {
	m := &r.mu
	e := m.inserts[m.first]
	m.inserts[m.first] = nil
	m.first = (m.first + 1) % len(m.inserts)
	m.kept--
	m.bytes -= e.sizeBytes()
	s := e.of
	if s.kept = without(s.kept, e); s.kept == nil {
		m.series--
		r.forgetLocked(s)
	}
}

// forgetLocked forgets a series that has nothing.
//
//go:noinline
func (r *Ring) forgetLocked(s *series) {
	m := &r.mu
	if len(s.kept)+len(s.coming) > 0 || m.byLabels[s.labels] != s {
		return
	}
	delete(m.byLabels, s.labels)
	if m.byRef[s.ref] == s {
		delete(m.byRef, s.ref)
	}
	m.bytes -= s.sizeBytes()
}

// behind returns the number of the first entry later than t: most often there is none. To go back
// step by step takes less than to make room there.
func (list byTime) behind(t int64) int {
	at := len(list)
	for at > 0 && list[at-1].T > t {
		at--
	}
	return at
}

// with inserts an entry.
func (list byTime) with(e *entry) byTime {
	at := list.behind(e.T)
	list = append(list, nil)
	copy(list[at+1:], list[at:])
	list[at] = e
	return list
}

// has reports whether an exemplar is there.
func (list byTime) has(e *exemplar.Exemplar) bool {
	for i := list.behind(e.T) - 1; i >= 0 && list[i].T == e.T; i-- {
		if list[i].same(e) {
			return true
		}
	}
	return false
}

// same compares all but the time.
func (e *entry) same(o *exemplar.Exemplar) bool {
	return math.Float64bits(e.Value) == math.Float64bits(o.Value) && e.Labels.Equal(o.Labels)
}

// without takes an entry, which is one of the first most often, from a list; nil is an empty one.
//
//go:noinline
func without(list []*entry, e *entry) []*entry {
	at := 0
	for list[at] != e {
		at++
	}
	copy(list[1:at+1], list[:at])
	list[0] = nil
	if len(list) == 1 {
		return nil
	}
	return list[1:]
}

// mapBytes is about what a series takes in the two maps.
const mapBytes = 64

func (s *series) sizeBytes() int64 {
	return int64(unsafe.Sizeof(*s)) + int64(s.labels.SizeBytes()) + mapBytes
}

// sizeBytes counts two pointers to the entry, too.
func (e *entry) sizeBytes() int64 {
	return int64(unsafe.Sizeof(*e)) + int64(e.Labels.SizeBytes()) + 16
}
