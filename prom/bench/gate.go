package bench

import (
	"fmt"
	"maps"
	"slices"

	"github.com/pkg/errors"
)

// floors say how many times better than the reference rows of GateConfig have to be. They are
// half to two thirds of what a quiet machine shows, so other programs do not fail them; a change
// that does has made something that much slower or larger, in the same run as the reference.
var floors = map[string]float64{
	"append/cpu":             1.3,
	"appendbatch/cpu":        1.3,
	"log/1000":               0.93,
	"replay/cpu":             1.2, // little data: opening the directory counts as well
	"reopen/cpu":             1.4, // the same
	"memory/heap":            2.2,
	"select/all/cpu":         1.2,
	"select/all/garbage":     5,
	"decode/cpu":             2.2,
	"flush/cpu":              1.1,
	"blocks/all/rate":        1.3,
	"blocks/all/garbage":     3.5,
	"merge/cpu":              1.3,
	"remote/chunks/cpu":      2,
	"remote/samples/cpu":     2,
	"remotehead/samples/cpu": 2,
	"write/v1/cpu":           4,
	"write/v2/cpu":           2.3,
	"write/otlp/cpu":         1.6,
	"write/v1/garbage":       100,
	"write/v2/garbage":       100,
	"write/otlp/garbage":     100,
	"histograms20/append":    1.05,
	"histograms20/head":      1.1,
	"histograms20/heap":      1.5,
	"histograms20/flush":     1.7,
}

// GateConfig measures, with little data and beside the reference only, what floors are for.
func GateConfig() Config {
	c := QuickConfig()
	c.Runs, c.Pair = 3, true
	for _, kind := range Groups {
		if slices.ContainsFunc(slices.Collect(maps.Keys(floors)), func(row string) bool { return groupName(row) == kind }) {
			c.Only = append(c.Only, kind)
		}
	}
	return c
}

// Gate is nil if every row with a floor was measured and is above it.
func (r Report) Gate() error {
	left := maps.Clone(floors)
	var below []string
	for _, row := range r.Rows {
		floor, ok := left[row.Name]
		if !ok {
			continue
		}
		delete(left, row.Name)
		if row.Ratio.Times < floor {
			below = append(below, fmt.Sprintf("%s is %.2f times the reference, the floor is %.2f", row.Name, row.Ratio.Times, floor))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		below = append(below, name+" was not measured")
	}
	if len(below) > 0 {
		return errors.Errorf("slower than it was: %v", below)
	}
	return nil
}
