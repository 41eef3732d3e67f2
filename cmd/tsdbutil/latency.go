package main

import (
	"slices"
	"time"
)

// latencies collects durations; its percentiles are exact.
type latencies []time.Duration

// latencyJSON is what a benchmark tells about them, in seconds.
type latencyJSON struct {
	P50  float64 `json:"p50_seconds"`
	P90  float64 `json:"p90_seconds"`
	P99  float64 `json:"p99_seconds"`
	P999 float64 `json:"p999_seconds"`
	Max  float64 `json:"max_seconds"`
}

// summarize sorts the durations.
func (l latencies) summarize() latencyJSON {
	slices.Sort(l)
	return latencyJSON{P50: l.at(0.5), P90: l.at(0.9), P99: l.at(0.99), P999: l.at(0.999), Max: l.at(1)}
}

// at returns, in seconds, the smallest duration that the fraction q of all durations
// does not exceed.
func (l latencies) at(q float64) float64 {
	if len(l) == 0 {
		return 0
	}
	rank := int(q*float64(len(l))+0.999999) - 1
	return l[min(max(rank, 0), len(l)-1)].Seconds()
}
