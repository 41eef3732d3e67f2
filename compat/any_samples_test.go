package compat

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	theirhist "github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/storage"
	theirenc "github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/itertest"
	"github.com/seed347100a3/tsdb/labels"
)

// anyPoint is a sample of any kind. Values are text, to be compared: the kind, and all that the
// value says, floats as bits and each bucket that counts something by its index. So it does not
// matter how spans are written, nor which empty buckets there are.
type anyPoint struct {
	T, ST int64
	Hint  histogram.ResetHint
	Value string
}

// anyData is all that a database has, of every kind, by the key of the series.
type anyData map[string][]anyPoint

// anyRow is one sample of any kind on its way to an engine.
type anyRow struct {
	series int // index in the set
	tsdb.Sample
}

// isMarker tells a stale marker that is a float on its way.
func (r anyRow) isMarker() bool {
	return r.H == nil && r.FH == nil && math.Float64bits(r.V) == staleMarker
}

// isStale tells a stale marker of any kind.
func (r anyRow) isStale() bool {
	return r.isMarker() || r.H != nil && r.H.Stale() || r.FH != nil && r.FH.Stale()
}

// counts is what a bucket's count may be.
type counts interface{ uint64 | float64 }

func textOfNumber[N counts](n N) string {
	if f, ok := any(n).(float64); ok {
		return fmt.Sprintf("%g(%016x)", f, math.Float64bits(f))
	}
	return fmt.Sprint(n)
}

func textOfFloat(v float64) string { return "float " + textOfNumber(v) }

func textOfBuckets[N counts](spans []histogram.Span, each []N) string {
	var b strings.Builder
	index := int64(0)
	for _, s := range spans {
		index += int64(s.Offset)
		for range s.Length {
			if each[0] != 0 {
				fmt.Fprintf(&b, " %d:%s", index, textOfNumber(each[0]))
			}
			index, each = index+1, each[1:]
		}
	}
	return fmt.Sprintf("[%s]", b.String()) + strings.Repeat(" more buckets than spans", len(each))
}

// added makes counts of the differences.
func added(deltas []int64) (counts []uint64) {
	count := int64(0)
	for _, d := range deltas {
		count += d
		counts = append(counts, uint64(count))
	}
	return counts
}

func textOfHistogram(h *histogram.Histogram) string {
	return fmt.Sprintf("histogram schema %d, zero %s: %d, count %d, sum %s, bounds %v, %s, %s",
		h.Schema, textOfNumber(h.ZeroThreshold), h.ZeroCount, h.Count, textOfNumber(h.Sum), h.CustomValues,
		textOfBuckets(h.PositiveSpans, added(h.PositiveBuckets)), textOfBuckets(h.NegativeSpans, added(h.NegativeBuckets)))
}

func textOfFloatHistogram(h *histogram.FloatHistogram) string {
	return fmt.Sprintf("float histogram schema %d, zero %s: %s, count %s, sum %s, bounds %v, %s, %s",
		h.Schema, textOfNumber(h.ZeroThreshold), textOfNumber(h.ZeroCount), textOfNumber(h.Count), textOfNumber(h.Sum), h.CustomValues,
		textOfBuckets(h.PositiveSpans, h.PositiveBuckets), textOfBuckets(h.NegativeSpans, h.NegativeBuckets))
}

func ourSpans(spans []theirhist.Span) (out []histogram.Span) {
	for _, s := range spans {
		out = append(out, histogram.Span(s))
	}
	return out
}

func ourHistogram(h *theirhist.Histogram) *histogram.Histogram {
	return &histogram.Histogram{
		Hint: histogram.ResetHint(h.CounterResetHint), Schema: h.Schema,
		ZeroThreshold: h.ZeroThreshold, ZeroCount: h.ZeroCount, Count: h.Count, Sum: h.Sum,
		PositiveSpans: ourSpans(h.PositiveSpans), NegativeSpans: ourSpans(h.NegativeSpans),
		PositiveBuckets: h.PositiveBuckets, NegativeBuckets: h.NegativeBuckets,
		CustomValues: h.CustomValues,
	}
}

func ourFloatHistogram(h *theirhist.FloatHistogram) *histogram.FloatHistogram {
	return &histogram.FloatHistogram{
		Hint: histogram.ResetHint(h.CounterResetHint), Schema: h.Schema,
		ZeroThreshold: h.ZeroThreshold, ZeroCount: h.ZeroCount, Count: h.Count, Sum: h.Sum,
		PositiveSpans: ourSpans(h.PositiveSpans), NegativeSpans: ourSpans(h.NegativeSpans),
		PositiveBuckets: h.PositiveBuckets, NegativeBuckets: h.NegativeBuckets,
		CustomValues: h.CustomValues,
	}
}

