package tsdbtest

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed347100a3/tsdb/internal/clock"
)

var (
	_ clock.Passing = (*Clock)(nil)
	_ clock.Stepped = (*Clock)(nil)
)

// clocks counts the clocks that were made.
var clocks atomic.Int64

// Clock stands still until a test moves it. It implements the Clock option of tsdb.
// Make one with NewClock.
type Clock struct {
	advance sync.Mutex // held by Advance; taken before mu
	name    string     // of the moment from which elapsed counts

	mu struct {
		sync.Mutex
		now     time.Time
		elapsed time.Duration // the sum of all Advances: tickers follow it, not now
		tickers []*ticker     // in the order in which they were made
	}
}

// NewClock returns a clock that shows start.
func NewClock(start time.Time) *Clock {
	c := &Clock{name: fmt.Sprintf("tsdbtest clock %d", clocks.Add(1))}
	c.mu.now = start
	return c
}

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.now
}

// MovesInSteps tells a database that what a tick begins ends before the next one.
func (c *Clock) MovesInSteps() {}

// Set makes the clock show t, as if somebody had set it, forwards or backwards. No
// ticker notices, as with a real clock.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.now = t
}

// Passed returns how much time has passed by Advance since the clock was made. A database that is
// opened again with the same clock knows by it for how long it was closed, whatever Set did; with
// another clock it does not, as after a start of the machine.
func (c *Clock) Passed() clock.Passed {
	c.mu.Lock()
	defer c.mu.Unlock()
	return clock.Passed{Since: c.name, Time: c.mu.elapsed}
}

// Advance lets d pass. Tickers tick when they are due, in the order of time, those
// of the same time in the order in which they were made; meanwhile Now shows the
// time of the tick. Unlike a real clock it loses no tick: Advance waits until each
// was received or its ticker was stopped. So a goroutine that receives its second
// tick is done with the first. A negative d is an error of the test and panics.
func (c *Clock) Advance(d time.Duration) {
	if d < 0 {
		panic("tsdbtest: Advance by a negative duration")
	}
	c.advance.Lock()
	defer c.advance.Unlock()
	c.mu.Lock()
	end := c.mu.elapsed + d
	c.mu.Unlock()
	for {
		t, now := c.step(end)
		if t == nil {
			return
		}
		select {
		case t.c <- now:
		case <-t.stopped:
		}
	}
}

// step moves to the next tick that is due until end, or to end.
func (c *Clock) step(end time.Duration) (*ticker, time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var next *ticker
	at := end
	for _, t := range c.mu.tickers {
		if t.next < at || next == nil && t.next == at {
			next, at = t, t.next
		}
	}
	c.mu.now = c.mu.now.Add(at - c.mu.elapsed)
	c.mu.elapsed = at
	if next != nil {
		next.next += next.period
	}
	return next, c.mu.now
}

// Tickers returns how many tickers were made and not stopped.
func (c *Clock) Tickers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.tickers)
}

// NewTicker returns a ticker that Advance drives. d must be positive.
func (c *Clock) NewTicker(d time.Duration) clock.Ticker {
	if d <= 0 {
		panic("tsdbtest: ticker with a period that is not positive")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &ticker{
		clock:   c,
		c:       make(chan time.Time),
		stopped: make(chan struct{}),
		period:  d,
		next:    c.mu.elapsed + d,
	}
	c.mu.tickers = append(c.mu.tickers, t)
	return t
}

type ticker struct {
	clock   *Clock
	c       chan time.Time
	stopped chan struct{}
	stop    sync.Once
	period  time.Duration
	next    time.Duration // of elapsed; guarded by clock.mu
}

func (t *ticker) C() <-chan time.Time { return t.c }

func (t *ticker) Stop() {
	t.stop.Do(func() {
		t.clock.mu.Lock()
		defer t.clock.mu.Unlock()
		t.clock.mu.tickers = slices.DeleteFunc(t.clock.mu.tickers, func(o *ticker) bool { return o == t })
		close(t.stopped)
	})
}
