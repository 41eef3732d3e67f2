package compat

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// steppedClock stands still until a test moves it, and Advance returns when the loops of the
// database have done what was due: a directory that is copied then does not change meanwhile.
type steppedClock struct {
	*tsdbtest.Clock

	mu      sync.Mutex
	tickers []*steppedTicker
}

func newSteppedClock(start time.Time) *steppedClock {
	return &steppedClock{Clock: tsdbtest.NewClock(start)}
}

// steppedTicker knows whether its loop is done: who waits for the next tick has asked for the
// channel once more than it has ticked.
type steppedTicker struct {
	clock.Ticker
	period, begun time.Duration
	asked         atomic.Int64
	stopped       atomic.Bool
}

func (t *steppedTicker) C() <-chan time.Time {
	t.asked.Add(1)
	return t.Ticker.C()
}

func (t *steppedTicker) Stop() {
	t.stopped.Store(true)
	t.Ticker.Stop()
}

// NewTicker is part of tsdb.Clock.
func (c *steppedClock) NewTicker(d time.Duration) clock.Ticker {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &steppedTicker{Ticker: c.Clock.NewTicker(d), period: d, begun: c.Passed().Time}
	c.tickers = append(c.tickers, t)
	return t
}

// Advance lets d pass, and waits for what that brings about.
func (c *steppedClock) Advance(d time.Duration) {
	c.mu.Lock()
	tickers := slices.Clone(c.tickers) // what is due may make others
	c.mu.Unlock()
	c.Clock.Advance(d)
	for _, t := range tickers {
		ticks := int64((c.Passed().Time - t.begun) / t.period)
		for t.asked.Load() <= ticks && !t.stopped.Load() {
			runtime.Gosched()
		}
	}
}