// pointOf is a sample, to be compared.
func pointOf(s tsdb.Sample) anyPoint {
	p := anyPoint{T: s.T, ST: s.ST}
	switch {
	case s.H != nil:
		p.Value, p.Hint = textOfHistogram(s.H), s.H.Hint
	case s.FH != nil:
		p.Value, p.Hint = textOfFloatHistogram(s.FH), s.FH.Hint
	default:
		p.Value = textOfFloat(s.V)
	}
	return p
}

// add puts rows into d as an engine that accepts all of them would. A stale marker says only that
// it is one, and has the kind of the sample before it if that is a histogram.
func (d anyData) add(set []series, rows []anyRow) {
	for _, r := range rows {
		key := set[r.series].key
		s := r.Sample
		var before string
		if was := d[key]; len(was) > 0 {
			before, _, _ = strings.Cut(was[len(was)-1].Value, " schema")
		}
		switch stale := r.isMarker(); {
		case s.H != nil && s.H.Stale(), stale && before == "histogram":
			s.H = &histogram.Histogram{Sum: math.Float64frombits(staleMarker)}
		case s.FH != nil && s.FH.Stale(), stale && before == "float histogram":
			s.FH = &histogram.FloatHistogram{Sum: math.Float64frombits(staleMarker)}
		}
		d[key] = append(d[key], pointOf(s))
	}
}

// gauge is p without its hint, unless that says that it is a gauge.
func (p anyPoint) gauge() anyPoint {
	if p.Hint != histogram.HintGauge {
		p.Hint = histogram.HintUnknown
	}
	return p
}

// gauges is d without hints, but for those that say that a histogram is a gauge: all others
// depend on where chunks begin.
func (d anyData) gauges() anyData {
	out := anyData{}
	for key, ps := range d {
		ps = slices.Clone(ps)
		for i := range ps {
			ps[i] = ps[i].gauge()
		}
		out[key] = ps
	}
	return out
}

// promising is d with "not reset" where it says nothing and another one does: a merge joins small
// chunks, and then knows what was between them.
func (d anyData) promising(other anyData) anyData {
	out := anyData{}
	for key, ps := range d {
		ps = slices.Clone(ps)
		for i, p := range other[key][:min(len(ps), len(other[key]))] {
			if ps[i].Hint == histogram.HintUnknown && p.Hint == histogram.HintNotReset {
				ps[i].Hint = p.Hint
			}
		}
		out[key] = ps
	}
	return out
}

// without is d without the samples of a closed range.
func (d anyData) without(mint, maxt int64) anyData {
	out := anyData{}
	for key, ps := range d {
		out[key] = slices.DeleteFunc(slices.Clone(ps), func(p anyPoint) bool { return mint <= p.T && p.T <= maxt })
	}
	return out
}

// requireEqualAny compares whole contents and shows the first place where they differ.
func requireEqualAny(t testing.TB, want, got anyData, msg string) {
	t.Helper()
	for key, w := range want {
		g := got[key]
		for i := range max(len(w), len(g)) {
			if i >= len(w) || i >= len(g) || w[i] != g[i] {
				require.FailNow(t, msg, "series %s: %d samples wanted, %d there; number %d:\nwanted %+v\nthere  %+v",
					key, len(w), len(g), i, w[i:min(i+1, len(w))], g[i:min(i+1, len(g))])
			}
		}
	}
	for key, g := range got {
		require.Equal(t, len(want[key]), len(g), "%s: series %s should not be there", msg, key)
	}
}

// commitAny appends rows in one commit.
func (r *theirs) commitAny(set []series, rows []anyRow) {
	r.t.Helper()
	app := r.db.AppenderV2(context.Background())
	for _, row := range rows {
		s, h, fh := set[row.series], (*theirhist.Histogram)(nil), (*theirhist.FloatHistogram)(nil)
		if row.H != nil {
			h = theirHistogram(row.H)
		} else if row.FH != nil {
			fh = theirFloatHistogram(row.FH)
		}
		ref, err := app.Append(r.refs[s.key], s.theirs, row.ST, row.T, row.V, h, fh, storage.AppendV2Options{})
		require.NoError(r.t, err, "%s at %d", s.key, row.T)
		r.refs[s.key] = ref
	}
	require.NoError(r.t, app.Commit())
}

