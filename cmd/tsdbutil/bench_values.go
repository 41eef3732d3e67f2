package main

import (
	"math"
	"math/bits"
)

// Kinds of values that "bench write" makes.
const (
	valuesCounter  = "counter"  // whole numbers that rise by 0 to 127
	valuesGauge    = "gauge"    // a walk in steps of 1/100, as a temperature
	valuesNoise    = "noise"    // 52 random bits: nothing to compress
	valuesConstant = "constant" // the same number all the time
)

var valueKinds = []string{valuesCounter, valuesGauge, valuesNoise, valuesConstant}

// values makes the values of some series, a tick at a time. It costs a few
// nanoseconds a value, so that it does not drown what is measured.
type values struct {
	kind  string
	last  []float64
	state uint64 // of the random numbers; never 0
}

func newValues(kind string, series int, seed uint64) *values {
	v := &values{kind: kind, last: make([]float64, series), state: seed*0x9e3779b97f4a7c15 | 1}
	for i := range v.last {
		v.last[i] = float64(v.random() % 10_000)
	}
	return v
}

// random is xorshift64*.
func (v *values) random() uint64 {
	v.state ^= v.state >> 12
	v.state ^= v.state << 25
	v.state ^= v.state >> 27
	return v.state * 0x2545f4914f6cdd1d
}

// tick moves all series on and returns their values; they are valid until the next
// call.
func (v *values) tick() []float64 {
	switch v.kind {
	case valuesCounter:
		for i := range v.last {
			v.last[i] += float64(v.random() >> 57)
		}
	case valuesGauge:
		for i := range v.last {
			hundredths := math.Round(v.last[i]*100) + float64(bits.OnesCount64(v.random())) - 32
			v.last[i] = hundredths / 100
		}
	case valuesNoise:
		for i := range v.last {
			v.last[i] = 1 + float64(v.random()>>12)/(1<<52)
		}
	}
	return v.last
}
