package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pkg/errors"
)

// How the figure of a curve may grow with the number of series n: what is there for each of
// them as the logarithm of n; what is flat stays within a bound, whatever n is. Empty: it is
// not judged.
const (
	growsEach = "each"
	growsFlat = "flat"
)

// growthSlack is how much more than the logarithm a figure may grow between two points of a curve:
// what repeated measurements differ by on a machine that has other work, too.
const growthSlack = 1.25

// askedNow gives a curve that was measured before what is asked of it now.
func (c *Curve) askedNow() {
	for _, now := range allCurves() {
		if now.Name == c.Name {
			c.Grows, c.Bound = now.Grows, now.Bound
		}
	}
}

// growth is how much faster than the logarithm a line with two points or more rises in its
// last step; 1: exactly so.
func growth(l Line) float64 { return growthFrom(l.Points[len(l.Points)-2], l) }

// growthFrom is the same from one of its points to the last.
func growthFrom(from Point, l Line) float64 {
	to := l.Points[len(l.Points)-1]
	return to.Value / from.Value / (math.Log(float64(to.Series)) / math.Log(float64(from.Series)))
}

// most is the greatest figure of a line.
func most(l Line) float64 {
	return slices.MaxFunc(l.Points, func(a, b Point) int { return cmp.Compare(a.Value, b.Value) }).Value
}

// measured tells whether all figures of a line can be something that was measured: what is
// judged is never nothing.
func measured(l Line) bool {
	return !slices.ContainsFunc(l.Points, func(p Point) bool { return !(p.Value > 0) || math.IsInf(p.Value, 0) })
}

// judgement is what is found of the lines of a curve, and whether those of ours are as asked.
type judgement struct {
	text    string // empty: there is nothing to judge
	reached bool
}

// judge looks how the lines of a curve grow.
func (c Curve) judge() judgement {
	what, of, least, bound := "The last step, and in brackets all of them, times log n", growth, 2, growthSlack
	switch c.Grows {
	case "":
		return judgement{}
	case growsFlat:
		what, of, least, bound = "The most", most, 1, c.Bound
	}
	var lines []string
	reached := true
	for _, l := range c.Lines {
		if len(l.Points) < least {
			continue
		}
		value := of(l)
		all := ""
		if c.Grows == growsEach {
			all = fmt.Sprintf(" (%s)", factor(growthFrom(l.Points[0], l)))
		}
		lines = append(lines, fmt.Sprintf("%s %s%s", l, factor(value), all))
		if l.Engine == Ours {
			reached = reached && measured(l) && value <= bound
		}
	}
	if len(lines) == 0 {
		return judgement{}
	}
	mark := map[bool]string{true: "PASS", false: "SHORT"}[reached]
	return judgement{fmt.Sprintf("%s: %s. Goal for ours <= %s: %s", what, strings.Join(lines, "; "), factor(bound), mark), reached}
}

// parallel calls f for 0 to n-1 at once and returns the first error.
func parallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// scrapeParallel appends all scrapes of a table but the first, by several writers, each of
// which has series of its own.
func (t task) scrapeParallel(e engine, table []float64, writers int) error {
	return parallel(writers, func(i int) error {
		first, end := i*t.Series/writers, (i+1)*t.Series/writers
		for k := 1; k < t.Samples; k++ {
			vs, at := table[k*t.Series:(k+1)*t.Series], blockStart+int64(k)*blockStep
			for from := first; from < end; from += perCommit {
				if err := e.append(from, min(from+perCommit, end), at, vs); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// readParallel asks a query again and again, for a time, by several readers. It returns how
// often it was answered, what it found, and what all that took.
func readParallel(e engine, q query, readers int, during time.Duration) (times int, found result, cost spent, err error) {
	if found, err = e.read(q); err != nil {
		return 0, found, cost, err
	}
	if found.series == 0 {
		return 0, found, cost, errors.New("no series were found")
	}
	before, asked := now(), make([]int, readers)
	err = parallel(readers, func(i int) error {
		for asked[i] < 3 || time.Since(before.at) < during {
			again, err := e.read(q)
			if err != nil {
				return err
			}
			if again != found {
				return errors.New("the same query gave something else")
			}
			asked[i]++
		}
		return nil
	})
	cost = now().since(before)
	for _, n := range asked {
		times += n
	}
	return times, found, cost, err
}
