package bench

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/agg"
	ourchunkenc "github.com/seed347100a3/tsdb/chunkenc"
)

// The rows about aggregates: one value for every five minutes of each series of a block, by package
// agg, and by the loop that is written by hand without it, over the iterator of the reference.

// aggregated are the functions that are measured: one that a loop has to remember most for, one that
// it has to remember least for, and one that agg is more precise with.
var aggregated = []agg.Func{agg.Rate, agg.Max, agg.Avg}

// aggregateStep is how long a window is, in milliseconds: 20 samples.
const aggregateStep = 20 * blockStep

// aggregateWindows lie side by side and cover the block, but for its first sample.
func aggregateWindows() agg.Windows {
	return agg.Windows{Start: blockStart + aggregateStep, End: blockStart + blockRange, Step: aggregateStep}
}

// aggregators compute a function of all windows of each series, and count the values in the place
// of samples.
var aggregators = map[string]func(engine, agg.Func) (result, error){Ours: aggregateOurs, Reference: aggregateByHand}

// aggregate measures them over one block.
func aggregate(t task) (m measures, err error) {
	e, err := open(t.Engine, t.Dir)
	if err != nil {
		return nil, err
	}
	defer closing(e, &err)
	m = measures{}
	for _, f := range aggregated {
		if err := t.aggregate(e, f, m); err != nil {
			return nil, errors.WithMessage(err, f.String())
		}
	}
	return m, nil
}

func (t task) aggregate(e engine, f agg.Func, m measures) error {
	first, err := aggregators[t.Engine](e, f)
	if err != nil {
		return err
	}
	windows := (min(t.Samples, maxPoints) - 2) / (aggregateStep / blockStep)
	if first.series != t.Series || first.samples < first.series*windows {
		return errors.Errorf("%d values of %d series, want %d of each of %d at least", first.samples, first.series, windows, t.Series)
	}
	runtime.GC()
	n, before := 0, now()
	for ; n < 3 || time.Since(before.at) < t.Time; n++ {
		again, err := aggregators[t.Engine](e, f)
		if err != nil {
			return err
		}
		if again != first {
			return errors.New("the same query gave something else")
		}
	}
	row := aggregateRow(f)
	m[row+"/rate"] = float64(n*t.Series*t.Samples) / now().since(before).cpu.Seconds()
	if f == agg.Avg { // which agg sums up more precisely
		first.sum = 0
	}
	first.note(m, row)
	return nil
}

func aggregateRow(f agg.Func) string { return "agg/" + f.String() }

// aggregateFigures are the rows.
func (c *comparison) aggregateFigures() (all []figure) {
	t := c.task("agg")
	for _, f := range aggregated {
		work := fmt.Sprintf("%s of every 5 minutes in a block, %s, of P by a loop", f, sizes(t.Series, t.Samples))
		all = append(all, section(work, more(aggregateRow(f)+"/rate", "samples/CPU s").than(3))...)
	}
	return all
}

func aggregateOurs(e engine, f agg.Func) (res result, err error) {
	a, err := agg.New(f, aggregateWindows())
	if err != nil {
		return res, err
	}
	q, err := e.(*ours).db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return res, err
	}
	defer func() {
		if closeErr := q.Close(); err == nil {
			err = closeErr
		}
	}()
	var it ourchunkenc.Iterator
	var points []agg.Point
	set := q.Select(context.Background(), &tsdb.SelectHints{Transient: true, MayBeEmpty: true})
	for set.Next() {
		res.series++
		it = set.At().Iterator(it)
		if points, err = a.Points(points[:0], it); err != nil {
			return res, err
		}
		res.add(points)
	}
	return res, set.Err()
}

// add counts the values of a series.
func (r *result) add(points []agg.Point) {
	r.samples += len(points)
	for _, p := range points {
		r.sum += math.Float64bits(p.V)
	}
}

