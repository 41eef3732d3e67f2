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
	"sync"
	"sync/atomic"
)

// Pair is the number of one label pair name=value in a MemPostings. The zero Pair
// stands for no label: every series has it.
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
// Lock order: create, then that of lists, of values or of pins, which are leaves. None of
// these is held for long: strings are hashed, sorted and matched without.
type MemPostings struct {
	size   atomic.Int64
	pairs  labelPairs  // the strings
	values labelValues // which pairs each name has
	lists  pairLists   // which series have each pair
	pins   pins        // who may know pairs that are dropped

	create struct {
		sync.Mutex
		quarantine []retired
	}
}

// NewMemPostings returns an empty index.
func NewMemPostings() *MemPostings {
	m := new(MemPostings)
	m.pairs.init(&m.size)
	m.values.init(&m.pairs, &m.size)
	m.lists.init(&m.size)
	m.pins.mu.readers = make(map[uint64]int)
	return m
}

// Intern returns the number of a label pair. Strings that are new are copied. A known
// pair takes no lock.
func (m *MemPostings) Intern(name, value string) Pair {
	group, ok := m.pairs.names.find(0, name)
	var hash uint64
	if ok {
		hash = m.pairs.values.hash(group, value)
		if p, ok := m.pairs.values.findHash(group, value, hash); ok {
			return Pair(p)
		}
	}
	return m.intern(name, value, group, hash)
}

// intern creates what is missing. A value can be found only after it is among the
// values of its name: otherwise a negative matcher could miss it. The hash is that of the
// value in a group, if this was the group of the name when nobody had the lock: a value of
// 4 KiB takes a microsecond to hash.
func (m *MemPostings) intern(name, value string, hashed uint32, hash uint64) Pair {
	m.create.Lock()
	defer m.create.Unlock()
	names, values := &m.pairs.names, &m.pairs.values
	group, ok := names.find(0, name)
	if !ok {
		nameHash := names.hash(0, name)
		group = names.create(0, name, nameHash)
		m.values.addName(group)
		names.publish(group, nameHash)
	}
	if group != hashed {
		hash = values.hash(group, value)
	}
	if p, ok := values.findHash(group, value, hash); ok {
		return Pair(p)
	}
	num := values.create(group, value, hash)
	m.lists.addPair(Pair(num))
	m.values.add(group, Pair(num))
	values.publish(num, hash)
	return Pair(num)
}

// Lookup returns the number of a label pair that was interned.
func (m *MemPostings) Lookup(name, value string) (Pair, bool) { return m.pairs.find(name, value) }

// Label returns the strings of a pair, without a lock; they stay valid for ever.
func (m *MemPostings) Label(p Pair) (name, value string) { return m.pairs.label(p) }

// Value returns the value of a pair, without a lock.
func (m *MemPostings) Value(p Pair) string { return m.pairs.value(p) }

// AppendLabels appends the strings of pairs to dst, each with its length before it, as
// labels.FromEncoded takes them. Nothing is locked or allocated, but for dst to grow.
func (m *MemPostings) AppendLabels(dst []byte, pairs []Pair) []byte {
	return m.pairs.appendLabels(dst, pairs)
}

// Ahead asks for the values of pairs that are to be read next. They lie all over the memory: one
// after the other each would be waited for, here many are on their way at once.
func (m *MemPostings) Ahead(pairs []Pair) { m.pairs.ahead(pairs) }

// Room tells whether another series with so many labels fits, even if nobody has one of them
// yet. What ends first, after some GiB of memory, is the text: 8 GiB of names or values, or
// 524,288 of them that are longer than 2 KiB. Intern must not be called without room.
func (m *MemPostings) Room(labels int) bool {
	m.create.Lock()
	defer m.create.Unlock()
	return m.pairs.room(labels)
}

// Add indexes a series by its pairs. ref is at most MaxRef and not 0. Refs that ascend
// from call to call are fast; others rewrite lists. Readers see the series in all of
// its lists or in none.
func (m *MemPostings) Add(ref uint64, pairs []Pair) { m.lists.add(ref, pairs) }

// AddAll indexes many series at once, as recovery has them: lists get memory of just
// the size that they need. all is ranged over twice and must yield the same both
// times, refs ascending; what it yields is not kept.
func (m *MemPostings) AddAll(all iter.Seq2[uint64, []Pair]) { m.lists.addAll(all) }

// Refs returns the refs of the series that have a pair, ascending.
func (m *MemPostings) Refs(p Pair) []uint64 { return m.lists.refs(p) }

// Count returns how many series have a pair.
func (m *MemPostings) Count(p Pair) int { return m.lists.count(p) }

// Pin keeps pairs that are dropped from now on from getting another meaning until
// release is called, once. Readers that hold Pairs of series which may be removed
// meanwhile need it.
func (m *MemPostings) Pin() (release func()) {
	epoch := m.pins.take()
	return func() { m.pins.release(epoch) }
}

// SizeBytes returns the memory that the index holds, within a tenth of what the heap
// gives it.
func (m *MemPostings) SizeBytes() int64 { return m.size.Load() }
