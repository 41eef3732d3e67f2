package clock

import "time"

// Passed is how much time has passed since some moment, however often somebody sets the time of
// day. Two of them can be compared when Since is the same.
type Passed struct {
	Since string // names the moment
	Time  time.Duration
}

// Passing is a Clock that knows how much time has passed.
type Passing interface {
	Clock
	Passed() Passed
}

// wallSince is Passed.Since of clocks that know the time of day only.
const wallSince = "wall"

// PassedBy returns how much time has passed by c. A clock that is not Passing is taken at its
// word: nobody sets it.
func PassedBy(c Clock) Passed {
	if p, ok := c.(Passing); ok {
		return p.Passed()
	}
	return Passed{Since: wallSince, Time: time.Duration(c.Now().UnixNano())}
}

// After returns how much time has passed since an earlier Passed; false if that cannot be told.
//
//go:noinline
func (p Passed) After(earlier Passed) (time.Duration, bool) {
	if p.Since != earlier.Since || p.Since == "" {
		return 0, false
	}
	return max(p.Time-earlier.Time, 0), true
}