// dumpAny reads everything with the reference.
func (r *theirs) dumpAny() anyData {
	r.t.Helper()
	return r.queryAny(math.MinInt64, math.MaxInt64)
}

func (r *theirs) queryAny(mint, maxt int64, ms ...matcher) anyData {
	r.t.Helper()
	q, err := r.db.Querier(mint, maxt)
	require.NoError(r.t, err)
	defer func() { require.NoError(r.t, q.Close()) }()
	return dumpTheirsAny(r.t, q, ms...)
}

// dumpTheirsAny reads what matches of a querier of the reference.
func dumpTheirsAny(t testing.TB, q storage.Querier, ms ...matcher) anyData {
	t.Helper()
	if len(ms) == 0 {
		ms = []matcher{everything}
	}
	all := anyData{}
	set := q.Select(context.Background(), true, nil, theirMatchers(t, ms)...)
	var it theirenc.Iterator
	for set.Next() {
		it = set.At().Iterator(it)
		var ps []anyPoint
		for kind := it.Next(); kind != theirenc.ValNone; kind = it.Next() {
			ps = append(ps, pointOf(theirSample(it, kind)))
		}
		require.NoError(t, it.Err())
		if len(ps) > 0 {
			all[keyOfTheirs(set.At().Labels())] = ps
		}
	}
	require.NoError(t, set.Err())
	require.Empty(t, set.Warnings())
	return all
}

// theirSample is the sample of a kind that an iterator of the reference stands on.
func theirSample(it theirenc.Iterator, kind theirenc.ValueType) tsdb.Sample {
	s := tsdb.Sample{T: it.AtT(), ST: it.AtST()}
	switch kind {
	case theirenc.ValHistogram:
		_, h := it.AtHistogram(nil)
		s.H = ourHistogram(h)
	case theirenc.ValFloatHistogram:
		_, h := it.AtFloatHistogram(nil)
		s.FH = ourFloatHistogram(h)
	default:
		_, s.V = it.At()
	}
	return s
}

// commitAny appends rows in one commit and requires that all of them are accepted.
func (o *ours) commitAny(set []series, rows []anyRow) {
	o.t.Helper()
	app := o.db.Appender()
	for _, row := range rows {
		s := set[row.series]
		ref, err := app.AppendSample(o.refs[s.key], s.ours, row.Sample)
		require.NoError(o.t, err, "%s at %d", s.key, row.T)
		o.refs[s.key] = ref
	}
	res, err := app.Commit(context.Background())
	require.NoError(o.t, err)
	require.Empty(o.t, res.Rejected)
	require.Equal(o.t, len(rows), res.Samples)
}

// dumpAny reads everything with ours.
func (o *ours) dumpAny() anyData {
	o.t.Helper()
	return o.queryAny(math.MinInt64, math.MaxInt64)
}

func (o *ours) queryAny(mint, maxt int64, ms ...matcher) anyData {
	o.t.Helper()
	q, err := o.db.Querier(mint, maxt)
	require.NoError(o.t, err)
	return dumpOursAny(o.t, q, ms...)
}

// dumpOursAny reads what matches and closes the querier.
func dumpOursAny(t testing.TB, q *tsdb.Querier, ms ...matcher) anyData {
	t.Helper()
	defer func() { require.NoError(t, q.Close()) }()
	all := anyData{}
	set := q.Select(context.Background(), nil, ourMatchers(t, ms)...)
	var it chunkenc.Iterator
	var before labels.Labels
	for set.Next() {
		ls := set.At().Labels()
		requireSorted(t, &before, ls)
		it = set.At().Iterator(it)
		ps := ourPoints(it)
		require.NoError(t, it.Err())
		if len(ps) > 0 {
			all[keyOfOurs(ls)] = ps
		}
	}
	require.NoError(t, set.Err())
	require.Empty(t, set.Warnings())
	return all
}

// ourPoints reads an iterator of ours.
func ourPoints(it chunkenc.Iterator) (ps []anyPoint) {
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		ps = append(ps, pointOf(ourSample(it, kind)))
	}
	return ps
}

// ourSample is the sample of a kind that an iterator of ours stands on.
func ourSample(it chunkenc.Iterator, kind chunkenc.ValueType) tsdb.Sample {
	s := tsdb.Sample{T: it.AtT(), ST: it.AtST()}
	if s.H, s.FH = itertest.HistogramAt(it, kind); kind == chunkenc.ValFloat {
		_, s.V = it.At()
	}
	return s
}
