// Package pace holds work to a number of bytes a second, so that a merge of blocks
// leaves the disk to commits and queries. It knows bytes and time; it does not know
// what is written, nor which files are worth pacing.
//
// A Limiter is the budget; FS spends it for everything that is written through it. Both
// are safe for concurrent use; those who share a Limiter share its rate.
package pace

import (
	"context"
	"time"

	"github.com/seed347100a3/tsdb/internal/clock"
)

const (
	// slack is how far behind its rate a writer may be and still catch up, because a
	// sleep ends a little late. In a second it makes up for 5% of the rate at most.
	slack = 50 * time.Millisecond
	// piecesPerSecond is in how many pieces FS spends the budget of one second: a
	// second holds one piece too many at most, 3% of the rate. The price is this many
	// system calls a second.
	piecesPerSecond = 32
	// maxDebt bounds one wait; nobody pays a century for a slip of the units.
	maxDebt = 24 * time.Hour
)

// Limiter spreads bytes over time. The nil Limiter does not limit. Time steps of the
// clock, in either direction, cost it slack at most.
type Limiter struct {
	clock clock.Clock
	rate  int64 // bytes a second, above 0

	// turn is a lock that a context can give up on: whoever holds it waits for what
	// it wrote. So everybody finds the budget without debt, and a time that is paid up to
	// in the future means that the clock was set back.
	turn chan struct{}
	paid time.Time // up to here the bytes are paid for; guarded by turn
}

// New returns a limiter of bytesPerSecond, which is nil, without a limit, if that is
// not above 0.
func New(c clock.Clock, bytesPerSecond int64) *Limiter {
	if bytesPerSecond <= 0 {
		return nil
	}
	return &Limiter{clock: c, rate: bytesPerSecond, turn: make(chan struct{}, 1), paid: c.Now()}
}

// Wait is called behind a write of n bytes and returns when the rate allows the next
// one: in any second that begins anywhere, no more than the rate, 5% and the longest
// single write. It returns the context's error if that ends first; then the rest of the
// n bytes is forgiven.
func (l *Limiter) Wait(ctx context.Context, n int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if l == nil || n <= 0 {
		return nil
	}
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()

	now := l.clock.Now()
	if l.paid.After(now) {
		l.paid = now
	}
	if earliest := now.Add(-slack); l.paid.Before(earliest) {
		l.paid = earliest
	}
	l.paid = l.paid.Add(l.cost(n))
	if debt := l.paid.Sub(now); debt > 0 {
		return l.sleep(ctx, debt)
	}
	return nil
}

// cost is the time that n bytes take.
func (l *Limiter) cost(n int) time.Duration {
	return time.Duration(min(float64(n)/float64(l.rate)*float64(time.Second), float64(maxDebt)))
}

// sleep lets d pass. One tick is the end: what the clock shows may have been set.
func (l *Limiter) sleep(ctx context.Context, d time.Duration) error {
	ticker := l.clock.NewTicker(d)
	defer ticker.Stop()
	select {
	case <-ticker.C():
		return nil
	case <-ctx.Done():
		l.paid = l.clock.Now()
		return ctx.Err()
	}
}

// piece is the longest write that keeps the promise of 10% over any second.
func (l *Limiter) piece() int {
	return int(min(max(l.rate/piecesPerSecond, 1), 1<<30))
}
