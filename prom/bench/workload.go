package bench

import (
	"fmt"
	"math"
)

// Workload is what every engine is given.
type Workload struct {
	Series    int
	Samples   int // of each series
	PerCommit int // samples in a commit

	values [][]float64 // by sample number, then series; repeated when it ends
}

// Step is the time between two samples of a series, in milliseconds.
const Step = 15_000

// valueRows is how many samples have values of their own: more than two chunks.
const valueRows = 300

// NewWorkload prepares values, so that making them is not measured. A quarter each of
// the series are counters, decimal gauges, constants and noise of full precision.
func NewWorkload(series, samples, perCommit int) *Workload {
	w := &Workload{Series: series, Samples: samples, PerCommit: perCommit}
	w.values = make([][]float64, min(samples, valueRows))
	for k := range w.values {
		w.values[k] = make([]float64, series)
		for i := range w.values[k] {
			w.values[k][i] = value(i, k)
		}
	}
	return w
}

func value(i, k int) float64 {
	switch i % 4 {
	case 0:
		return float64(k * (10 + i%7))
	case 1:
		return math.Round(200*math.Sin(float64(k)/20)+float64(i%50)) / 10
	case 2:
		return 1
	default:
		x := uint64(i+1)*0x9E3779B97F4A7C15 + uint64(k)*0xBF58476D1CE4E5B9
		return float64(x>>11) / (1 << 53)
	}
}

// Row returns the values of all series at sample k.
func (w *Workload) Row(k int) []float64 { return w.values[k%len(w.values)] }

// Total is the number of all samples.
func (w *Workload) Total() int { return w.Series * w.Samples }

// Labels returns ten names and values of about 200 bytes for series i.
func Labels(i int) []string {
	return []string{
		"__name__", fmt.Sprintf("http_server_requests_duration_seconds_%d", i%100),
		"cluster", "eu-central-1-production", "namespace", fmt.Sprintf("team-%d", i%17),
		"job", "kubernetes-service-endpoints", "instance", fmt.Sprintf("10.%d.%d.17:9100", i/250%250, i%250),
		"pod", fmt.Sprintf("service-%d-7c9f8b6d5-%05d", i%50, i/50), "container", "app",
		"method", []string{"GET", "POST", "PUT"}[i%3], "status", []string{"200", "404", "500"}[i/3%3],
		"shard", fmt.Sprint(i),
	}
}
