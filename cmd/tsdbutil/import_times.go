package main

import (
	"strconv"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
)

// Formats of times besides layouts of the language.
const (
	timeAuto   = "auto"
	timeUnix   = "unix"
	timeUnixMS = "unix_ms"
	timeUnixUS = "unix_us"
	timeUnixNS = "unix_ns"
)

// parseTime reads a time as the flags say. A time without a zone is UTC.
func (f *csvFlags) parseTime(text string) (int64, error) {
	switch f.timeFormat {
	case timeUnix:
		return parseSeconds([]byte(text))
	case timeUnixMS:
		return parseMilliseconds([]byte(text))
	case timeUnixUS:
		return parseUnits(text, "microseconds", time.Millisecond/time.Microsecond)
	case timeUnixNS:
		return parseUnits(text, "nanoseconds", time.Millisecond/time.Nanosecond)
	case timeAuto:
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
			return t.UnixMilli(), nil
		}
		if t, err := parseSeconds([]byte(text)); err == nil {
			return t, nil
		}
		return 0, errors.Errorf("the time is neither RFC 3339 nor a number of seconds: %s (--time-format tells how to read it)", quoted(text))
	default:
		t, err := time.Parse(f.timeFormat, text)
		if err != nil {
			return 0, errors.Errorf("the time is not as --time-format says: %s", quoted(text))
		}
		return t.UnixMilli(), nil
	}
}

// parseUnits reads a whole number of units, of which so many make a millisecond, and
// rounds down.
func parseUnits(text, units string, perMillisecond time.Duration) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, errors.Errorf("the time is no whole number of %s: %s", units, quoted(text))
	}
	per := int64(perMillisecond)
	t := n / per
	if n%per < 0 {
		t--
	}
	return t, nil
}

// farOff the clock, and as near to 1970, times are rather in another unit than meant.
const farOff = 365 * 24 * time.Hour

// timeCheck looks for times that cannot be meant: milliseconds that are read as seconds
// lie thousands of years ahead, seconds that are read as milliseconds lie in January 1970.
type timeCheck struct {
	now         int64 // milliseconds
	allowFuture bool
	ifAhead     string // what to do about the former
	ifEarly     string // and about the latter, within a year of 1970

	early oldTimes // within a year of 1970
	old   oldTimes // others that are more than a year before the clock
}

// oldTimes are taken, with a warning.
type oldTimes struct {
	samples int64
	first   int64
	told    bool // the user knows
}

func (o *oldTimes) add(t int64) {
	if o.samples++; o.samples == 1 {
		o.first = t
	}
}

// tell reports whether there is something that the user does not know yet.
func (o *oldTimes) tell() bool {
	if o.samples == 0 || o.told {
		return false
	}
	o.told = true
	return true
}

// timeAhead is why a sample was refused.
type timeAhead struct {
	t, now int64
	advice string
}

func (e *timeAhead) Error() string {
	return "the time " + exactTime(e.t) + " is more than a year ahead of the clock, which says " + exactTime(e.now) + ": " +
		e.advice + "; --allow-future takes it as it is"
}

// Unwrap makes it an error of one sample.
func (e *timeAhead) Unwrap() error { return tsdb.ErrOutOfBounds }

func exactTime(t int64) string {
	return time.UnixMilli(t).UTC().Format("2006-01-02T15:04:05.999Z07:00")
}

// check is called for each sample.
func (c *timeCheck) check(t int64) error {
	const year = int64(farOff / time.Millisecond)
	switch {
	case t > c.now:
		if !c.allowFuture && uint64(t)-uint64(c.now) > uint64(year) {
			return &timeAhead{t, c.now, c.ifAhead}
		}
	case uint64(c.now)-uint64(t) <= uint64(year):
	case t < year && t > -year:
		c.early.add(t)
	default:
		c.old.add(t)
	}
	return nil
}

// warning is what to say about the samples so far, each thing once.
func (c *timeCheck) warning() (text string, ok bool) {
	if c.early.tell() {
		return "the time " + exactTime(c.early.first) + " is within a year of 1970: " + c.ifEarly, true
	}
	if c.old.tell() {
		return "the time " + exactTime(c.old.first) + " is more than a year before the clock, which says " + exactTime(c.now) + ": it is taken as it is", true
	}
	return "", false
}
