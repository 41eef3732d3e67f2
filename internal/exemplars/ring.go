// Package exemplars keeps the exemplars of a head: so many of the newest ones, in memory.
//
// A Ring knows exemplars, the labels of their series, and the order of commits. It does not know
// samples, nor where a log is: it says what a log must have so that replay finds the same again.
// It is safe for concurrent use; its lock is a leaf. docs/design/exemplars.md tells the whole.
package exemplars

import (
	"hash/maphash"
	"math"
	"sync"
	"unsafe"

	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/internal/invariants"
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
// first, whatever the series and the times are. They stay in this order; who selects sorts by time.
//
// Commits insert in their order. One that has its place in the log reserves; what it brings is in
// the ring when it is published (Settle), or never (Cancel).
type Ring struct {
	seed maphash.Seed
	lock sync.Mutex // of mu
	mu   guarded
}

// guarded is what the lock guards. It is no struct without a name that has the lock in it: what
// this takes from the lock would have all of its fields for a name in a program.
type guarded struct {
	most     int // 0: none are kept
	byLabels map[labels.Labels]*series
	byRef    map[uint64]*series // by the newest ref of each
	inserts  line
	kept     int
	series   int      // that have some
	made     uint64   // series that ever were
	coming   []line   // by commits, in their order
	inserted uint64   // newest commit that something was inserted of
	places   []*entry // each the first of a list; as many as a power of two, or none
	placed   int      // entries in these lists
	bytes    int64
	appended uint64
}

// series is the exemplars of one label set. One that has none is forgotten.
type series struct {
	labels       labels.Labels
	number       uint64 // no other one has it
	ref          uint64 // the newest
	logged       uint64 // scratch of Logged
	kept, coming line   // in the order of inserts, of reservations
	last         *entry // that came, or nil if it is gone
	maxt         int64  // nothing that came was later
	placed       bool   // whether all have their places
}

// entry has 80 bytes, a size class of the allocator; the next one has 96.
type entry struct {
	key
	ref, seq uint64
	next     [2]*entry // by the kinds of lines
	beside   *entry    // next of its place
}

// key is what no two entries have in common.
type key struct {
	of     *series
	t      int64
	value  uint64 // its bits
	labels labels.Labels
}

func keyOf(s *series, e *exemplar.Exemplar) key {
	return key{s, e.T, math.Float64bits(e.Value), e.Labels}
}

func (e *entry) exemplar() exemplar.Exemplar {
	return exemplar.Exemplar{Labels: e.labels, Value: math.Float64frombits(e.value), T: e.t, HasT: true}
}

// line is entries in the order in which they came. last is of no meaning without a first one.
type line struct{ first, last *entry }

// Kinds of lines. An entry is in one of each.
const (
	ofAll    = iota // all inserts, or all that a commit has reserved
	ofSeries        // those of a series
)

// add adds an entry, which has no next one.
//
//go:noinline
func (l *line) add(kind int, e *entry) {
	at := &l.first
	if l.first != nil {
		at = &l.last.next[kind]
	}
	*at, l.last = e, e
}

// pop takes the first entry.
//
//go:noinline
func (l *line) pop(kind int) *entry {
	e := l.first
	l.first, e.next[kind] = e.next[kind], nil
	return e
}

// drop takes all that a commit has reserved from a line of a series. Each is its own next then.
func (l *line) drop(seq uint64) {
	for at := &l.first; *at != nil; {
		if e := *at; e.seq == seq {
			*at, e.next[ofSeries] = e.next[ofSeries], e
		} else {
			l.last, at = e, &e.next[ofSeries]
		}
	}
}

// New returns a Ring of at most so many exemplars; 0 and less: it keeps none.
func New(most int) *Ring {
	r := &Ring{seed: maphash.MakeSeed()}
	r.SetMost(most)
	return r
}

// SetMost changes how many are kept. Of what is more than that the oldest inserts go; with 0 or
// less all of them, and those that are on their way.
func (r *Ring) SetMost(most int) {
	r.lock.Lock()
	m := &r.mu
	if m.most = max(most, 0); m.most == 0 || m.byLabels == nil {
		m.byLabels, m.byRef = map[labels.Labels]*series{}, map[uint64]*series{}
		m.inserts, m.kept, m.series, m.coming, m.places, m.placed, m.bytes = line{}, 0, 0, nil, nil, 0, 0
	}
	for m.kept > m.most {
		r.dropOldestLocked()
	}
	if m.places != nil {
		r.spreadLocked()
	}
	r.lock.Unlock()
}

// Most returns how many exemplars are kept at most; 0: none.
func (r *Ring) Most() int {
	r.lock.Lock()
	most := r.mu.most
	r.lock.Unlock()
	return most
}

// Look returns the labels of the series with a ref, none if nothing of it is here, and whether the
// series has this exemplar, if there is one.
func (r *Ring) Look(ref uint64, e *exemplar.Exemplar) (ls labels.Labels, repeat bool) {
	r.lock.Lock()
	if s := r.mu.byRef[ref]; s != nil {
		ls = s.labels
		if e != nil {
			k := keyOf(s, e)
			found := r.findLocked(&k)
			repeat = found != nil && found.seq <= r.mu.inserted
		}
	}
	r.lock.Unlock()
	return ls, repeat
}

// Reserve takes what commit seq brings, and returns those of them that are no repeats: the log
// gets these. It is called with the shards of their series locked, when the commit has its place
// in the log: so commits of one series reserve in their order. entries is used up.
func (r *Ring) Reserve(seq uint64, entries []Entry) []Entry {
	r.lock.Lock()
	m, fresh, c := &r.mu, 0, line{}
	for i := range entries {
		e := r.newLocked(&entries[i])
		if e == nil {
			continue
		}
		e.seq = seq
		c.add(ofAll, e)
		e.of.coming.add(ofSeries, e)
		entries[fresh] = entries[i]
		fresh++
	}
	if c.first != nil {
		m.coming = append(m.coming, c)
		for at := len(m.coming) - 1; at > 0 && m.coming[at-1].first.seq > seq; at-- { // of other shards
			m.coming[at], m.coming[at-1] = m.coming[at-1], c
		}
	}
	r.lock.Unlock()
	return entries[:fresh]
}

// Cancel forgets what a commit has reserved that was not written.
func (r *Ring) Cancel(seq uint64) { r.arrived(seq, seq, false) }

// Settle inserts what commits up to a published one have reserved.
func (r *Ring) Settle(published uint64) { r.arrived(0, published, true) }

// arrived takes those of some commits from what is on its way.
func (r *Ring) arrived(from, to uint64, inserted bool) {
	r.lock.Lock()
	m := &r.mu
	left := m.coming[:0]
	for _, c := range m.coming {
		if seq := c.first.seq; seq < from || seq > to {
			left = append(left, c)
			continue
		}
		for c.first != nil {
			e := c.pop(ofAll)
			if inserted {
				first := e.of.coming.pop(ofSeries)
				if invariants.Enabled {
					invariants.Check(first == e, "commits of a series reserve in another order than theirs")
				}
				r.insertLocked(e)
				m.appended++
				continue
			}
			if e.next[ofSeries] != e {
				e.of.coming.drop(e.seq)
			}
			r.forgetLocked(e)
		}
	}
	clear(m.coming[len(left):])
	m.coming = left
	r.lock.Unlock()
}

// Restore inserts an exemplar that a log or a snapshot has; its labels are copied. A repeat
// changes nothing.
func (r *Ring) Restore(e *Entry) {
	r.lock.Lock()
	if made := r.newLocked(e); made != nil {
		made.labels = Clone(made.labels)
		r.insertLocked(made)
	}
	r.lock.Unlock()
}

// newLocked makes an entry that is in no line yet; nil if it is a repeat, or none are kept.
func (r *Ring) newLocked(e *Entry) *entry {
	m := &r.mu
	if m.most == 0 {
		return nil
	}
	byRef := m.byRef[e.Ref]
	s := byRef
	if s == nil || !s.labels.Equal(e.Series) {
		s = m.byLabels[e.Series]
	}
	fresh := s == nil
	if fresh {
		m.made++
		s = &series{labels: Clone(e.Series), number: m.made, maxt: e.T}
		m.byLabels[s.labels] = s
		m.bytes += s.sizeBytes()
	}
	made := &entry{key: keyOf(s, &e.Exemplar), ref: e.Ref, seq: e.Seq}
	if !fresh && r.findLocked(&made.key) != nil {
		return nil
	}
	if byRef != s {
		if m.byRef[s.ref] == s {
			delete(m.byRef, s.ref)
		}
		s.ref = e.Ref
		m.byRef[s.ref] = s
	}
	s.last, s.maxt = made, max(s.maxt, made.t)
	if s.placed {
		r.placeLocked(made)
	}
	return made
}

// insertLocked inserts an entry, and drops what is too many.
func (r *Ring) insertLocked(e *entry) {
	m, s := &r.mu, e.of
	if s.kept.first == nil {
		m.series++
	}
	s.kept.add(ofSeries, e)
	if m.kept == m.most {
		r.dropOldestLocked()
	}
	m.inserts.add(ofAll, e)
	m.inserted = max(m.inserted, e.seq)
	m.kept++
	m.bytes += e.sizeBytes()
}

func (r *Ring) dropOldestLocked() {
	m := &r.mu
	e := m.inserts.pop(ofAll)
	m.kept--
	m.bytes -= e.sizeBytes()
	if e.of.kept.pop(ofSeries); e.of.kept.first == nil {
		m.series--
	}
	r.forgetLocked(e)
}

// forgetLocked forgets an entry that is in no line any more, and its series if that has no other.
func (r *Ring) forgetLocked(e *entry) {
	m, s := &r.mu, e.of
	if s.placed {
		at := r.placeOfLocked(&e.key)
		for *at != e {
			at = &(*at).beside
		}
		*at = e.beside
		m.placed--
	}
	if s.last == e {
		s.last = nil
	}
	if s.kept.first != nil || s.coming.first != nil || m.byLabels[s.labels] != s {
		return
	}
	delete(m.byLabels, s.labels)
	if m.byRef[s.ref] == s {
		delete(m.byRef, s.ref)
	}
	m.bytes -= s.sizeBytes()
}

// mapBytes is about what a series takes in the two maps.
const mapBytes = 64

func (s *series) sizeBytes() int64 {
	return int64(unsafe.Sizeof(*s)) + int64(s.labels.SizeBytes()) + mapBytes
}

func (e *entry) sizeBytes() int64 {
	return int64(unsafe.Sizeof(*e)) + int64(e.labels.SizeBytes())
}
