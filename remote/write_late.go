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
func settleLate(ctx context.Context, q *writeRequest) {
	if len(q.late) == 0 {
		return
	}
	mint, maxt := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range q.late {
		mint, maxt = min(mint, q.late[i].t), max(maxt, q.late[i].t)
	}
	search := searchLate(ctx, q.h.db, mint, maxt)
	defer search.close()
	for rest := q.late; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].series.number == rest[0].series.number {
			n++
		}
		q.find(search, rest[:n])
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

// find takes the error from those samples of one series that are in the database.
func (q *writeRequest) find(search *lateSearch, late []lateSample) {
	encoded, err := q.message.appendLabels(q.series.encoded[:0], q.at(late[0].series.at))
	q.series.encoded = encoded
	if err != nil {
		return
	}
	ls, err := labels.UnsafeFromEncoded(encoded)
	if err != nil {
		return
	}
	search.find(ls, len(late), func(i int) tsdb.Sample { return q.read(&late[i]) }, func(i int) {
		late[i].err = nil
	})
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

// lateSearch looks for late samples in a database.
type lateSearch struct {
	ctx     context.Context
	querier *tsdb.Querier // nil: nothing is found
	misses  int           // series of which some sample is not there
}

// searchLate begins to look for samples between two times. Close it.
func searchLate(ctx context.Context, db Queryable, mint, maxt int64) *lateSearch {
	s := &lateSearch{ctx: ctx}
	if querier, err := db.Querier(mint, maxt); err == nil { // else all are refused, as by who does not look
		s.querier = querier
	}
	return s
}

func (s *lateSearch) close() {
	if s.querier != nil {
		_ = s.querier.Close() // what it found is found
	}
}

// find looks for n samples of one series, and tells which of them are there.
func (s *lateSearch) find(ls labels.Labels, n int, sample func(int) tsdb.Sample, found func(int)) {
	if s.querier == nil || s.misses >= maxLateMisses {
		return
	}
	series := seriesOf(s.ctx, s.querier, ls)
	if series == nil {
		s.misses++
		return
	}
	all, last := true, int64(math.MinInt64)
	it := series.Iterator(nil)
	for i := range n {
		wanted := sample(i)
		if wanted.T < last {
			it = series.Iterator(it)
		}
		if last = wanted.T; isAt(it, &wanted) {
			found(i)
		} else {
			all = false
		}
	}
	if !all {
		s.misses++
	}
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
