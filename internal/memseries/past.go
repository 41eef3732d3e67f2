package memseries

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
		if sh.mu.marks == nil {
			sh.mu.marks = map[uint64][]mark{}
		}
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
func (ss *Shards) SweepMarks(floor uint64) {
	for i := range ss.all {
		sh := &ss.all[i]
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

// Presence is what the oldest and the newest sample of a series tell of a range.
type Presence uint8

// The kinds of presence, each of which tells more than the one before.
const (
	Absent   Presence = iota // no sample is in the range
	Possible                 // samples are before it and behind it: it may lie in a gap between two
	Present                  // the oldest or the newest sample is in the range
)

// Past is what the series were when one commit was the newest.
type Past struct {
	d   *Directory
	seq uint64 // of the commit
}

// Ends returns the times of the oldest and the newest sample of s; false if it had none. What is
// deleted it does not know.
func (p Past) Ends(s *Series) (oldest, newest int64, ok bool) {
	sh := p.d.Shards.of(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	newest, oldest = sh.visibleLocked(s, p.seq), s.Mint()
	return oldest, newest, newest != NoTime && oldest != NoTime && newest >= oldest
}

// Visible reports whether s had a sample with mint <= t <= maxt, as far
// as its bounds tell: the sample itself may still be in a gap or deleted.
func (p Past) Visible(s *Series, mint, maxt int64) bool {
	return p.Presence(s, mint, maxt) != Absent
}

// Presence tells what the bounds of s say of mint <= t <= maxt. What is deleted it does not know.
func (p Past) Presence(s *Series, mint, maxt int64) Presence {
	sh := p.d.Shards.of(s)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.presenceLocked(s, p.seq, mint, maxt)
}

func (sh *Shard) presenceLocked(s *Series, snapshot uint64, mint, maxt int64) Presence {
	newest, oldest := sh.visibleLocked(s, snapshot), s.Mint()
	switch {
	case newest == NoTime || oldest == NoTime || newest < max(mint, oldest) || oldest > maxt:
		return Absent
	case newest > maxt && oldest < mint:
		return Possible
	default:
		return Present
	}
}

// lookAhead is how many series are asked for before the first of them is looked at.
const lookAhead = 64

// AppendVisible appends those of the series with these refs to dst that are Visible, and reports
// whether all of them are Present. Series lie all over the memory, so many of them are asked for at
// once, and the shard of neighbours is locked once (BenchmarkSelectHead/labels). It holds one shard
// at a time, for lookAhead series at most.
func (p Past) AppendVisible(dst []*Series, refs []uint64, mint, maxt int64) (_ []*Series, present bool) {
	present = true
	var room [lookAhead]*Series
	for len(refs) > 0 {
		n := min(len(refs), lookAhead)
		near := room[:0]
		for _, ref := range refs[:n] {
			if s := p.d.ByRef(ref); s != nil {
				near = append(near, s)
			}
		}
		refs = refs[n:]
		newestAhead(near)
		for len(near) > 0 {
			sh, same := p.d.Shards.of(near[0]), 1
			for same < len(near) && p.d.Shards.of(near[same]) == sh {
				same++
			}
			some := false
			dst, some = sh.appendVisible(dst, near[:same], p.seq, mint, maxt)
			present = present && some
			near = near[same:]
		}
	}
	return dst, present
}

// appendVisible is AppendVisible for series of one shard.
func (sh *Shard) appendVisible(dst, series []*Series, snapshot uint64, mint, maxt int64) (_ []*Series, present bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	boundsAheadLocked(series)
	present = true
	for _, s := range series {
		if p := sh.presenceLocked(s, snapshot, mint, maxt); p != Absent {
			dst = append(dst, s)
			present = present && p == Present
		}
	}
	return dst, present
}
