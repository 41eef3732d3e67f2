package httpapi

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// work is an estimate of what an expression takes for one series. The engine looks whether a query
// was given up between series and between most steps, but not while it goes through the windows of
// a subquery: a short expression could keep it busy for hours.
type work struct {
	visits  float64       // points that are gone through for windows of subqueries
	points  float64       // the most points that a subquery has
	longest time.Duration // the longest range
}

const (
	// maxVisits is about a second of the engine: max_over_time(m[1d:1m]) may have 100,000 steps.
	maxVisits = 150_000_000
	// heavyVisits and heavyPoints are what makes a query a heavy one: 50 milliseconds, 5 MB.
	heavyVisits = 5_000_000
	heavyPoints = 200_000
	// lightRange and lightBytes are the longest range, and the longest text, of a light query.
	lightRange = time.Hour
	lightBytes = 1000
)

// weights are of functions that sort what is in a window, in visits.
var weights = map[string]float64{"quantile_over_time": 15, "mad_over_time": 30}

// evaluation is at which times an expression is evaluated: from start to end, a step apart.
type evaluation struct {
	start, end time.Time
	step       time.Duration // 0: at one time
}

// span returns the milliseconds between the first and the last time. They are no duration, which
// ends after 292 years.
func (e *evaluation) span() float64 { return float64(e.end.UnixMilli()) - float64(e.start.UnixMilli()) }

func (e *evaluation) steps() float64 {
	if e.step == 0 {
		return 1
	}
	return e.span()/float64(e.step.Milliseconds()) + 1
}

// workOf estimates what an expression takes at so many steps over a span of milliseconds. step is
// that of subqueries that name none. It goes through the expression without recursion.
func workOf(expr parser.Expr, steps, span float64, step time.Duration) (w work) {
	type place struct {
		node        parser.Node
		steps, span float64
		weight      float64 // of the function around
	}
	left := []place{{expr, steps, span, 1}}
	for len(left) > 0 {
		at := left[len(left)-1]
		left = left[:len(left)-1]
		weight := 1.0
		switch node := at.node.(type) {
		case *parser.Call:
			if of, ok := weights[node.Func.Name]; ok {
				weight = of
			}
		case *parser.ParenExpr, *parser.StepInvariantExpr:
			weight = at.weight
		case *parser.MatrixSelector:
			w.longest = max(w.longest, node.Range)
		case *parser.SubqueryExpr:
			every, wide := float64(step.Milliseconds()), float64(node.Range.Milliseconds())
			if node.Step > 0 {
				every = float64(max(1, node.Step.Milliseconds()))
			}
			if node.Timestamp != nil || node.StartOrEnd != 0 { // the same at each step
				at.steps, at.span = 1, 0
			}
			w.longest = max(w.longest, node.Range)
			w.visits += at.weight * at.steps * wide / every
			at.span += wide
			at.steps = at.span/every + 1
			w.points = max(w.points, at.steps)
		}
		for child := range parser.ChildrenIter(at.node) {
			left = append(left, place{child, at.steps, at.span, weight})
		}
	}
	return w
}

// tooMuch says that a query would take too much; nil: it does not. For each of the points of a
// subquery the engine takes 16 bytes before it looks at any limit of its own.
func (w *work) tooMuch(mostPoints int) error {
	what, n, most := "go through", w.visits, maxVisits
	if w.points > float64(mostPoints) {
		what, n, most = "have", w.points, mostPoints
	}
	if n <= float64(most) {
		return nil
	}
	return fmt.Errorf("the subqueries of this query would %s %.3g points for each series, at most %d are allowed: "+
		"make ranges shorter, or steps longer", what, n, most)
}

func (w *work) heavy() bool { return w.visits > heavyVisits || w.points > heavyPoints }

// light reports whether a query at one time is over at once, whatever it selects.
func (w *work) light(text string) bool {
	return w.points == 0 && w.longest <= lightRange && len(text) <= lightBytes
}

// lanes keep places for queries that are over at once, whatever others take: an engine answers so
// many at a time, in the order in which they came.
type lanes struct {
	usual chan struct{} // a few less than the engine has, and no more than processors do at once
	heavy chan struct{} // few: such a query takes a processor, and up to hundreds of megabytes
}

// newLanes returns the lanes in front of an engine that answers so many queries at a time.
func newLanes(concurrency int) lanes {
	processors := runtime.GOMAXPROCS(0)
	return lanes{
		usual: make(chan struct{}, max(1, min(concurrency-max(1, concurrency/10), 4*processors))),
		heavy: make(chan struct{}, max(1, processors/4)),
	}
}

// enter waits for a place of a query, which leave gives back.
func (l *lanes) enter(ctx context.Context, w *work, light bool) (leave func(), err error) {
	if light {
		return func() {}, nil
	}
	var held []chan struct{}
	leave = func() {
		for _, lane := range held {
			<-lane
		}
	}
	wanted := []chan struct{}{l.usual}
	if w.heavy() {
		wanted = []chan struct{}{l.heavy, l.usual}
	}
	for _, lane := range wanted {
		select {
		case lane <- struct{}{}:
			held = append(held, lane)
		case <-ctx.Done():
			leave()
			return nil, ctx.Err()
		}
	}
	return leave, nil
}

// workOf estimates what a query takes. What is no expression takes nothing: the engine says why.
func (a *API) workOf(text string, at *evaluation) (w work) {
	if !strings.Contains(text, "[") {
		return w
	}
	expr, err := a.Parser.ParseExpr(text)
	if err != nil {
		return w
	}
	// Ranges and steps may be expressions themselves.
	if expr, err = promql.PreprocessExpr(expr, at.start, at.end, at.step); err != nil {
		return w
	}
	return workOf(expr, at.steps(), at.span(), a.SubqueryStep)
}
