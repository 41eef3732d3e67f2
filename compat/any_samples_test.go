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

// add puts rows into d as an engine that accepts all of them would. A stale marker says only that
// it is one, and has the kind of the sample before it if that is a histogram.
func (d anyData) add(set []series, rows []anyRow) {
	for _, r := range rows {
		key := set[r.series].key
		p := anyPoint{T: r.T, ST: r.ST}
		var before string
		if was := d[key]; len(was) > 0 {
			before, _, _ = strings.Cut(was[len(was)-1].Value, " schema")
		}
		stale := r.H == nil && r.FH == nil && math.Float64bits(r.V) == staleMarker
		switch h, fh := r.H, r.FH; {
		case h != nil && h.Stale(), stale && before == "histogram":
			p.Value = textOfHistogram(&histogram.Histogram{Sum: math.Float64frombits(staleMarker)})
		case fh != nil && fh.Stale(), stale && before == "float histogram":
			p.Value = textOfFloatHistogram(&histogram.FloatHistogram{Sum: math.Float64frombits(staleMarker)})
		case h != nil:
			p.Value, p.Hint = textOfHistogram(h), h.Hint
		case fh != nil:
			p.Value, p.Hint = textOfFloatHistogram(fh), fh.Hint
		default:
			p.Value = textOfFloat(r.V)
		}
		d[key] = append(d[key], p)
	}
}

// gauges is d without hints, but for those that say that a histogram is a gauge: all others
// depend on where chunks begin.
func (d anyData) gauges() anyData {
	out := anyData{}
	for key, ps := range d {
		ps = slices.Clone(ps)
		for i := range ps {
			if ps[i].Hint != histogram.HintGauge {
				ps[i].Hint = histogram.HintUnknown
			}
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
	q, err := r.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(r.t, err)
	defer func() { require.NoError(r.t, q.Close()) }()
	return dumpTheirsAny(r.t, q)
}

// dumpTheirsAny reads everything of a querier of the reference.
func dumpTheirsAny(t testing.TB, q storage.Querier) anyData {
	t.Helper()
	all := anyData{}
	set := q.Select(context.Background(), true, nil, theirMatchers(t, []matcher{everything})...)
	var it theirenc.Iterator
	for set.Next() {
		it = set.At().Iterator(it)
		var ps []anyPoint
		for kind := it.Next(); kind != theirenc.ValNone; kind = it.Next() {
			p := anyPoint{T: it.AtT(), ST: it.AtST()}
			switch kind {
			case theirenc.ValHistogram:
				_, h := it.AtHistogram(nil)
				p.Hint, p.Value = histogram.ResetHint(h.CounterResetHint), textOfHistogram(ourHistogram(h))
			case theirenc.ValFloatHistogram:
				_, h := it.AtFloatHistogram(nil)
				p.Hint, p.Value = histogram.ResetHint(h.CounterResetHint), textOfFloatHistogram(ourFloatHistogram(h))
			default:
				_, v := it.At()
				p.Value = textOfFloat(v)
			}
			ps = append(ps, p)
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
	q, err := o.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(o.t, err)
	return dumpOursAny(o.t, q)
}

// dumpOursAny reads everything and closes the querier.
func dumpOursAny(t testing.TB, q *tsdb.Querier) anyData {
	t.Helper()
	defer func() { require.NoError(t, q.Close()) }()
	all := anyData{}
	set := q.Select(context.Background(), nil)
	var it chunkenc.Iterator
	for set.Next() {
		it = set.At().Iterator(it)
		ps := ourPoints(it)
		require.NoError(t, it.Err())
		if len(ps) > 0 {
			all[keyOfOurs(set.At().Labels())] = ps
		}
	}
	require.NoError(t, set.Err())
	require.Empty(t, set.Warnings())
	return all
}

// ourPoints reads an iterator of ours.
func ourPoints(it chunkenc.Iterator) (ps []anyPoint) {
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		p := anyPoint{T: it.AtT(), ST: it.AtST()}
		switch kind {
		case chunkenc.ValHistogram:
			var h histogram.Histogram
			it.AtHistogram(&h)
			p.Hint, p.Value = h.Hint, textOfHistogram(&h)
		case chunkenc.ValFloatHistogram:
			var h histogram.FloatHistogram
			it.AtFloatHistogram(&h)
			p.Hint, p.Value = h.Hint, textOfFloatHistogram(&h)
		default:
			_, v := it.At()
			p.Value = textOfFloat(v)
		}
		ps = append(ps, p)
	}
	return ps
}
