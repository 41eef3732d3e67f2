// Package clock is the seam between the library and time. Everything that asks for
// the time of day or wants to be woken goes through Clock, so that tests stand in
// for it (package tsdbtest). It is not for measuring how long something took.
package clock

import "time"

// Clock tells the time of day and makes tickers. It is safe for concurrent use.
type Clock interface {
	Now() time.Time
	// NewTicker returns a ticker that sends the time every d, which must be
	// positive. Stop it to release it.
	NewTicker(d time.Duration) Ticker
}

// UnixMilli returns the time in milliseconds since 1970.
//
//go:noinline
func UnixMilli(c Clock) int64 { return c.Now().UnixMilli() }

// Ticker delivers ticks. Its channel is never closed; one tick that was under way
// may still arrive after Stop. A receiver that is late may miss ticks.
type Ticker interface {
	C() <-chan time.Time
	Stop()
}

// Stepped is a Clock that stands still unless a test moves it. A test wants the same to happen each
// time. So work that a tick begins ends before the next one, and the machine has no say in what is
// done (packages schedule and background). All other clocks, also those of users, are as System.
type Stepped interface {
	Clock
	MovesInSteps()
}

// System is the clock of the operating system.
var System Clock = &system{}

type system struct{}

func (*system) Now() time.Time { return time.Now() }

func (*system) NewTicker(d time.Duration) Ticker { return &ticker{time.NewTicker(d)} }

type ticker struct{ t *time.Ticker }

func (t *ticker) C() <-chan time.Time { return t.t.C }

func (t *ticker) Stop() { t.t.Stop() }
