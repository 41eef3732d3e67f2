package bench

import "time"

// loadWatch finds out how much of the machine others use while some work is done.
type loadWatch struct {
	all, used, own time.Duration
	ok             bool
}

func watchLoad() (w loadWatch) {
	w.all, w.used, w.ok = machineTime()
	w.own = cpuTime() + childTime()
	return w
}

// others returns the part of the machine's processor time that others used; -1 where it is
// not known.
func (w loadWatch) others() float64 {
	end := watchLoad()
	if !w.ok || !end.ok || end.all <= w.all {
		return -1
	}
	return max(0, float64(end.used-w.used-(end.own-w.own))/float64(end.all-w.all))
}
