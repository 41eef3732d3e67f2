// Package foreground lets maintenance, which can wait, give way to what somebody waits for:
// commits and queries. It knows how many of them are under way, and nothing of what they do. It
// counts those of all databases of the process together, as they share its processors.
//
// Without it a goroutine that has lost its processor to a flush gets one back when the
// scheduler next takes one from somebody, ten milliseconds later, and so does one whose timer
// has run out (prom/bench, latency and queries). And who gets a processor that maintenance has left
// keeps it: queries pause for those who wait behind them (Pauses).
package foreground

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

var (
	underWay atomic.Int64
	calls    atomic.Uint64 // of MakeWay
	pausing  atomic.Int64  // queries that pause
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
	if n := calls.Add(1); underWay.Load() == 0 && n%anyway != 0 {
		return
	}
	runtime.Gosched()
	// A query pauses for those who wait behind it. Once only: beside queries that never rest
	// maintenance would not come to its end.
	if pausing.Load() > 0 {
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

// Add counts n at once, bytes or whatever takes about as long each, and makes way when at least so
// many have been counted since, at most once a call. It does not go with Step.
func (s *Steps) Add(n int, every Steps) {
	if *s += Steps(n); *s >= every {
		*s = 0
		MakeWay()
	}
}

// Poll is Steps of work that a context may end. It belongs to one goroutine.
type Poll struct {
	ctx   context.Context
	steps Steps
	ended bool
}

// NewPoll returns a Poll that has counted nothing.
//
//go:noinline
func NewPoll(ctx context.Context) *Poll { return &Poll{ctx: ctx} }

// Step counts one, and once in so many, a power of two, makes way and looks at the context. It
// tells whether the work is to go on.
func (p *Poll) Step(every Steps) bool {
	if p.steps++; p.steps&(every-1) == 0 {
		p.look()
	}
	return !p.ended
}

func (p *Poll) look() {
	MakeWay()
	p.ended = p.ended || p.ctx.Err() != nil
}

// Err is the context's error if Step found that it has ended.
func (p *Poll) Err() error {
	if p.ended {
		return p.ctx.Err()
	}
	return nil
}

// Pauses counts steps of a query. A processor that maintenance leaves is not given to those who
// wait behind a query on another one, a second query whose timer has run out among them: the
// scheduler takes from others only when there is nothing else to do. So the query lets them go
// first, and is taken by the processor that maintenance leaves next. The zero value has counted
// nothing. It belongs to one goroutine.
type Pauses struct {
	steps uint32
	seen  uint32        // calls of MakeWay
	took  time.Duration // the last pause
	back  time.Time     // from it
}

// Step counts one, and once in so many, a power of two, lets others run if maintenance made way
// since the last time: without it each has a processor of its own sooner or later. Beside
// goroutines that compute a pause can take ten milliseconds; the next one comes no sooner than as
// much later, so a query has half of a processor at least.
func (p *Pauses) Step(every uint32) {
	if p.steps++; p.steps == 1 {
		p.seen = uint32(calls.Load())
	}
	if p.steps&(every-1) != 0 {
		return
	}
	n := uint32(calls.Load())
	if n == p.seen {
		return
	}
	if time.Since(p.back) < p.took {
		return
	}
	p.seen = n
	pausing.Add(1)
	left := time.Now()
	runtime.Gosched()
	p.back = time.Now()
	p.took = p.back.Sub(left)
	pausing.Add(-1)
}
