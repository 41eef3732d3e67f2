package remote

import (
	"context"
	"math"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
)

// Bounds of what is remembered of delta temporality.
const (
	deltaIdle          = time.Hour // after this the sum of a series that got nothing may be forgotten
	maxDeltaBuckets    = 4096      // of a histogram, and bounds
	deltaBytes         = 1 << 10   // of a series, if all are as many as there may be
	deltaOverhead      = 256       // bytes of a sum beside its labels and buckets
	bytesOfDeltaBucket = 24
)

// deltaSums are the sums of series whose points count from one to the next.
type deltaSums struct {
	most  int // series
	clock tsdb.Clock
	turn  chan struct{} // has room while nobody adds; who adds owns what is below

	of    map[string]deltaSum // by encoded labels
	bytes int
	full  time.Time // before this nothing is idle
	round uint64    // the number of requests that added
}

type deltaSum struct {
	t     int64  // of the newest point
	added uint64 // a digest of its value
	start int64  // of the first
	v     float64
	hist  *histogram.FloatHistogram // is not changed
	seen  time.Time
	round uint64 // that wrote it
}

func (s *deltaSum) sizeBytes(labels int) int {
	n := labels + deltaOverhead
	if h := s.hist; h != nil {
		n += bytesOfDeltaBucket * (len(h.PositiveBuckets) + len(h.NegativeBuckets) + len(h.CustomValues))
	}
	return n
}

// deltaRound is what one request adds. From its first point to its end no other request adds:
// points of one series come in the order of their commits.
type deltaRound struct {
	ctx    context.Context
	to     *deltaSums
	turn   bool
	before []deltaBefore
	after  deltaSum // of the sample at hand
}

// deltaBefore is a sum as it was before the request; none: it was not there.
type deltaBefore struct {
	labels string
	sum    deltaSum
	none   bool
}

func (r *deltaRound) begin(ctx context.Context, to *deltaSums) {
	r.ctx, r.to, r.turn, r.before = ctx, to, false, r.before[:0]
}

// end keeps what a request added, or takes it back.
func (r *deltaRound) end(keep bool) {
	if !r.turn {
		return
	}
	for i := len(r.before) - 1; i >= 0 && !keep; i-- {
		b := &r.before[i]
		r.to.forget(b.labels)
		if !b.none {
			r.to.set(b.labels, b.sum)
		}
	}
	clear(r.before)
	<-r.to.turn
}

func (d *deltaSums) forget(labels string) {
	if sum, there := d.of[labels]; there {
		d.bytes -= sum.sizeBytes(len(labels))
		delete(d.of, labels)
	}
}

func (d *deltaSums) set(labels string, sum deltaSum) {
	d.bytes += sum.sizeBytes(len(labels))
	d.of[labels] = sum
}

// add makes the sum of its series of a sample; keep notes that it counts. A sample of the time of
// the newest one is a repeat, if it has its value: it gets the same sum.
func (r *deltaRound) add(encoded []byte, s *tsdb.Sample) error {
	d := r.to
	if !r.turn {
		select {
		case d.turn <- struct{}{}:
		case <-r.ctx.Done():
			return r.ctx.Err()
		}
		r.turn = true
		d.round++
	}
	before, there := d.of[string(encoded)]
	now := d.clock.Now()
	r.after = deltaSum{t: s.T, start: s.ST, v: before.v + s.V, hist: before.hist, seen: now, round: d.round}
	r.after.added = math.Float64bits(s.V)
	if s.H != nil {
		if len(s.H.PositiveBuckets)+len(s.H.NegativeBuckets)+len(s.H.CustomValues) > maxDeltaBuckets {
			return errors.WithMessagef(histogram.ErrTooManyBuckets, "more than %d, to be added up", maxDeltaBuckets)
		}
		if err := s.H.Validate(); err != nil {
			return err
		}
		r.after.added = s.H.Digest()
	}
	switch {
	case there && s.T < before.t:
		return errDeltaOrder
	case there && s.T == before.t && r.after.added != before.added:
		return errDeltaTwice
	case there && s.T == before.t:
		r.after.v = before.v
	case !there && (len(d.of) >= d.most || d.bytes > d.most*deltaBytes) && !d.makeRoom(now):
		return errors.WithMessagef(errDeltaSeries, "%d", d.most)
	case s.H != nil:
		r.after.hist = s.H.ToFloat(nil)
		if before.hist != nil {
			if err := r.after.hist.Add(before.hist); err != nil {
				return err
			}
		}
	}
	if there {
		r.after.start = before.start
	}
	s.V, s.ST = r.after.v, r.after.start
	if s.H != nil {
		s.H, s.FH = nil, r.after.hist
	}
	return nil
}

// keep notes the sum of the last add, whose sample was taken.
func (r *deltaRound) keep(encoded []byte) {
	d := r.to
	before, there := d.of[string(encoded)]
	if there && before.round == d.round {
		d.bytes += r.after.sizeBytes(0) - before.sizeBytes(0)
		d.of[string(encoded)] = r.after
		return
	}
	labels := string(encoded)
	r.before = append(r.before, deltaBefore{labels, before, !there})
	d.forget(labels)
	d.set(labels, r.after)
}

// makeRoom forgets the sums of series that got nothing for long, and reports whether there were
// some.
func (d *deltaSums) makeRoom(now time.Time) bool {
	if now.Before(d.full) {
		return false
	}
	n := len(d.of)
	oldest := now
	for labels, sum := range d.of {
		if now.Sub(sum.seen) > deltaIdle {
			d.forget(labels)
		} else if sum.seen.Before(oldest) {
			oldest = sum.seen
		}
	}
	d.full = oldest.Add(deltaIdle)
	return len(d.of) < n
}
