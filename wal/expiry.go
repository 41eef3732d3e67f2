package wal

import "sync"

// expiries knows which commits, of the segments that this Log began, a checkpoint need not
// take apart: those of which Commit.Expires was said, when that time is over. Almost all of
// a log is samples that a block has by then, and decompressing them to find that out was
// a third of a flush's processor time (prom/bench, flush).
//
// The leader notes commits of the present segment; a checkpoint asks about finished ones.
type expiries struct {
	sync.Mutex
	segments map[int]*segmentExpiry
}

// segmentExpiry is what is known of one segment. The leader alone changes it, until the
// next segment begins.
type segmentExpiry struct {
	first   uint64   // sequence number of its first commit
	end     uint64   // behind the last one that was noted
	latest  int64    // time at which the last of those expires that do; nothing while none does
	any     bool     // one does
	lasting []uint64 // a bit for each commit from first on that does not expire
}

// begin makes the entry of a new segment.
func (e *expiries) begin(segment int, first uint64) *segmentExpiry {
	s := &segmentExpiry{first: first, end: first}
	e.Lock()
	defer e.Unlock()
	if e.segments == nil {
		e.segments = map[int]*segmentExpiry{}
	}
	e.segments[segment] = s
	return s
}

// forget drops what is known of the segments up to last.
func (e *expiries) forget(last int) {
	e.Lock()
	defer e.Unlock()
	for n := range e.segments {
		if n <= last {
			delete(e.segments, n)
		}
	}
}

// note takes down a commit that is about to be written. When that fails its number comes
// again, and what is said then holds.
func (s *segmentExpiry) note(c *Commit) {
	i := c.seq - s.first
	for uint64(len(s.lasting)) <= i/64 {
		s.lasting = append(s.lasting, 0)
	}
	s.lasting[i/64] |= 1 << (i % 64)
	s.end = max(s.end, c.seq+1)
	if !c.expires {
		return
	}
	s.lasting[i/64] &^= 1 << (i % 64)
	if !s.any || c.expiry > s.latest {
		s.any, s.latest = true, c.expiry
	}
}

// over says that a commit is known to have expired.
func (s *segmentExpiry) over(seq uint64, expired func(t int64) bool) bool {
	if !s.any || seq < s.first || seq >= s.end {
		return false
	}
	i := seq - s.first
	return s.lasting[i/64]&(1<<(i%64)) == 0 && expired(s.latest)
}

// skipper returns what tells of each commit in finished segments whether it has expired; nil
// if nothing has.
func (e *expiries) skipper(expired func(t int64) bool) func(segment int, seq uint64) bool {
	if expired == nil {
		return nil
	}
	return func(segment int, seq uint64) bool {
		e.Lock()
		s := e.segments[segment]
		e.Unlock()
		return s != nil && s.over(seq, expired)
	}
}
