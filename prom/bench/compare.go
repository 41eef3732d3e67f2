package bench

import (
	"os"
	"slices"

	"github.com/pkg/errors"
)

// Result is what one row came to: a figure of each engine for each run.
type Result struct {
	Row    string    `json:"row"`
	Unit   string    `json:"unit"`
	Ours   []float64 `json:"tsdb"`
	Theirs []float64 `json:"prometheus"`
	Goal   float64   `json:"goal,omitempty"`
}

// Ratio is how many times the reference needs what we need: the median of the ratios
// of runs that stood next to each other.
func (r Result) Ratio() float64 {
	ratios := make([]float64, len(r.Ours))
	for i := range ratios {
		ratios[i] = r.Theirs[i] / r.Ours[i]
	}
	return Median(ratios)
}

// Spread is the largest distance of a run of ours from the median, as a part of it.
func (r Result) Spread() float64 {
	m := Median(r.Ours)
	spread := 0.0
	for _, v := range r.Ours {
		spread = max(spread, abs(v-m)/m)
	}
	return spread
}

func abs(x float64) float64 { return max(x, -x) }

// Median returns the median, the upper one of an even number.
func Median(vs []float64) float64 {
	sorted := slices.Sorted(slices.Values(vs))
	return sorted[len(sorted)/2]
}

// Measure runs one row on one engine in a temporary directory below base.
func Measure(row Row, e Engine, base string, s Sizes) (float64, error) {
	dir, err := os.MkdirTemp(base, "bench")
	if err != nil {
		return 0, errors.Wrap(err, "make directory")
	}
	defer os.RemoveAll(dir)
	v, err := row.Run(e, dir, s)
	return v, errors.WithMessagef(err, "%s: %s", e.Name, row.Name)
}
