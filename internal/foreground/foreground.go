// Package foreground lets maintenance, which can wait, give way to what somebody waits for:
// commits and queries. It knows how many of them are under way in this process, whose
// processors they share, and nothing of what they do.
//
// Without it a goroutine that has lost its processor to a flush gets one back when the
// scheduler next takes one from somebody, ten milliseconds later, and so does one whose timer
// has run out (prom/bench, latency and queries).
package foreground

import (
	"runtime"
	"sync/atomic"
)

var (
	underWay atomic.Int64
	calls    atomic.Uint64 // of MakeWay
)

// anyway is each how many calls MakeWay lets others run although nothing is under way: a
// query whose timer, or connection, nobody has looked at yet is not counted. While a
// processor is idle that wakes a thread for nothing, so it is not done each time.
const anyway = 8

// Begin notes that a commit or a query is under way, until End.
func Begin() { underWay.Add(1) }

// End is called once for each Begin.
func End() { underWay.Add(-1) }

// MakeWay is called by maintenance every hundred microseconds or so, without locks: whatever
// is ready to run goes first.
func MakeWay() {
	if underWay.Load() > 0 || calls.Add(1)%anyway == 0 {
		runtime.Gosched()
	}
}

// Steps counts steps of a loop that are too short to make way after each. It belongs to one
// goroutine.
type Steps uint

// Step counts one, and makes way once in so many, a power of two.
func (s *Steps) Step(every Steps) {
	if *s++; *s&(every-1) == 0 {
		MakeWay()
	}
}
