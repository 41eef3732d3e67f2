package remote

import (
	"sync"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
)

// deltaIdle is after how long the sum of a series that got nothing may be forgotten.
const deltaIdle = time.Hour

// deltaSums are the sums of series whose points count from one to the next.
type deltaSums struct {
	most  int
	clock tsdb.Clock
	mu    struct {
		sync.Mutex
		of map[string]deltaSum // by encoded labels
	}
}

type deltaSum struct {
	t    int64 // of the newest point
	v    float64
	hist *histogram.FloatHistogram // is not changed
	seen time.Time
}

// deltaRound is what one request adds. From its first point to its end no other request adds:
// points of one series come in the order of their commits.
type deltaRound struct {
	to     *deltaSums
	locked bool
	before []deltaBefore
}

// deltaBefore is a sum as it was; none: it was not there.
type deltaBefore struct {
	labels string
	sum    deltaSum
	none   bool
}

func (d *deltaSums) begin(r *deltaRound) { r.to, r.locked, r.before = d, false, r.before[:0] }

// end keeps what a request added, or takes it back.
func (d *deltaSums) end(r *deltaRound, keep bool) {
	if !r.locked {
		return
	}
	for i := len(r.before) - 1; i >= 0 && !keep; i-- {
		if b := &r.before[i]; b.none {
			delete(d.mu.of, b.labels)
		} else {
			d.mu.of[b.labels] = b.sum
		}
	}
	clear(r.before)
	d.mu.Unlock()
}

// add adds a sample to the sum of its series, and makes the sum of it. One of the time of the
// newest is a repeat: it gets the same sum.
func (r *deltaRound) add(encoded []byte, s *tsdb.Sample) error {
	d := r.to
	if !r.locked {
		d.mu.Lock()
		r.locked = true
	}
	before, there := d.mu.of[string(encoded)]
	now := d.clock.Now()
	after := deltaSum{s.T, before.v + s.V, before.hist, now}
	switch {
	case there && s.T < before.t:
		return errDeltaOrder
	case there && s.T == before.t:
		after.v = before.v
	case !there && len(d.mu.of) >= d.most && !d.makeRoomLocked(now):
		return errors.WithMessagef(errDeltaSeries, "%d", d.most)
	case s.H != nil:
		after.hist = s.H.ToFloat(nil)
		if before.hist != nil {
			if err := after.hist.Add(before.hist); err != nil {
				return err
			}
		}
	}
	labels := string(encoded)
	r.before = append(r.before, deltaBefore{labels, before, !there})
	if d.mu.of == nil {
		d.mu.of = map[string]deltaSum{}
	}
	d.mu.of[labels] = after
	s.V = after.v
	if s.H != nil {
		s.H, s.FH = nil, after.hist
	}
	return nil
}

// makeRoomLocked forgets the sums of series that got nothing for long, and reports whether there
// were some.
func (d *deltaSums) makeRoomLocked(now time.Time) bool {
	n := len(d.mu.of)
	for labels, sum := range d.mu.of {
		if now.Sub(sum.seen) > deltaIdle {
			delete(d.mu.of, labels)
		}
	}
	return len(d.mu.of) < n
}
