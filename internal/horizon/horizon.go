package horizon

import "time"

// farthest bounds times, in milliseconds, so that differences are in range. That is 36 million
// years.
const farthest = 1 << 60

// Horizon is how far time has come. The zero value knows nothing.
type Horizon struct {
	// Keep is for how long something is kept, and so how long a difference is in doubt.
	Keep time.Duration

	known bool
	t     int64 // milliseconds since 1970
	age   int64 // milliseconds that have passed since the beginning
	// doubts are by how much the clock went further than time passed, the oldest first.
	doubts []doubt
	// back is the age at which a clock that shows less than t is believed; 0: it does not.
	back int64
}

// doubt is a part of the way that is not believed yet.
type doubt struct {
	ahead int64 // milliseconds of the way
	until int64 // age at which it is believed
}

// backWait is how long the clock must show less than the horizon before it is believed: a machine
// that is started may show 1970 for a while.
const backWait = time.Minute

// doubtsPerKeep is how many doubts there are at most in the time that is kept: those of a part of
// it are one, of the latest time.
const doubtsPerKeep = 64

// Known reports whether the horizon has a beginning.
func (h *Horizon) Known() bool { return h.known }

// Begin sets where the horizon begins, in milliseconds since 1970.
func (h *Horizon) Begin(t int64) { h.t, h.known = bounded(t), true }

// Pass lets time pass.
func (h *Horizon) Pass(d time.Duration) {
	h.age = bounded(h.age + d.Milliseconds())
	h.t = bounded(h.t + d.Milliseconds())
	n := 0
	for ; n < len(h.doubts) && h.doubts[n].until <= h.age; n++ {
		h.t = bounded(h.t + h.doubts[n].ahead)
	}
	h.doubts = append(h.doubts[:0], h.doubts[n:]...)
}

// Look returns how far behind t the horizon is. now is what the clock shows and t, which is not
// above it, the time that would be counted back from; both in milliseconds since 1970.
func (h *Horizon) Look(t, now int64) (behind time.Duration) {
	h.LookBack(now)
	h.doubt(max(bounded(now)-h.t, 0))
	ahead := max(bounded(t)-h.t, 0)
	return time.Duration(min(ahead, int64(1<<63-1)/int64(time.Millisecond))) * time.Millisecond
}

// LookBack believes a clock that shows less than the horizon for a while, and reports whether it
// does so now. To count back from less takes nothing; to wait would: what is written by that clock
// must not be too old when the other one comes back.
func (h *Horizon) LookBack(now int64) (believed bool) {
	switch now = bounded(now); {
	case now >= h.t:
		h.back = 0
	case h.back == 0:
		h.back = h.age + backWait.Milliseconds()
	case h.back <= h.age:
		h.t, h.back = now, 0
		return true
	}
	return false
}

// Back believes a clock that shows less than the horizon at once: samples are taken by it.
func (h *Horizon) Back(now int64) {
	if now = bounded(now); now < h.t {
		h.t, h.back = now, 0
	}
}

// doubt makes the doubts add up to what the clock is ahead.
func (h *Horizon) doubt(ahead int64) {
	sum := int64(0)
	for _, d := range h.doubts {
		sum += d.ahead
	}
	for n := len(h.doubts); n > 0 && sum > ahead; n = len(h.doubts) {
		last := &h.doubts[n-1]
		less := min(sum-ahead, last.ahead)
		last.ahead -= less
		sum -= less
		if last.ahead == 0 {
			h.doubts = h.doubts[:n-1]
		}
	}
	if ahead == sum {
		return
	}
	keep := h.keepMillis()
	d := doubt{ahead: ahead - sum, until: bounded(h.age + keep)}
	part := max(keep/doubtsPerKeep, 1)
	if n := len(h.doubts); n > 0 && h.doubts[n-1].until/part == d.until/part {
		d.ahead += h.doubts[n-1].ahead
		h.doubts = h.doubts[:n-1]
	}
	h.doubts = append(h.doubts, d)
}

// SetKeep changes Keep. If it is longer than before, differences stay in doubt for as much longer.
func (h *Horizon) SetKeep(keep time.Duration) {
	before := h.keepMillis()
	h.Keep = keep
	for i := range h.doubts {
		h.doubts[i].until = bounded(h.doubts[i].until + max(0, h.keepMillis()-before))
	}
}

func (h *Horizon) keepMillis() int64 { return max(h.Keep.Milliseconds(), 1) }

//go:noinline
func bounded(t int64) int64 { return min(max(t, -farthest), farthest) }
