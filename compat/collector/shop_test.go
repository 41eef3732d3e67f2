package collector

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// origin is the time of the first sample, in milliseconds.
const origin = int64(1_700_000_000_000)

// shop is what an instrumented program says, some seconds after it began, with samples of all
// kinds, one after the other. What it counts is a multiple of n.
func shop(after int64, n uint64) pmetric.Metrics {
	all := pmetric.NewMetrics()
	r := all.ResourceMetrics().AppendEmpty()
	for _, pair := range [][2]string{{"service.namespace", "shop"}, {"service.name", "cart"}, {"service.instance.id", "c-1"}, {"host.name", "h1"}} {
		r.Resource().Attributes().PutStr(pair[0], pair[1])
	}
	scope := r.ScopeMetrics().AppendEmpty()
	scope.Scope().SetName("lib")
	at := pcommon.Timestamp((origin + after*1000) * 1e6)
	begin := pcommon.Timestamp((origin - 60_000) * 1e6)
	add := func(name, unit, help string) pmetric.Metric {
		m := scope.Metrics().AppendEmpty()
		m.SetName(name)
		m.SetUnit(unit)
		m.SetDescription(help)
		return m
	}
	traced := func(e pmetric.Exemplar, v float64) {
		e.SetTimestamp(at - 500_000_000)
		e.SetDoubleValue(v)
		e.SetTraceID([16]byte{0xab, 15: byte(n)})
		e.SetSpanID([8]byte{7: 0xcd})
		e.FilteredAttributes().PutStr("user", "u")
	}
	counted := func(p pmetric.NumberDataPoint, v int64) pmetric.NumberDataPoint {
		p.SetTimestamp(at)
		p.SetStartTimestamp(begin)
		p.SetIntValue(v)
		return p
	}

	gauge := add("room.temperature", "Cel", "how warm it is").SetEmptyGauge()
	p := gauge.DataPoints().AppendEmpty()
	p.SetTimestamp(at)
	p.SetDoubleValue(float64(n) * 1.25)
	p.Attributes().PutStr("room.name", `a "b" ü`)
	if n > 1 {
		p.SetFlags(pmetric.DefaultDataPointFlags.WithNoRecordedValue(true))
	}

	sum := add("http.requests", "{request}", "what came").SetEmptySum()
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	sum.SetIsMonotonic(true)
	p = counted(sum.DataPoints().AppendEmpty(), int64(12*n))
	p.Attributes().PutStr("http.method", "GET")
	traced(p.Exemplars().AppendEmpty(), 1)

	sum = add("connections", "", "").SetEmptySum()
	sum.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	counted(sum.DataPoints().AppendEmpty(), -3*int64(n))

	hist := add("http.duration", "s", "how long it took").SetEmptyHistogram()
	hist.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	h := hist.DataPoints().AppendEmpty()
	h.SetTimestamp(at)
	h.SetStartTimestamp(begin)
	h.ExplicitBounds().FromRaw([]float64{0.1, 0.5})
	h.BucketCounts().FromRaw([]uint64{n, 2 * n, 3 * n})
	h.SetCount(6 * n)
	h.SetSum(4.5 * float64(n))
	traced(h.Exemplars().AppendEmpty(), 0.25)

	exp := add("body.size", "By", "how much came").SetEmptyExponentialHistogram()
	exp.SetAggregationTemporality(pmetric.AggregationTemporalityCumulative)
	e := exp.DataPoints().AppendEmpty()
	e.SetTimestamp(at)
	e.SetStartTimestamp(begin)
	e.SetScale(2)
	e.SetZeroCount(n)
	e.Positive().SetOffset(-2)
	e.Positive().BucketCounts().FromRaw([]uint64{n, 0, 0, 0, 2 * n})
	e.Negative().SetOffset(3)
	e.Negative().BucketCounts().FromRaw([]uint64{n})
	e.SetCount(5 * n)
	e.SetSum(9.5 * float64(n))
	traced(e.Exemplars().AppendEmpty(), 1.75)

	s := add("rpc.latency", "ms", "").SetEmptySummary().DataPoints().AppendEmpty()
	s.SetTimestamp(at)
	s.SetStartTimestamp(begin)
	s.SetCount(8 * n)
	s.SetSum(float64(16 * n))
	for _, quantile := range []float64{0.5, 0.99} {
		v := s.QuantileValues().AppendEmpty()
		v.SetQuantile(quantile)
		v.SetValue(quantile * 10)
	}
	return all
}

// shopStored is what is stored of shop(0, 1) and shop(15, 2).
func shopStored(t *testing.T) (all stored) {
	t.Helper()
	text, err := os.ReadFile("testdata/shop.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch kind {
		case "sample":
			all.samples = append(all.samples, rest)
		case "exemplar":
			all.exemplars = append(all.exemplars, rest)
		case "metadata":
			all.metadata = append(all.metadata, rest)
		default:
			require.Fail(t, "neither sample, exemplar nor metadata", line)
		}
	}
	return all
}

// shopStoredCustom is shopStored where the histogram with bounds is one series.
func shopStoredCustom(t *testing.T) stored {
	t.Helper()
	all := shopStored(t)
	const series = `{__name__="http_duration_seconds", instance="c-1", job="shop/cart", otel_scope_name="lib"} `
	one := func(lines []string, more ...string) []string {
		lines = slices.Concat(without(lines, "http_duration_seconds_"), more)
		slices.Sort(lines)
		return lines
	}
	all.samples = one(all.samples,
		series+"0s histogram schema -53, bounds [0.1 0.5], count 6, sum 4.5, zero 0, positive 0:1 1:2 2:3, negative, since -60s",
		series+"15s histogram schema -53, bounds [0.1 0.5], count 12, sum 9, zero 0, positive 0:2 1:4 2:6, negative, since -60s")
	all.exemplars = one(all.exemplars,
		series+`-0.5s {span_id="00000000000000cd", trace_id="ab000000000000000000000000000001", user="u"} 0.25`,
		series+`14.5s {span_id="00000000000000cd", trace_id="ab000000000000000000000000000002", user="u"} 0.25`)
	all.metadata = one(all.metadata, series+`histogram "seconds" "how long it took"`)
	return all
}
