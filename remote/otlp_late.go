package remote

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// A request that comes again is late for all points but the newest of each series, as one of remote
// write is. Samples are made of points as these pass, so late ones are kept until all have passed,
// and looked for then.

// otlpLate is a sample that was refused because its series, or the database, is ahead of it.
type otlpLate struct {
	labels labels.Labels
	hash   uint64 // of labels
	sample tsdb.Sample
	point  int    // of the request
	metric []byte // its name as it was sent
	err    error
}

// Bounds of the memory for them.
const (
	maxLateBytes     = 4 << 20
	otlpLateOverhead = 256 // bytes of a sample beside its labels and buckets
	lateBucketBytes  = 16  // of a bucket, and its part of a span
)

// otlpLateList are those of a request.
type otlpLateList struct {
	list  []otlpLate
	bytes int
}

func (l *otlpLateList) reset() {
	clear(l.list)
	l.list, l.bytes = l.list[:0], 0
}

// keep keeps a sample, whose labels and histogram are used for another one later. false: there are
// too many.
func (l *otlpLateList) keep(late otlpLate) bool {
	if len(l.list) == maxLate || l.bytes > maxLateBytes {
		return false
	}
	l.bytes += otlpLateOverhead
	if n := len(l.list); n > 0 && l.list[n-1].labels.Equal(late.labels) {
		late.labels = l.list[n-1].labels
	} else {
		own, err := labels.FromEncoded(late.labels.AppendEncoded(nil))
		if err != nil {
			return false
		}
		late.labels = own
		l.bytes += own.SizeBytes()
	}
	late.hash = late.labels.Hash()
	if h := late.sample.H; h != nil {
		late.sample.H = h.Copy()
		l.bytes += lateBucketBytes * (len(h.PositiveBuckets) + len(h.NegativeBuckets) + len(h.CustomValues))
	}
	l.list = append(l.list, late)
	return true
}

// keepLate keeps a sample of the point under way that was refused, to look for it later. false: it
// is not late, or there are too many.
func keepLate(q *otlpRequest, ls labels.Labels, s tsdb.Sample, err error) bool {
	return isLate(err) && q.stored.late.keep(otlpLate{labels: ls, sample: s, point: len(q.points) - 1, metric: q.metric.sent, err: err})
}

// bySeries returns the numbers of all, those of a series one after the other.
func (l *otlpLateList) bySeries() []int {
	order := make([]int, len(l.list))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.list[a].hash, l.list[b].hash) })
	return order
}

// settleLateOTLP counts late samples that are in the database, and refuses points of the others.
func settleLateOTLP(ctx context.Context, q *otlpRequest) {
	list := q.stored.late.list
	if len(list) == 0 {
		return
	}
	mint, maxt := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range list {
		mint, maxt = min(mint, list[i].sample.T), max(maxt, list[i].sample.T)
	}
	search := searchLate(ctx, q.h.db, mint, maxt)
	defer search.close()
	for rest := q.stored.late.bySeries(); len(rest) > 0; {
		ls, n := list[rest[0]].labels, 1
		for n < len(rest) && list[rest[n]].labels.Equal(ls) {
			n++
		}
		of := rest[:n]
		search.find(ls, n, func(i int) tsdb.Sample { return list[of[i]].sample }, func(i int) { list[of[i]].err = nil })
		rest = rest[n:]
	}
	for i := range list {
		if l := &list[i]; l.err == nil {
			q.stored.samples++
		} else {
			q.refusePoint(l.point, l.metric, l.err)
		}
	}
}
