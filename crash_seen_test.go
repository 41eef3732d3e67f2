package tsdb_test

import (
	"hash/maphash"
	"strconv"
	"strings"
	"sync"

	"github.com/seed347100a3/tsdb/tsdbtest"
)

// What failures leave is often equal: one fault spoils an open as another does, one moment of a
// recovery leaves what the next one leaves. Of equal disks, of which the same is promised, one is
// opened.

var diskSeed = maphash.MakeSeed()

// diskSum is a hash of the names and contents of all files but the lock.
func diskSum(disk *tsdbtest.MemFS) (uint64, error) {
	var h maphash.Hash
	h.SetSeed(diskSeed)
	for _, name := range disk.Files() {
		h.WriteString(name)
		if strings.HasSuffix(name, "/") || strings.HasPrefix(name, "data/lock") {
			continue
		}
		data, err := disk.ReadFile(name)
		if err != nil {
			return 0, err
		}
		h.WriteByte(0)
		h.WriteString(strconv.Itoa(len(data)))
		h.Write(data)
	}
	return h.Sum64(), nil
}

// seenDisks remembers disks that had what was promised of them. The zero value has seen none. It is
// safe for concurrent use.
type seenDisks struct {
	mu   sync.Mutex
	good map[seenKey]int // of how many commits it was promised that they are there
}

// seenKey is all that decides whether a disk is as it must be, but promise.lo.
type seenKey struct {
	disk, past       uint64
	hi, begun, depth int
}

// once tries a disk, of which as much was not promised before when it was equal.
func (s *seenDisks) once(disk *tsdbtest.MemFS, h *history, p promise, depth int, try func() error) error {
	if p.maybe != nil || p.copy != nil {
		return try()
	}
	sum, err := diskSum(disk)
	if err != nil {
		return err
	}
	key := seenKey{sum, h.sum(p.begun, p.effects), p.hi, p.begun, depth}
	s.mu.Lock()
	lo, known := s.good[key]
	s.mu.Unlock()
	if known && lo >= p.lo {
		return nil
	}
	if err := try(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.good == nil {
		s.good = map[seenKey]int{}
	}
	s.good[key] = max(p.lo, s.good[key])
	return nil
}

// sum is a hash of the first k commits, of what became of blocks, and of what else is known of the
// past.
func (h *history) sum(k int, e *effects) uint64 {
	var s maphash.Hash
	s.SetSeed(diskSeed)
	for _, commit := range h.commits[:k] {
		s.WriteByte('c')
		for _, r := range commit.rows {
			maphash.WriteComparable(&s, r.key())
			maphash.WriteComparable(&s, r.V)
		}
		s.WriteByte('d')
		for _, key := range commit.gone {
			maphash.WriteComparable(&s, key)
		}
	}
	var removed uint64 // in any order
	for key := range e.removed {
		removed += maphash.Comparable(diskSeed, key)
	}
	for _, r := range e.extra {
		maphash.WriteComparable(&s, r.key())
		maphash.WriteComparable(&s, r.V)
	}
	maphash.WriteComparable(&s, struct {
		base         *content
		lied, blocks bool
		failed       int
		removed      uint64
	}{h.base, h.lied, h.blocks, h.failed, removed})
	return s.Sum64()
}
