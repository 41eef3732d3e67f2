package bench

import (
	"context"
	"math"
	"math/bits"

	"github.com/pkg/errors"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/seed347100a3/tsdb"
	ourchunkenc "github.com/seed347100a3/tsdb/chunkenc"
	ourhistogram "github.com/seed347100a3/tsdb/histogram"
	ourlabels "github.com/seed347100a3/tsdb/labels"
)

// Histograms have buckets side by side, around 1, and a zero bucket that stays empty.
const (
	histogramSchema = 3
	zeroThreshold   = 1e-128
	// perScrape is how many observations a series has from one scrape to the next, on average.
	perScrape = 32
)

// observed is one histogram: what is the same in both engines.
type observed struct {
	count  uint64
	sum    float64
	deltas []int64 // of neighbouring buckets
}

// observations makes the histograms of some series: counters whose buckets grow the more the nearer
// to the middle they are.
type observations struct {
	buckets int
	counts  [][]int64
	sums    []float64
	random  *values
}

func newObservations(series, buckets int) *observations {
	o := &observations{buckets: buckets, counts: make([][]int64, series), sums: make([]float64, series), random: newValues(1, seed)}
	for i := range o.counts {
		o.counts[i] = make([]int64, buckets)
		for k := range o.counts[i] {
			o.counts[i][k] = 1 // all buckets are there from the first scrape on
		}
	}
	return o
}

// scrapes makes the next ones.
func (o *observations) scrapes(n int) [][]observed {
	all := make([][]observed, n)
	for k := range all {
		all[k] = make([]observed, len(o.counts))
		for i := range all[k] {
			all[k][i] = o.next(i)
		}
	}
	return all
}

func (o *observations) next(i int) observed {
	counts := o.counts[i]
	for range o.random.random() % (2 * perScrape) {
		// The bits that are set of 64 lie around 32.
		k := bits.OnesCount64(o.random.random()) - 32
		counts[min(max(k*o.buckets/32+o.buckets/2, 0), o.buckets-1)]++
		o.sums[i] += float64(o.random.random()>>40) / (1 << 24)
	}
	h := observed{sum: o.sums[i], deltas: make([]int64, len(counts))}
	before := int64(0)
	for k, n := range counts {
		h.deltas[k], before = n-before, n
		h.count += uint64(n)
	}
	return h
}

func (o *ours) prepare(scrapes [][]observed) {
	o.histograms = make([][]*ourhistogram.Histogram, len(scrapes))
	for k, scrape := range scrapes {
		for _, h := range scrape {
			span := ourhistogram.Span{Offset: -int32(len(h.deltas) / 2), Length: uint32(len(h.deltas))}
			o.histograms[k] = append(o.histograms[k], &ourhistogram.Histogram{
				Schema: histogramSchema, ZeroThreshold: zeroThreshold, Count: h.count, Sum: h.sum,
				PositiveSpans: []ourhistogram.Span{span}, PositiveBuckets: h.deltas,
			})
		}
	}
}

func (o *ours) createHistograms(k int, sets [][]string, t int64, perCommit int) error {
	o.refs = make([]tsdb.SeriesRef, len(sets))
	for from := 0; from < len(sets); from += perCommit {
		to := min(from+perCommit, len(sets))
		app := o.db.Appender()
		for i := from; i < to; i++ {
			ref, err := app.AppendSample(0, ourlabels.FromStrings(sets[i]...), tsdb.Sample{T: t, H: o.histograms[k][i]})
			if err != nil {
				return err
			}
			o.refs[i] = ref
		}
		if err := o.commit(app, to-from); err != nil {
			return err
		}
	}
	return nil
}

func (o *ours) appendHistograms(k, from, to int, t int64) error {
	app := o.db.Appender()
	for i := from; i < to; i++ {
		if _, err := app.AppendSample(o.refs[i], ourlabels.Labels{}, tsdb.Sample{T: t, H: o.histograms[k][i]}); err != nil {
			return err
		}
	}
	return o.commit(app, to-from)
}

func (o *ours) readHistograms() (res result, err error) {
	q, err := o.db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return res, err
	}
	defer func() {
		if closeErr := q.Close(); err == nil {
			err = closeErr
		}
	}()
	var it ourchunkenc.Iterator
	var h ourhistogram.Histogram
	set := q.Select(context.Background(), nil)
	for set.Next() {
		res.series++
		it = set.At().Iterator(it)
		for it.Next() == ourchunkenc.ValHistogram {
			it.AtHistogram(&h)
			res.samples++
			res.sum += math.Float64bits(h.Sum) + h.Count + uint64(h.PositiveBuckets[len(h.PositiveBuckets)-1])
		}
		if it.Err() != nil {
			return res, it.Err()
		}
	}
	return res, set.Err()
}

func (r *reference) prepare(scrapes [][]observed) {
	r.histograms = make([][]*histogram.Histogram, len(scrapes))
	for k, scrape := range scrapes {
		for _, h := range scrape {
			span := histogram.Span{Offset: -int32(len(h.deltas) / 2), Length: uint32(len(h.deltas))}
			r.histograms[k] = append(r.histograms[k], &histogram.Histogram{
				Schema: histogramSchema, ZeroThreshold: zeroThreshold, Count: h.count, Sum: h.sum,
				PositiveSpans: []histogram.Span{span}, PositiveBuckets: h.deltas,
			})
		}
	}
}

func (r *reference) createHistograms(k int, sets [][]string, t int64, perCommit int) error {
	r.refs = make([]storage.SeriesRef, len(sets))
	for from := 0; from < len(sets); from += perCommit {
		app := r.db.Appender(context.Background())
		for i := from; i < min(from+perCommit, len(sets)); i++ {
			ref, err := app.AppendHistogram(0, labels.FromStrings(sets[i]...), t, r.histograms[k][i], nil)
			if err != nil {
				return errors.Wrap(err, "append")
			}
			r.refs[i] = ref
		}
		if err := app.Commit(); err != nil {
			return errors.Wrap(err, "commit")
		}
	}
	return nil
}

func (r *reference) appendHistograms(k, from, to int, t int64) error {
	app := r.db.Appender(context.Background())
	for i := from; i < to; i++ {
		if _, err := app.AppendHistogram(r.refs[i], labels.EmptyLabels(), t, r.histograms[k][i], nil); err != nil {
			return errors.Wrap(err, "append")
		}
	}
	return errors.Wrap(app.Commit(), "commit")
}

func (r *reference) readHistograms() (res result, err error) {
	q, err := r.db.Querier(math.MinInt64, math.MaxInt64)
	if err != nil {
		return res, errors.Wrap(err, "querier")
	}
	defer func() {
		if closeErr := q.Close(); err == nil {
			err = closeErr
		}
	}()
	compiled, err := r.compile(nil)
	if err != nil {
		return res, err
	}
	var it chunkenc.Iterator
	var h *histogram.Histogram
	set := q.Select(context.Background(), false, nil, compiled...)
	for set.Next() {
		res.series++
		it = set.At().Iterator(it)
		for it.Next() == chunkenc.ValHistogram {
			_, h = it.AtHistogram(h)
			res.samples++
			res.sum += math.Float64bits(h.Sum) + h.Count + uint64(h.PositiveBuckets[len(h.PositiveBuckets)-1])
		}
		if it.Err() != nil {
			return res, errors.Wrap(it.Err(), "iterate")
		}
	}
	return res, errors.Wrap(set.Err(), "select")
}
