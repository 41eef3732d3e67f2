package tsdb

import (
	"math"
	"strconv"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/memseries"
)

// BoundsError is a sample whose time is not accepted. errors.Is(err, ErrOutOfBounds) holds for it.
type BoundsError struct {
	T int64 // of the sample, in milliseconds since 1970
	// What was accepted at that moment, a closed range of milliseconds: From is where the blocks
	// end, To is Limits.MaxFuture ahead of the clock. From > To: nothing was accepted, because
	// the head is ahead of the clock; DB.Health says so, too.
	From, To int64
}

// Error says what is accepted, and in which unit the time seems to be if not in milliseconds.
func (e *BoundsError) Error() string {
	return ErrOutOfBounds.Error() + ": " + textOfTime(e.T) + e.unit() +
		"; accepted are times from " + textOfTime(e.From) + " to " + textOfTime(e.To)
}

// Unwrap returns ErrOutOfBounds.
func (e *BoundsError) Unwrap() error { return ErrOutOfBounds }

// unit tells a time that would be accepted, within a year, in another unit.
func (e *BoundsError) unit() string {
	const year = 365 * 24 * 3600 * 1000
	near := func(t int64) bool { return t > max(e.To, 0)-year && t < e.To+year }
	switch t := e.T; {
	case t > 0 && t < math.MaxInt64/1000 && near(t*1000):
		return ", which looks like seconds where milliseconds belong"
	case near(t / 1000):
		return ", which looks like microseconds where milliseconds belong"
	case near(t / 1_000_000):
		return ", which looks like nanoseconds where milliseconds belong"
	default:
		return ""
	}
}

// textOfTime shows a time as a number, and as a date if it has one.
func textOfTime(t int64) string {
	text := strconv.FormatInt(t, 10)
	switch d := time.UnixMilli(t).UTC(); {
	case t <= memseries.NoTime+1:
		return "the beginning"
	case t >= math.MaxInt64-1:
		return "the end"
	case d.Year() < 1 || d.Year() > 9999:
		return text
	default:
		return text + " (" + d.Format(time.RFC3339) + ")"
	}
}

// aheadErr says that the head is ahead of the clock, nil if it is not.
func (h *head) aheadErr() error {
	to := h.acceptsTo()
	if !h.isAhead(to) {
		return nil
	}
	e := &BoundsError{T: h.opts.Clock.Now().UnixMilli(), From: h.minValid.Load(), To: to}
	if e.From <= to {
		return errors.WithMessagef(ErrOutOfBounds, "the head has samples up to %s, and their series take nothing older; "+
			"DB.Flush makes blocks of them, as the database does by itself when the clock has said so for %s", textOfTime(h.maxT.Load()), futureWait)
	}
	return errors.WithMessagef(e, "the head is ahead of the clock; DB.Flush makes it take the present again, "+
		"as the database does by itself when the clock has said so for %s", futureWait)
}
