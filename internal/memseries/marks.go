package memseries

import "math/bits"

// A series tells a reader of snapshot S what it looked like when commit S was the
// newest. Samples of a series are in time order, so the past of a series is one
// number: its newest time then. The series record holds the newest change (lastSeq)
// and the time before it (prevMaxt). What is older goes into marks, but only while
// somebody can still ask: without open queriers only commits that overtake each other
// leave some, and the next one takes them away.

// mark says: before commit to was applied, the newest time was maxt.
//
// Invariant: the marks of a series ascend by to and are all older than its lastSeq.
type mark struct {
	to   uint64
	maxt int64
}

// Snapshots answers which snapshots are in use.
type Snapshots interface {
	// Within reports whether a snapshot S with lo <= S < hi is open or may be opened.
	Within(lo, hi uint64) bool
}

// markLocked keeps what prevMaxt says before it is overwritten.
func (sh *Shard) markLocked(s *Series, floor uint64, snapshots Snapshots) {
	ms := sh.mu.marks[s.ref]
	for len(ms) > 0 && ms[0].to <= floor {
		ms = ms[1:] // nobody can ask for it any more
	}
	lo := uint64(0)
	if len(ms) > 0 {
		lo = ms[len(ms)-1].to
	}
	if snapshots.Within(lo, s.lastSeq) {
		sh.mu.marks[s.ref] = append(ms, mark{to: s.lastSeq, maxt: s.prevMaxt})
	}
}

// visibleLocked returns the newest time of s in a snapshot, NoTime if it had none.
func (sh *Shard) visibleLocked(s *Series, snapshot uint64) int64 {
	if s.lastSeq <= snapshot {
		return s.Maxt()
	}
	for _, m := range sh.mu.marks[s.ref] {
		if m.to > snapshot {
			return m.maxt
		}
	}
	return s.prevMaxt
}

// SweepMarks forgets what no snapshot from floor on can ask for.
func (d *Directory) SweepMarks(floor uint64) {
	for i := range d.shards {
		sh := &d.shards[i]
		sh.mu.Lock()
		for ref, ms := range sh.mu.marks {
			keep := ms[:0]
			for _, m := range ms {
				if m.to > floor {
					keep = append(keep, m)
				}
			}
			if len(keep) == 0 {
				delete(sh.mu.marks, ref)
			} else {
				sh.mu.marks[ref] = keep
			}
		}
		sh.mu.Unlock()
	}
}

// Touched reports how many shards are in a set.
func (set Shards) Touched() int { return bits.OnesCount64(uint64(set)) }
