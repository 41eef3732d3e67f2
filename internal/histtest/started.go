package histtest

import (
	"math"
	"math/rand/v2"

	"github.com/seed347100a3/tsdb/histogram"
)

// EachStarted calls f with n samples of one series, floats by their bits, whose start timestamps
// come, stay, change and go; 0: there is none.
func EachStarted(r *rand.Rand, n int, f func(st, t int64, v uint64)) {
	st, t, v := int64(0), 1_700_000_000_000+int64(r.IntN(1000)), uint64(0)
	first := r.IntN(200) // with a start timestamp; maybe none
	for i := range n {
		t += []int64{15_000, 15_000, 15_000, 15_001, 1, 70_000, 3_000_000}[r.IntN(7)]
		switch r.IntN(6) {
		case 0:
			v = math.Float64bits(r.NormFloat64())
		case 1:
			v = math.Float64bits(float64(r.IntN(100)))
		case 2:
			v = r.Uint64()
		case 3:
			v = histogram.StaleNaN
		}
		if i >= first && r.IntN(9) == 0 {
			st = []int64{0, t - 1000, t, t + 5, math.MinInt64, math.MaxInt64, int64(r.Uint64())}[r.IntN(7)]
		}
		f(st, t, v)
	}
}
