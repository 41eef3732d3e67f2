package agg

import (
	"fmt"

	"github.com/pkg/errors"
)

// Func is what is computed of the samples of a window.
type Func uint8

// The functions. Those of counters, Increase and Rate, need two samples; Rate is per second.
const (
	Count Func = iota + 1
	Sum
	Avg
	Min
	Max
	First
	Last
	Increase
	Rate
)

// quantile is the function of NewQuantile, which has a parameter.
const quantile Func = Rate + 1

var names = [...]string{
	Count: "count", Sum: "sum", Avg: "avg", Min: "min", Max: "max", First: "first", Last: "last",
	Increase: "increase", Rate: "rate", quantile: "quantile",
}

// String returns the name, as Parse takes it.
func (f Func) String() string {
	if f == 0 || int(f) >= len(names) {
		return fmt.Sprintf("function %d", uint8(f))
	}
	return names[f]
}

// Parse returns the function of a name: count, sum, avg, min, max, first, last, increase, rate.
func Parse(name string) (Func, error) {
	for f := Count; f <= Rate; f++ {
		if names[f] == name {
			return f, nil
		}
	}
	return 0, errors.Errorf("unknown function %q: want one of %v", name, names[Count:quantile])
}
