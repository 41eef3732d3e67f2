package agg

import (
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// Point is what was computed of one window.
type Point struct {
	T int64 // where the window ends, in milliseconds
	V float64
}

// Aggregator computes one function over windows, of any number of series, one after the other. Its
// memory is used again for the next one. It is for one goroutine.
type Aggregator struct {
	windows Windows
	end     int64 // of the current window
	over    bool  // there are no windows any more
	cur     accumulator
	points  []Point
	batch   *chunkenc.Batch
	usual   int // samples that a window had

	// Where windows overlap: the samples of the current one and of those behind it, and where the
	// memory for them begins.
	t, roomT []int64
	v, roomV []float64
}

// New returns an Aggregator for a function, or says what is wrong with it or with the windows.
func New(f Func, w Windows) (*Aggregator, error) {
	if f < Count || f > Rate {
		return nil, errors.Errorf("%v is not known: want one of %v", f, names[Count:quantile])
	}
	return newAggregator(accumulator{f: f}, w)
}

// NewQuantile returns an Aggregator for the q-quantile of each window, between the two values that
// are next to it. Below 0 it is -Inf, above 1 it is +Inf.
func NewQuantile(q float64, w Windows) (*Aggregator, error) {
	return newAggregator(accumulator{f: quantile, q: q}, w)
}

func newAggregator(acc accumulator, w Windows) (*Aggregator, error) {
	w, err := w.normal()
	if err != nil {
		return nil, err
	}
	return &Aggregator{windows: w, cur: acc, batch: chunkenc.NewBatch(chunkenc.BatchSize)}, nil
}

// Points appends to dst a point for each window in which the function has a value, in the order of
// time. The iterator is before its first sample; it may begin before the windows, and end behind
// them. The error is that of the iterator, or ErrHistogram; dst has the points in front of it then.
// A histogram that is in no window does not matter.
func (a *Aggregator) Points(dst []Point, it chunkenc.Iterator) ([]Point, error) {
	a.begin(dst)
	err := a.read(it)
	dst, a.points = a.points, nil
	return dst, err
}

func (a *Aggregator) begin(dst []Point) {
	a.points, a.end, a.over = dst, a.windows.Start, false
	a.t, a.v = a.roomT, a.roomV
	a.cur.reset()
}

func (a *Aggregator) read(it chunkenc.Iterator) error {
	kind := it.Seek(a.windows.Start - a.windows.Range + 1)
	if kind == chunkenc.ValFloat { // the batches begin behind it
		t, v := it.At()
		a.batch.T, a.batch.V = append(a.batch.T[:0], t), append(a.batch.V[:0], v)
	}
	for ; kind != chunkenc.ValNone; kind = a.next(it) {
		if kind == chunkenc.ValFloat {
			if a.take(); a.over {
				return nil
			}
			continue
		}
		t := it.AtT()
		end, ok := a.windows.endOf(t)
		if !ok { // all that follows is behind the windows
			break
		}
		if t > end-a.windows.Range {
			return errors.WithMessagef(ErrHistogram, "sample at %d", t)
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	a.finish()
	return nil
}

// next reads a batch of floats, or moves to a sample that is none. It returns the kind.
func (a *Aggregator) next(it chunkenc.Iterator) chunkenc.ValueType {
	kind := it.NextBatch(a.batch)
	if kind == chunkenc.ValFloat || kind == chunkenc.ValNone {
		return kind
	}
	return it.Next()
}

// take adds the samples of the batch to their windows, and makes points of windows that are over.
func (a *Aggregator) take() {
	dropStale(a.batch)
	if a.windows.Range > a.windows.Step {
		a.overlapping(a.batch.T, a.batch.V)
	} else {
		a.disjoint(a.batch.T, a.batch.V)
	}
}

// dropStale takes the stale markers out: they are no samples. Most batches have none.
func dropStale(b *chunkenc.Batch) {
	n := beforeStale(b.V)
	if n == len(b.V) {
		return
	}
	for i := n; i < len(b.V); i++ {
		if !isStale(b.V[i]) {
			b.T[n], b.V[n] = b.T[i], b.V[i]
			n++
		}
	}
	b.T, b.V = b.T[:n], b.V[:n]
}

// beforeStale returns how many values are in front of the first stale marker.
func beforeStale(vs []float64) int {
	for i, v := range vs {
		if isStale(v) {
			return i
		}
	}
	return len(vs)
}

func isStale(v float64) bool { return math.Float64bits(v) == histogram.StaleNaN }

// disjoint is for windows of which none reaches into the next one: a sample is read once.
func (a *Aggregator) disjoint(ts []int64, vs []float64) {
	for len(ts) > 0 {
		if ts[0] > a.end {
			a.emit()
			a.moveTo(ts[0])
			if a.over {
				return
			}
		}
		from := until(ts, a.end-a.windows.Range)
		to := from + a.inWindow(ts[from:])
		if from < to {
			a.cur.add(ts[from:to], vs[from:to])
		}
		ts, vs = ts[to:], vs[to:]
	}
}

// inWindow returns how many of the times are not behind the window: where samples are as far apart
// as before, as many as the window before had.
func (a *Aggregator) inWindow(ts []int64) int {
	if n := a.usual; n > 0 && n < len(ts) && ts[n-1] <= a.end && ts[n] > a.end {
		return n
	}
	n := until(ts, a.end)
	if n < len(ts) {
		a.usual = n
	}
	return n
}

// overlapping is for windows that share samples: they are kept as long as a window has them.
func (a *Aggregator) overlapping(ts []int64, vs []float64) {
	a.t, a.v = append(append(a.roomT, a.t...), ts...), append(append(a.roomV, a.v...), vs...)
	a.roomT, a.roomV = a.t[:0], a.v[:0]
	for !a.over && len(a.t) > 0 && a.t[len(a.t)-1] > a.end {
		a.near()
	}
}

// near makes a point of the current window of those that overlap, and moves on.
func (a *Aggregator) near() {
	gone := until(a.t, a.end-a.windows.Range)
	a.t, a.v = a.t[gone:], a.v[gone:]
	n := until(a.t, a.end)
	if n == 0 {
		if len(a.t) == 0 {
			a.over = true
			return
		}
		a.moveTo(a.t[0])
		return
	}
	a.cur.add(a.t[:n], a.v[:n])
	a.emit()
	if a.end == a.windows.End {
		a.over = true
		return
	}
	a.moveTo(a.end + 1)
}

// finish makes points of the windows that are left when there are no more samples.
func (a *Aggregator) finish() {
	if a.windows.Range <= a.windows.Step {
		a.emit()
		return
	}
	for !a.over && len(a.t) > 0 {
		a.near()
	}
}

// emit makes a point of the current window, if it has a value.
func (a *Aggregator) emit() {
	if v, ok := a.cur.value(a.end, a.windows.Range); ok {
		a.points = append(a.points, Point{T: a.end, V: v})
	}
	a.cur.reset()
}

// moveTo moves to the first window that ends at t or later: the next one, as a rule.
func (a *Aggregator) moveTo(t int64) {
	step := uint64(a.windows.Step)
	if t > a.end && uint64(t)-uint64(a.end) <= step && step <= uint64(a.windows.End)-uint64(a.end) {
		a.end += a.windows.Step // without a division
		return
	}
	end, ok := a.windows.endOf(t)
	a.end, a.over = end, !ok
}

// until returns how many of the times are not after t. They ascend, and mostly a few are not.
func until(ts []int64, t int64) int {
	if n := len(ts); n == 0 || ts[n-1] <= t {
		return n
	}
	n := 0
	for ts[n] <= t { // the last one is after it
		n++
	}
	return n
}
