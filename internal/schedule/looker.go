package schedule

// Where so many looks have found nothing since something was done, they rest, and only each
// so-manieth look is in earnest.
const (
	restAfter  = 3
	restedLook = 32
)

// Looker decides which looks are in earnest: of a thousand databases that rest, each costs a
// microsecond a second. It is for one goroutine.
type Looker struct {
	Jobs  []*Job        // what there is to look for
	Done  func() uint64 // changes when something was done that may make work
	Rests func() bool   // nothing is to be done that Done says nothing of

	seen  uint64 // Done, at the last look
	still int    // looks since then
}

// Look begins all jobs, unless there is nothing to do for them.
func (l *Looker) Look() {
	if n := l.Done(); n != l.seen {
		l.seen, l.still = n, 0
	}
	if l.still++; l.still > restAfter && l.still%restedLook != 0 && l.Rests() {
		return
	}
	for _, j := range l.Jobs {
		j.Begin()
	}
}

// BeginOne begins the first job that is idle, or has the last one run once more.
func BeginOne(jobs []*Job) {
	for i, j := range jobs {
		if j.Idle() || i == len(jobs)-1 {
			j.Begin()
			return
		}
	}
}
