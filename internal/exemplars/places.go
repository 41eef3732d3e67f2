package exemplars

import (
	"hash/maphash"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// leastPlaces is how many places there are at first.
const leastPlaces = 16

// findLocked returns the entry with a key, kept or reserved, or nil. What comes is later than all
// of its series most often, or what came last again: nobody searches then. Once it is anything
// else, all of its series get places by a hash, and are found there from then on.
func (r *Ring) findLocked(k *key) *entry {
	s := k.of
	if k.t > s.maxt {
		return nil
	}
	if s.last != nil && s.last.key == *k {
		return s.last
	}
	if !s.placed {
		s.placed = true
		for _, e := range [...]*entry{s.kept.first, s.coming.first} {
			for ; e != nil; e = e.next[ofSeries] {
				r.placeLocked(e)
			}
		}
	}
	e := *r.placeOfLocked(k)
	for e != nil && e.key != *k {
		e = e.beside
	}
	return e
}

// placeLocked gives an entry its place.
func (r *Ring) placeLocked(e *entry) {
	m := &r.mu
	if 2*m.placed >= 3*len(m.places) {
		r.spreadLocked()
	}
	at := r.placeOfLocked(&e.key)
	e.beside, *at = *at, e
	m.placed++
}

// placeOfLocked is where the list begins that a key is in, if it is in one. The hash is another one
// in each Ring: who sends exemplars cannot make them meet.
func (r *Ring) placeOfLocked(k *key) **entry {
	var buf [128]byte
	b := encbuf.AppendBE64(k.labels.AppendEncoded(buf[:0]), k.of.number)
	b = encbuf.AppendBE64(encbuf.AppendBE64(b, uint64(k.t)), k.value)
	return &r.mu.places[maphash.Bytes(r.seed, b)&uint64(len(r.mu.places)-1)]
}

// spreadLocked makes so many places that lists have less than one and a half entries, on average:
// the default ring and the largest request have no more than 131,072 places then.
func (r *Ring) spreadLocked() {
	m, size := &r.mu, leastPlaces
	for 3*size <= 2*m.placed {
		size *= 2
	}
	old := m.places
	m.places = make([]*entry, size)
	for _, e := range old {
		for e != nil {
			at, next := r.placeOfLocked(&e.key), e.beside
			e.beside, *at = *at, e
			e = next
		}
	}
}
