// Package index knows which series have which labels: symbols, postings and the sets
// that matchers select. MemPostings is the index of the head, in memory; Writer and
// Reader are that of a block, a file, which also knows where the chunks of a series are.
// Neither ever looks at a sample.
//
// MemPostings and Reader are safe for concurrent use, a Writer belongs to one goroutine.
// The Go API of this package is not stable; the format of the file is, and is described
// in docs/format/index.md.
package index

import (
	"iter"
	"slices"
	"sync"
	"sync/atomic"
)

// Pair is the number of one label pair name=value in a MemPostings. The zero Pair
// stands for nothing.
type Pair uint32

// MemPostings holds the label pairs of the head, each string once, and for each pair
// the refs of the series that have it. A series is a list of Pairs for its owner.
//
// A pair costs about 40 bytes beside its strings, a ref in a long list one to two.
//
// All methods are safe for concurrent use. A Pair is good from Intern until Remove
// drops it, and for whoever pinned the postings before that until the pin is released.
// The owner of the series serialises Intern, Add, AddAll and Remove among themselves
// wherever they concern the same series: Remove may drop a pair that was interned but
// not yet added.
//
// Lock order: create, then mu or pins, which are leaves. mu is never held for long:
// strings are hashed, sorted and matched without it.
type MemPostings struct {
	size   atomic.Int64
	names  symbols // groups: always 0
	values symbols // groups: numbers of names; numbers: Pairs

	create struct {
		sync.Mutex
		quarantine []retired
	}

	mu struct {
		sync.RWMutex
		lists
		pages    []*listPage
		byName   []*nameValues // by number of a name; 0 is unused
		all      list          // every series
		rewrites uint64        // lists that were not only appended to

		npairs int // pairs with refs
	}

	pins struct {
		sync.Mutex
		readers map[uint64]int // by the epoch in which they pinned
		epoch   uint64         // grows with each Remove
	}
}

const listPageLen = 256 // pairs in a page of lists: 4 KiB

type listPage [listPageLen]list

// retired are numbers that stand for nothing any more, but may still be known to
// readers that pinned an epoch up to this one.
type retired struct {
	epoch uint64
	pairs []Pair
	names []uint32
}

// NewMemPostings returns an empty index.
func NewMemPostings() *MemPostings {
	m := new(MemPostings)
	m.names.init(&m.size)
	m.values.init(&m.size)
	m.mu.lists.size = &m.size
	m.mu.byName = make([]*nameValues, 1)
	m.pins.readers = make(map[uint64]int)
	return m
}

// Intern returns the number of a label pair. Strings that are new are copied. A known
// pair takes no lock.
func (m *MemPostings) Intern(name, value string) Pair {
	group, ok := m.names.find(0, name)
	var hash uint64
	if ok {
		hash = m.values.hash(group, value)
		if p, ok := m.values.findHash(group, value, hash); ok {
			return Pair(p)
		}
	}
	return m.intern(name, value, group, hash)
}

// Lookup returns the number of a label pair that was interned.
func (m *MemPostings) Lookup(name, value string) (Pair, bool) {
	group, ok := m.names.find(0, name)
	if !ok {
		return 0, false
	}
	p, ok := m.values.find(group, value)
	return Pair(p), ok
}

// intern creates what is missing. A value can be found only after it is among the
// values of its name: otherwise a negative matcher could miss it. The hash is that of the
// value in a group, if this was the group of the name when nobody had the lock: a value of
// 4 KiB takes a microsecond to hash.
func (m *MemPostings) intern(name, value string, hashed uint32, hash uint64) Pair {
	m.create.Lock()
	defer m.create.Unlock()
	group, ok := m.names.find(0, name)
	if !ok {
		nameHash := m.names.hash(0, name)
		group = m.names.create(0, name, nameHash)
		m.mu.Lock()
		m.addNameLocked(group)
		m.mu.Unlock()
		m.names.publish(group, nameHash)
	}
	if group != hashed {
		hash = m.values.hash(group, value)
	}
	if p, ok := m.values.findHash(group, value, hash); ok {
		return Pair(p)
	}
	num := m.values.create(group, value, hash)
	m.mu.Lock()
	m.listPageLocked(Pair(num))
	m.addValueLocked(group, Pair(num))
	m.mu.Unlock()
	m.values.publish(num, hash)
	return Pair(num)
}

