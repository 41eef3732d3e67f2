package main

import (
	"math"
	"strconv"
)

// axis is the vertical one. The library gets numbers from 0 to 1, as it computes with
// products of values, which have to stay in range.
type axis struct{ lowest, highest float64 }

// newAxis covers all numbers; false if there is none. A flat line lies in the middle.
func newAxis(data [][]float64, round bool) (axis, bool) {
	lowest, highest, ok := bounds(data)
	if round {
		lowest, highest = min(lowest, 0), roundUp(highest)
	}
	if lowest == highest {
		around := max(math.Abs(lowest)/2, 1)
		lowest, highest = finite(lowest-around), finite(highest+around)
	}
	return axis{lowest: lowest, highest: highest}, ok
}

// shrink replaces values by their place on the axis.
func (a axis) shrink(data [][]float64) {
	scale := 1.0
	if math.IsInf(a.highest-a.lowest, 0) {
		scale = 0.25
	}
	for _, values := range data {
		for i, v := range values {
			values[i] = (v*scale - a.lowest*scale) / (a.highest*scale - a.lowest*scale)
		}
	}
}

// value is what stands at a place.
func (a axis) value(place float64) float64 { return between(a.lowest, a.highest, place) }

// between goes from a at 0 to b at 1.
func between(a, b, f float64) float64 { return a*(1-f) + b*f }

// finite brings a number back into range.
func finite(v float64) float64 { return min(max(v, -math.MaxFloat64), math.MaxFloat64) }

// roundUp returns the next 1, 2 or 5 with zeros.
func roundUp(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 5} {
		if v <= n*unit {
			return n * unit
		}
	}
	return 10 * unit
}

// labels returns how the places of an axis with so many steps are labelled: as values are
// everywhere, or with more digits where neighbours would then have the same label.
func (a axis) labels(u unit, steps int) func(place float64) string {
	usual := func(place float64) string { return u.format(a.value(place)) }
	if u == unitTime { // its labels are long as they are
		return usual
	}
	last := usual(0)
	for i := 1; i <= steps; i++ {
		label := usual(float64(i) / float64(steps))
		if exact := a.exact(u, steps); label == last && max(len(exact(0)), len(exact(1))) <= maxLabel {
			return exact
		}
		last = label
	}
	return usual
}

// maxLabel is how long a label may be, in bytes, so that a plot fits its width.
const maxLabel = plotMargin - 4

// exact labels places in one unit, with as many digits as a step needs and there is room
// for.
func (a axis) exact(u unit, steps int) func(place float64) string {
	scale, suffix := u.scale(max(math.Abs(a.lowest), math.Abs(a.highest)))
	step := (a.highest/scale - a.lowest/scale) / float64(max(steps, 1))
	const rounding = 1e-3 // a step of 0.01 is 0.00999... and needs two digits
	digits := int(min(max(math.Ceil(-math.Log10(step)-rounding), 0), maxLabel))
	label := func(place float64) string {
		return strconv.FormatFloat(a.value(place)/scale, 'f', digits, 64) + suffix
	}
	for digits > 0 && max(len(label(0)), len(label(1))) > maxLabel {
		digits--
	}
	return label
}

// scale is what values up to a size are counted in, and its name.
func (u unit) scale(most float64) (scale float64, suffix string) {
	prefix := func(base float64, names ...string) (float64, string) {
		scale, i := 1.0, 0
		for ; most >= base*scale && i < len(names)-1; i++ {
			scale *= base
		}
		return scale, names[i]
	}
	switch u {
	case unitBytes, unitBytesPerSecond:
		scale, suffix = prefix(1024, " B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB")
	case unitSeconds:
		scale, suffix = 1, " s"
	case unitPercent:
		scale, suffix = 1, " %"
	default:
		scale, suffix = prefix(1000, "", " k", " M", " G", " T", " P", " E")
	}
	if u == unitBytesPerSecond || u == unitPerSecond {
		suffix += "/s"
	}
	return scale, suffix
}