func aggregateByHand(e engine, f agg.Func) (res result, err error) {
	r := e.(*reference)
	all, err := r.compile(nil)
	if err != nil {
		return res, err
	}
	q, err := r.db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return res, errors.Wrap(err, "querier")
	}
	defer func() {
		if closeErr := q.Close(); err == nil {
			err = closeErr
		}
	}()
	loop := map[agg.Func]func([]agg.Point, chunkenc.Iterator) []agg.Point{agg.Rate: rateByHand, agg.Max: maxByHand, agg.Avg: avgByHand}[f]
	var it chunkenc.Iterator
	var points []agg.Point
	set := q.Select(context.Background(), false, nil, all...)
	for set.Next() {
		res.series++
		it = set.At().Iterator(it)
		if points = loop(points[:0], it); it.Err() != nil {
			return res, errors.Wrap(it.Err(), "iterate")
		}
		res.add(points)
	}
	return res, errors.Wrap(set.Err(), "select")
}

func maxByHand(points []agg.Point, it chunkenc.Iterator) []agg.Point {
	end, n, best := int64(blockStart+aggregateStep), 0, 0.0
	for it.Next() == chunkenc.ValFloat {
		t, v := it.At()
		if t <= blockStart || value.IsStaleNaN(v) {
			continue
		}
		if t > end {
			if n > 0 {
				points = append(points, agg.Point{T: end, V: best})
			}
			for t > end {
				end += aggregateStep
			}
			n = 0
		}
		if n == 0 || v > best || math.IsNaN(best) {
			best = v
		}
		n++
	}
	if n > 0 {
		points = append(points, agg.Point{T: end, V: best})
	}
	return points
}

func avgByHand(points []agg.Point, it chunkenc.Iterator) []agg.Point {
	end, n, sum := int64(blockStart+aggregateStep), 0, 0.0
	for it.Next() == chunkenc.ValFloat {
		t, v := it.At()
		if t <= blockStart || value.IsStaleNaN(v) {
			continue
		}
		if t > end {
			if n > 0 {
				points = append(points, agg.Point{T: end, V: sum / float64(n)})
			}
			for t > end {
				end += aggregateStep
			}
			n, sum = 0, 0
		}
		sum += v
		n++
	}
	if n > 0 {
		points = append(points, agg.Point{T: end, V: sum / float64(n)})
	}
	return points
}

// counted is what a loop by hand remembers of a counter in a window.
type counted struct {
	n             int
	firstT, lastT int64
	first, last   float64
	falls         float64
}

func rateByHand(points []agg.Point, it chunkenc.Iterator) []agg.Point {
	end, c := int64(blockStart+aggregateStep), counted{}
	for it.Next() == chunkenc.ValFloat {
		t, v := it.At()
		if t <= blockStart || value.IsStaleNaN(v) {
			continue
		}
		if t > end {
			if c.n > 1 {
				points = append(points, agg.Point{T: end, V: c.rate(end)})
			}
			for t > end {
				end += aggregateStep
			}
			c.n = 0
		}
		if c.n == 0 {
			c.firstT, c.first, c.falls = t, v, 0
		} else if v < c.last {
			c.falls += c.last
		}
		c.lastT, c.last = t, v
		c.n++
	}
	if c.n > 1 {
		points = append(points, agg.Point{T: end, V: c.rate(end)})
	}
	return points
}

// rate is what PromQL makes of it: stretched to the ends of the window, but not to before 0.
func (c *counted) rate(end int64) float64 {
	grown := c.last - c.first + c.falls
	span := float64(c.lastT-c.firstT) / 1000
	distance := span / float64(c.n-1)
	before, after := float64(c.firstT-(end-aggregateStep))/1000, float64(end-c.lastT)/1000
	if before >= 1.1*distance {
		before = distance / 2
	}
	if grown > 0 && c.first >= 0 {
		before = min(before, span*(c.first/grown))
	}
	if after >= 1.1*distance {
		after = distance / 2
	}
	return grown * ((span + before + after) / span) / (aggregateStep / 1000)
}