// Label returns the strings of a pair, without a lock; they stay valid for ever.
func (m *MemPostings) Label(p Pair) (name, value string) {
	group, value := m.values.at(uint32(p))
	_, name = m.names.at(group)
	return name, value
}

// Value returns the value of a pair, without a lock.
func (m *MemPostings) Value(p Pair) string {
	return m.values.text.at(uint32(m.values.word(uint32(p))))
}

// AppendLabels appends the strings of pairs to dst, each with its length before it, as
// labels.FromEncoded takes them. Nothing is locked or allocated, but for dst to grow.
func (m *MemPostings) AppendLabels(dst []byte, pairs []Pair) []byte {
	names, values := m.names.reader(), m.values.reader()
	for _, p := range pairs {
		word := values.word(uint32(p))
		dst = append(dst, names.text.encodedAt(uint32(names.word(uint32(word>>40))))...)
		dst = append(dst, values.text.encodedAt(uint32(word))...)
	}
	return dst
}

// aheadLen is how many places of values are looked up before the values are read.
const aheadLen = 128

// Ahead asks for the values of pairs that are to be read next. They lie all over the memory: one after the
// other each would be waited for, here many are on their way at once. What it returns means
// nothing, but the compiler would leave out what is not used.
//
//go:noinline
func (m *MemPostings) Ahead(pairs []Pair) (sum uint32) {
	values := m.values.reader()
	var places [aheadLen]uint32
	for len(pairs) > 0 {
		n := min(len(pairs), len(places))
		for i, p := range pairs[:n] {
			places[i] = uint32(values.word(uint32(p)))
		}
		for _, place := range places[:n] {
			if block, off := values.text.find(place); off < len(block) {
				sum += uint32(block[off])
			}
		}
		pairs = pairs[n:]
	}
	return sum
}

