// Package background runs maintenance behind everything else that the machine has to do: what it
// makes is wanted some time, what it competes with is waited for. Package foreground decides
// between goroutines, and nobody but the operating system between threads: it gives each a slice of
// several milliseconds, and one of a commit or a query is late by as much when it has to share its
// processor.
package background

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/clock"
)

const (
	// window is how often is looked whether the work gets on.
	window = 250 * time.Millisecond
	// rest is how long after it did not no other work is tried in the background.
	rest = 10 * time.Minute
)

// Runner runs work in the background. One that work did not get on with tries no other in the
// background for ten minutes. It is safe for concurrent use.
type Runner struct {
	clock clock.Clock
	// start calls a function in a goroutine of its own, on a thread with a low priority that ends
	// with it, and does not wait for it. Behind an error it is not called.
	start func(func()) (meter, error)

	until atomic.Int64 // the end of the rest, nanoseconds since 1970
}

// New returns a Runner that gives work a thread of its own with the least priority. Where the
// system cannot do that, which is not Linux, Run is a call of f.
func New(c clock.Clock) *Runner { return &Runner{clock: c, start: startThread} }

// NewOrdinary returns a Runner whose threads are as all others. It is for a clock of which the
// windows are not those of the system: by them nobody can tell how a thread fares.
func NewOrdinary(c clock.Clock) *Runner { return &Runner{clock: c, start: startOrdinary} }

// startOrdinary is start for threads that need not be looked after.
func startOrdinary(f func()) (meter, error) {
	go f()
	return func() (usage, error) { return usage{}, nil }, nil
}

// usage is for how long a thread has been run, and has been ready to run without being run.
type usage struct{ ran, waited time.Duration }

// starved tells whether a thread that waited for most of a window got less than an eighth of the
// processor that it shared: beside one other thread that computes it gets a sixtieth, and beside
// queries, which have pauses, got a third in the worst of fifty windows.
func (u usage) starved() bool { return u.waited > window/2 && u.ran < u.waited/8 }

// meter reads what a thread has used since it began.
type meter func() (usage, error)

// Run calls f on a thread of low priority, and returns what it returns. Beside other programs such
// a thread may hardly run, yet it holds one of Go's processors and delays the collector. Then the
// context of f ends, and f is called again, with ctx and on an ordinary thread. For ten minutes all
// work runs so. f must be able to begin again behind an error of its context.
func (r *Runner) Run(ctx context.Context, f func(context.Context) error) error {
	if r.resting() {
		return f(ctx)
	}
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	result := make(chan error, 1)
	used, err := r.start(func() {
		err := errNoResult
		defer func() { result <- err }()
		err = f(inner)
	})
	if err != nil {
		return f(ctx)
	}
	err = r.watch(used, result, cancel)
	switch {
	case err == nil || context.Cause(inner) != errStarved || !isEnd(err):
		return err
	case ctx.Err() != nil: // it ended, too, before f looked
		return context.Cause(ctx)
	}
	return f(ctx)
}

// isEnd tells the error of a context that has ended from others.
func isEnd(err error) bool {
	return errors.Is(err, errStarved) || errors.Is(err, context.Canceled)
}

// watch waits for the result, and cancels the work if it hardly gets on.
func (r *Runner) watch(used meter, result <-chan error, cancel context.CancelCauseFunc) error {
	ticker := r.clock.NewTicker(window)
	defer ticker.Stop()
	before, err := used()
	for known := err == nil; ; {
		select {
		case err := <-result:
			return err
		case <-ticker.C():
		}
		now, err := used()
		if err != nil {
			continue // the thread has ended, and the result is on its way
		}
		if last := (usage{now.ran - before.ran, now.waited - before.waited}); known && last.starved() {
			r.rest()
			cancel(errStarved)
		}
		before, known = now, true
	}
}

func (r *Runner) rest() { r.until.Store(r.clock.Now().Add(rest).UnixNano()) }

func (r *Runner) resting() bool {
	left := time.Duration(r.until.Load() - r.clock.Now().UnixNano())
	// More than a whole rest is left when the clock was set back.
	return left > 0 && left <= rest
}
