package tsdb

import (
	"math"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// BoundsError is a sample whose time is not accepted. errors.Is(err, ErrOutOfBounds) holds for it,
// or errors.Is(err, ErrTooOld).
type BoundsError struct {
	T int64 // of the sample, in milliseconds since 1970
	// What was accepted at that moment, a closed range of milliseconds: From is where the blocks
	// end, or where the out-of-order window begins; To is Limits.MaxFuture ahead of the clock. From
	// > To: nothing was accepted, because the head is ahead of the clock; DB.Health says so, too.
	From, To int64

	tooOld bool // late samples are taken, but none from so long ago
}

// Error says what is accepted, and in which unit the time seems to be if not in milliseconds.
func (e *BoundsError) Error() string {
	return e.Unwrap().Error() + ": " + clock.Text(e.T) + clock.OtherUnit(e.T, e.To) +
		"; accepted are times from " + clock.Text(e.From) + " to " + clock.Text(e.To)
}

// Unwrap returns ErrOutOfBounds, or ErrTooOld.
func (e *BoundsError) Unwrap() error {
	if e.tooOld {
		return ErrTooOld
	}
	return ErrOutOfBounds
}

// bounds are the times that the head has, and those that it takes.
type bounds struct {
	opts *Options
	// minValid is the time from which on the head takes samples: blocks have, or soon will
	// have, what is before. It falls only when the head leaves the future (beginAgain).
	minValid atomic.Int64
	// minT and maxT are the closed bounds of all applied samples; there are none while minT > maxT.
	minT, maxT atomic.Int64
	// leaving: what raised the head is deleted, and it did not get to the present yet.
	leaving atomic.Bool
}

func (b *bounds) init(opts *Options) {
	b.opts = opts
	b.minValid.Store(memseries.NoTime + 1)
	b.empty()
}

// empty says that there are no samples.
func (b *bounds) empty() {
	b.minT.Store(math.MaxInt64)
	b.maxT.Store(math.MinInt64)
}

// overlaps reports whether a sample that is published can be in the closed range. The
// caller has its snapshot and keeps the view of the blocks from being replaced: the head
// begins to forget what a block has behind that only.
func (b *bounds) overlaps(mint, maxt int64) bool {
	first, last := b.minT.Load(), b.maxT.Load()
	return first <= last && first <= maxt && last >= mint && mint <= maxt
}

// widen makes the head's bounds cover [mint, maxt].
func (b *bounds) widen(mint, maxt int64) {
	for old := b.minT.Load(); mint < old && !b.minT.CompareAndSwap(old, mint); {
		old = b.minT.Load()
	}
	for old := b.maxT.Load(); maxt > old && !b.maxT.CompareAndSwap(old, maxt); {
		old = b.maxT.Load()
	}
}

// acceptsTo returns the newest time that a sample may have now.
func (b *bounds) acceptsTo() int64 {
	if b.opts.Limits.MaxFuture < 0 {
		return math.MaxInt64 - 1 // the last instant is the end of no block
	}
	return clock.UnixMilli(b.opts.Clock) + b.opts.Limits.MaxFuture.Milliseconds()
}

// isAhead reports whether the head is closed beyond a time, or has samples beyond.
func (b *bounds) isAhead(of int64) bool {
	return b.minValid.Load() > of || b.minT.Load() <= b.maxT.Load() && b.maxT.Load() > of
}

// raisedTo returns the newest time that keeps older samples out: the last one that the head is
// closed to, or has a sample of.
func (b *bounds) raisedTo() int64 { return max(b.minValid.Load()-1, b.maxT.Load()) }

// leaves reports whether the head is to leave the future, and the newest time that is none.
func (b *bounds) leaves() (present int64, is bool) {
	present = b.acceptsTo()
	if b.leaving.Load() {
		present = min(present, b.opts.present())
	}
	return present, b.isAhead(present)
}

// err says that the head is ahead of the clock, nil if it is not.
func (b *bounds) err() error {
	to := b.acceptsTo()
	if !b.isAhead(to) {
		return nil
	}
	e := &BoundsError{T: clock.UnixMilli(b.opts.Clock), From: b.minValid.Load(), To: to}
	if e.From <= to {
		return errors.WithMessagef(ErrOutOfBounds, "the head has samples up to %s, and their series take nothing older; "+
			"DB.Flush makes blocks of them, as the database does by itself when the clock has said so for %s", clock.Text(b.maxT.Load()), futureWait)
	}
	return errors.WithMessagef(e, "the head is ahead of the clock; DB.Flush makes it take the present again, "+
		"as the database does by itself when the clock has said so for %s", futureWait)
}