// Add indexes a series by its pairs. ref is at most MaxRef and not 0. Refs that ascend
// from call to call are fast; others rewrite lists. Readers see the series in all of
// its lists or in none.
func (m *MemPostings) Add(ref uint64, pairs []Pair) {
	if ref == 0 || ref > MaxRef {
		panic("BUG: series ref outside of what postings hold")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.addLocked(ref, pairs)
}

func (m *MemPostings) addLocked(ref uint64, pairs []Pair) {
	m.addToLocked(&m.mu.all, ref)
	for _, p := range pairs {
		l := m.listLocked(p)
		if l.last() == 0 {
			m.mu.npairs++
		}
		m.addToLocked(l, ref)
	}
}

func (m *MemPostings) addToLocked(l *list, ref uint64) {
	switch last := l.last(); {
	case ref > last:
		m.mu.append(l, ref)
	case ref < last:
		m.insertLocked(l, ref)
	}
}

// AddAll indexes many series at once, as recovery has them: lists get memory of just
// the size that they need. all is ranged over twice and must yield the same both
// times, refs ascending; what it yields is not kept.
func (m *MemPostings) AddAll(all iter.Seq2[uint64, []Pair]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reserveLocked(all)
	for ref, pairs := range all {
		if ref == 0 || ref > MaxRef {
			panic("BUG: series ref outside of what postings hold")
		}
		m.addLocked(ref, pairs)
	}
}

// reserveLocked finds out how long each list will be and makes room.
func (m *MemPostings) reserveLocked(all iter.Seq2[uint64, []Pair]) {
	type grown struct {
		last uint64
		size uint32
	}
	after := make([]grown, len(m.mu.pages)*listPageLen) // by pair; 0 is the list of all series
	follow := func(g *grown, l *list, ref uint64) {
		if g.last == 0 {
			g.last, g.size = l.last(), l.size
			if g.size == 0 && g.last != 0 {
				g.size = uint32(uvarintBytes(g.last))
			}
		}
		if ref > g.last {
			g.size += uint32(uvarintBytes(ref - g.last))
			g.last = ref
		}
	}
	for ref, pairs := range all {
		follow(&after[0], &m.mu.all, ref)
		for _, p := range pairs {
			follow(&after[p], m.listLocked(p), ref)
		}
	}
	for p := range after {
		l := &m.mu.all
		if p > 0 {
			l = m.listLocked(Pair(p))
		}
		if last := after[p].last; last != 0 && int(after[p].size) > uvarintBytes(last) {
			m.mu.room(l, int(after[p].size))
		}
	}
}

// insertLocked adds a ref in the middle of a list, which is made anew.
func (m *MemPostings) insertLocked(l *list, ref uint64) {
	refs := m.mu.viewOf(l).appendTo(nil)
	if i, found := slices.BinarySearch(refs, ref); !found {
		m.mu.replace(l, slices.Insert(refs, i, ref))
		m.mu.rewrites++
	}
}

// listLocked returns the list of a pair that was interned.
func (m *MemPostings) listLocked(p Pair) *list {
	return &m.mu.pages[p/listPageLen][p%listPageLen]
}

// listPageLocked makes the page of a pair if it is the first one there.
func (m *MemPostings) listPageLocked(p Pair) {
	if int(p/listPageLen) < len(m.mu.pages) {
		return
	}
	before := cap(m.mu.pages)
	m.mu.pages = append(m.mu.pages, new(listPage))
	m.size.Add(listPageLen*listBytes + int64(cap(m.mu.pages)-before)*8)
}

const listBytes = 16 // of a list

// Refs returns the refs of the series that have a pair, ascending.
func (m *MemPostings) Refs(p Pair) []uint64 {
	m.mu.RLock()
	l := m.listLocked(p)
	m.mu.RUnlock()
	return m.refsOf(l)
}

// refsOf decodes a list, a large one without the lock.
func (m *MemPostings) refsOf(l *list) []uint64 {
	m.mu.RLock()
	v := m.mu.viewOf(l)
	if l.class != classBig {
		defer m.mu.RUnlock()
		return v.appendTo(make([]uint64, 0, v.count()))
	}
	m.mu.RUnlock()
	return v.appendTo(make([]uint64, 0, v.count()))
}

// Count returns how many series have a pair.
func (m *MemPostings) Count(p Pair) int {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.mu.viewOf(m.listLocked(p)).count()
}

// Pin keeps pairs that are dropped from now on from getting another meaning until
// release is called, once. Readers that hold Pairs of series which may be removed
// meanwhile need it.
func (m *MemPostings) Pin() (release func()) {
	epoch := m.pin()
	return func() { m.unpin(epoch) }
}

func (m *MemPostings) pin() (epoch uint64) {
	m.pins.Lock()
	defer m.pins.Unlock()
	m.pins.readers[m.pins.epoch]++
	return m.pins.epoch
}

func (m *MemPostings) unpin(epoch uint64) {
	m.pins.Lock()
	defer m.pins.Unlock()
	if m.pins.readers[epoch]--; m.pins.readers[epoch] == 0 {
		delete(m.pins.readers, epoch)
	}
}

// endEpoch begins a new epoch. It returns the one that ends and the oldest in which a
// reader pinned that is still there.
func (m *MemPostings) endEpoch() (ended, oldest uint64) {
	m.pins.Lock()
	defer m.pins.Unlock()
	ended = m.pins.epoch
	m.pins.epoch++
	oldest = m.pins.epoch
	for epoch := range m.pins.readers {
		oldest = min(oldest, epoch)
	}
	return ended, oldest
}

// SizeBytes returns the memory that the index holds, within a tenth of what the heap
// gives it.
func (m *MemPostings) SizeBytes() int64 { return m.size.Load() }
