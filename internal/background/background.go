// Package background runs maintenance behind everything else that the machine has to do: what it
// makes is wanted some time, what it competes with is waited for. Package foreground decides
// between goroutines, and nobody but the operating system between threads: it gives each a slice of
// several milliseconds, and one of a commit or a query is late by as much when it has to share its
// processor.
package background

import (
	"context"
	"sync"
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

// Run calls f, and returns what it returns. Where the system can do it, which is Linux, f has a
// thread of its own with the least priority. A thread that is not run, as other programs compute,
// keeps one of Go's processors all the same, and the collector waits for it: so when f hardly gets
// on, the context that it was given ends, and f is called once more, with ctx and on an ordinary
// thread, as all work is for ten minutes from then on. f must be able to begin again behind an
// error of its context.
//
// Under a clock other than clock.System, which is that of a test that wants the same to happen each
// time, Run is a call of f. It is safe for concurrent use.
func Run(ctx context.Context, c clock.Clock, f func(context.Context) error) error {
	if c != clock.System {
		return f(ctx)
	}
	return onSystem.run(ctx, f)
}

var onSystem = runner{clock: clock.System, start: startThread}

// usage is for how long a thread has been run, and has been ready to run without being run.
type usage struct{ ran, waited time.Duration }

// starved tells whether a thread that waited for most of a window got less than an eighth of the
// processor that it shared: beside one other thread that computes it gets a sixtieth, and beside
// queries, which have pauses, got a third in the worst of fifty windows.
func (u usage) starved() bool { return u.waited > window/2 && u.ran < u.waited/8 }

// meter reads what a thread has used since it began.
type meter func() (usage, error)

type runner struct {
	clock clock.Clock
	// start calls a function in a goroutine of its own, on a thread with a low priority that ends
	// with it, and does not wait for it. Behind an error it is not called.
	start func(func()) (meter, error)

	mu struct {
		sync.Mutex
		until time.Time // the end of the rest
	}
}

func (r *runner) run(ctx context.Context, f func(context.Context) error) error {
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
func (r *runner) watch(used meter, result <-chan error, cancel context.CancelCauseFunc) error {
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

func (r *runner) rest() {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.until = now.Add(rest)
}

func (r *runner) resting() bool {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.mu.until.Sub(now)
	// More than a whole rest is left when the clock was set back.
	return left > 0 && left <= rest
}
