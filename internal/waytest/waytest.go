// Package waytest tells tests how often code lets others run, and how often it looks at its
// context.
package waytest

import (
	"context"
	"runtime"
	"sync/atomic"
)

// Count runs f, on one processor, beside a goroutine that is always ready, and returns how often
// that one ran: once each time f lets it, more or less, as the scheduler has reasons of its own,
// too, and any number of times while f waits for something. Each time it calls let, which lets
// others run; runtime.Gosched does nothing else. Not for parallel tests: the processors are those
// of the whole process.
func Count(f, let func()) int {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var ran atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				ran.Add(1)
				let()
			}
		}
	}()
	defer func() { // also when f ends the test
		close(stop)
		<-done
	}()
	runtime.Gosched()
	before := ran.Load()
	f()
	return int(ran.Load() - before)
}

// EndingContext is a context that has ended once its error was asked for Left times. Its Done
// channel does not tell. It belongs to one goroutine.
type EndingContext struct {
	context.Context
	Left int
}

// Err counts, and is context.Canceled in the end.
func (c *EndingContext) Err() error {
	if c.Left--; c.Left < 0 {
		return context.Canceled
	}
	return nil
}
