package remote

import (
	"context"
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
)

// A request that is sent again has samples older than the newest of their series, because that was
// in the request, too: to the database they are late, although they are there. So late samples are
// looked for. To look costs more than to store, and most late samples are late: a few that are not
// there end it.
const (
	maxLate       = 1 << 16 // samples of a request that are looked for
	maxLateMisses = 8       // series of which some sample is not there
	maxNamesakes  = 64      // series with the labels of a late one, and more, that are passed over
)

// lateSample is a sample that was refused because its series, or the database, is ahead of it.
type lateSample struct {
	series sentPlace
	sample place
	t      int64
	kind   itemKind
	err    error
}

// isLate reports whether a sample was refused for a time that is past.
func isLate(err error) bool {
	if errors.Is(err, tsdb.ErrOutOfOrder) {
		return true
	}
	var bounds *tsdb.BoundsError
	return errors.As(err, &bounds) && bounds.T < bounds.From
}

// settleLate counts late samples that are in the database, and refuses the others.
func (q *writeRequest) settleLate(ctx context.Context) {
	if len(q.late) == 0 {
		return
	}
	mint, maxt := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range q.late {
		mint, maxt = min(mint, q.late[i].t), max(maxt, q.late[i].t)
	}
	misses := 0
	querier, err := q.h.db.Querier(mint, maxt)
	if err != nil {
		misses = maxLateMisses // they are refused, as they would be by who does not look
	} else {
		defer func() { _ = querier.Close() }() // what it found is found
	}
	for rest := q.late; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].series.number == rest[0].series.number {
			n++
		}
		if misses < maxLateMisses && !q.areThere(ctx, querier, rest[:n]) {
			misses++
		}
		for i := range rest[:n] {
			if l := &rest[i]; l.err == nil {
				q.written[l.kind]++
			} else {
				q.refuseSample(l)
			}
		}
		rest = rest[n:]
	}
	clear(q.late) // errors
}

// areThere takes the error from those samples of one series that are in the database, and reports
// whether all are.
func (q *writeRequest) areThere(ctx context.Context, querier *tsdb.Querier, late []lateSample) bool {
	encoded, err := q.message.appendLabels(q.series.encoded[:0], q.at(late[0].series.at))
	q.series.encoded = encoded
	if err != nil {
		return false
	}
	ls, err := labels.UnsafeFromEncoded(encoded)
	if err != nil {
		return false
	}
	series := seriesOf(ctx, querier, ls)
	if series == nil {
		return false
	}
	all, last := true, int64(math.MinInt64)
	it := series.Iterator(nil)
	for i := range late {
		l := &late[i]
		if l.t < last {
			it = series.Iterator(it)
		}
		last = l.t
		if s := q.read(l); isAt(it, &s) {
			l.err = nil
		} else {
			all = false
		}
	}
	return all
}

// read returns a late sample once more. A histogram is that of q.hist.
func (q *writeRequest) read(l *lateSample) (s tsdb.Sample) {
	message := q.at(l.sample)
	if l.kind == itemSample {
		s, _ = decodeWritten(message) // as it could be before
		return s
	}
	_ = q.hist.decode(message) // the same
	s.T = q.hist.t
	if q.hist.kind == chunkenc.ValHistogram {
		s.H = &q.hist.ints
	} else {
		s.FH = &q.hist.floats
	}
	return s
}

// seriesOf returns the series with just these labels, nil if there is none.
func seriesOf(ctx context.Context, q *tsdb.Querier, ls labels.Labels) *tsdb.Series {
	ms := make([]*labels.Matcher, 0, ls.Len())
	for l := range ls.All() {
		ms = append(ms, labels.Equal(l.Name, l.Value))
	}
	set := q.Select(ctx, nil, ms...)
	for range maxNamesakes {
		if !set.Next() {
			return nil
		}
		if s := set.At(); s.Labels().Equal(ls) {
			return s
		}
	}
	return nil
}

// isAt reports whether a series has a sample. The iterator is not behind it.
func isAt(it chunkenc.Iterator, s *tsdb.Sample) bool {
	switch kind := it.Seek(s.T); {
	case kind == chunkenc.ValNone || it.AtT() != s.T:
		return false
	case kind == chunkenc.ValHistogram && s.H != nil:
		var h histogram.Histogram
		it.AtHistogram(&h)
		return h.Digest() == s.H.Digest()
	case kind == chunkenc.ValFloatHistogram && s.FH != nil:
		var h histogram.FloatHistogram
		it.AtFloatHistogram(&h)
		return h.Digest() == s.FH.Digest()
	case kind == chunkenc.ValFloat && s.H == nil && s.FH == nil:
		_, v := it.At()
		return math.Float64bits(v) == math.Float64bits(s.V)
	case kind == chunkenc.ValHistogram && isStaleFloat(s):
		var h histogram.Histogram
		it.AtHistogram(&h)
		return h.Stale()
	case kind == chunkenc.ValFloatHistogram && isStaleFloat(s):
		var h histogram.FloatHistogram
		it.AtFloatHistogram(&h)
		return h.Stale()
	default:
		return false
	}
}

// isStaleFloat reports whether a sample is the stale marker that becomes one of histograms on a
// series of those.
func isStaleFloat(s *tsdb.Sample) bool { return s.H == nil && s.FH == nil && tsdb.IsStale(s.V) }
