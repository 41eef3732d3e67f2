package main

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
)

// commitSeconds is the metric of how long commits took: a native histogram.
const commitSeconds = "demo_commit_seconds"

// durationSchema makes buckets of which each ends a tenth above the one before.
const durationSchema = 3

// durations counts how long something took, in buckets of durationSchema.
type durations struct {
	counts map[int64]uint64 // by the index of the bucket
	sum    float64          // seconds
	n      uint64
}

// observe counts one. What took no time at all took a nanosecond.
func (d *durations) observe(took time.Duration) {
	seconds := max(took, 1).Seconds()
	at := int64(math.Ceil(math.Ldexp(math.Log2(seconds), durationSchema)))
	for histogram.Bound(durationSchema, at) < seconds { // bounds are rounded, and so are logarithms
		at++
	}
	for histogram.Bound(durationSchema, at-1) >= seconds {
		at--
	}
	if d.counts == nil {
		d.counts = map[int64]uint64{}
	}
	d.counts[at]++
	d.sum += seconds
	d.n++
}

// histogram returns what was counted so far.
func (d *durations) histogram() *histogram.Histogram {
	h := &histogram.Histogram{Schema: durationSchema, Count: d.n, Sum: d.sum}
	var b histogram.SpanBuilder
	counts := make([]uint64, 0, len(d.counts))
	for _, at := range slices.Sorted(maps.Keys(d.counts)) {
		b.Add(at)
		counts = append(counts, d.counts[at])
	}
	h.PositiveSpans, h.PositiveBuckets = b.Spans, deltas(counts)
	return h
}

// appendCommits appends how long the commits before took.
func (r *recorder) appendCommits(a *tsdb.Appender, t int64) (sum uint64, err error) {
	h, ls := r.commits.histogram(), labels.FromStrings(labels.MetricName, commitSeconds)
	if r.commitsRef == 0 {
		if err := describe(a, ls); err != nil {
			return 0, err
		}
	}
	r.commitsRef, err = a.AppendSample(r.commitsRef, ls, tsdb.Sample{T: t, H: h})
	return digestSum(h.Digest()), err
}

// digestSum is the checksum of a histogram.
func digestSum(digest uint64) uint64 { return checksum(math.Float64frombits(digest)) }

// demoCommits is how long commits took, as the database tells it.
type demoCommits struct {
	Samples int             `json:"samples"`
	Newest  json.RawMessage `json:"newest"` // as query has it
	digest  *histogramDigest
}

// readCommits reads the histograms of the last run.
func readCommits(ctx context.Context, q *tsdb.Querier) (*demoCommits, error) {
	var bars barPlots
	reader := newSamples(0)
	for s, err := range q.Select(ctx, nil, labels.Equal(labels.MetricName, commitSeconds)).All() {
		if err != nil {
			return nil, err
		}
		bars.begin("Commits by how long they took, "+s.Labels().Get(labels.MetricName), unitSeconds)
		if err := reader.each(ctx, s, &histogramsOnly{&bars}); err != nil {
			return nil, err
		}
	}
	if len(bars.list) == 0 {
		return nil, nil
	}
	d := bars.list[0]
	return &demoCommits{Samples: d.n, Newest: appendJSONHistogram(nil, &d.newest, d.newest.buckets(nil)), digest: d}, nil
}

func (s *demoText) commits(d *demoCommits) {
	if s != nil && d != nil {
		s.c.printf("\n%s", s.c.barPlot(d.digest))
	}
}
