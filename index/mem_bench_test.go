package index_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/labels"
)

// fleet makes the labels of series i of a fleet: ten labels, of which pod has about
// one value for 20 series.
func fleet(i int) []string {
	pod := i / 20
	return []string{
		"__name__", fmt.Sprintf("http_requests_metric_total_%d", i%20),
		"cluster", "production-eu-west-1",
		"container", fmt.Sprintf("container-%d", pod%5),
		"endpoint", "http-metrics",
		"instance", fmt.Sprintf("10.%d.%d.%d:9090", pod>>16, pod>>8&255, pod&255),
		"job", fmt.Sprintf("job-%d", pod%50),
		"namespace", fmt.Sprintf("namespace-%d", pod%30),
		"node", fmt.Sprintf("node-%d", pod%200),
		"pod", fmt.Sprintf("deployment-%d-5d4f8c7b9-%05x", pod%300, pod),
		"service", fmt.Sprintf("service-%d", pod%100),
	}
}

func newFleet(n int) *index.MemPostings {
	m := index.NewMemPostings()
	for i := range n {
		add(m, uint64(i+1), fleet(i)...)
	}
	return m
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	return ms.HeapAlloc
}

func requireSize(t *testing.T, before uint64, m *index.MemPostings) int64 {
	t.Helper()
	heap := int64(heapBytes() - before)
	t.Logf("heap %d, SizeBytes %d", heap, m.SizeBytes())
	require.InEpsilon(t, heap, m.SizeBytes(), 0.1)
	return heap
}

func TestMemPostings_KnowsItsSize(t *testing.T) {
	const n = 200_000
	before := heapBytes()
	m := newFleet(n)
	heap := requireSize(t, before, m)
	pairs, text := 0, 0
	for _, name := range m.LabelNames(nil) {
		for _, value := range m.LabelValues(name, nil) {
			pairs++
			text += len(value)
		}
	}
	t.Logf("%d pairs, %d bytes of text, %.2f bytes a posting", pairs, text, float64(heap-int64(text+40*pairs))/(10*n))
	require.LessOrEqual(t, float64(heap), float64(text)+40*float64(pairs)+2*10*n)

	gone := make([]index.Pair, 0, 10*n)
	for i := n / 4; i < n; i++ {
		gone = append(gone, intern(m, labels.FromStrings(fleet(i)...))...)
	}
	m.Remove(func(ref uint64) bool { return ref > n/4 }, gone...)
	gone = nil
	requireSize(t, before, m)
	runtime.KeepAlive(m)
}

func TestMemPostings_APairOfOneSeriesCostsFortyBytes(t *testing.T) {
	const n = 200_000
	before := heapBytes()
	m := index.NewMemPostings()
	text := 0
	for i := range n {
		value := fmt.Sprintf("user-%d", i)
		text += len(value)
		m.Add(uint64(i+1), []index.Pair{m.Intern("id", value)})
	}
	heap := requireSize(t, before, m)
	each := float64(heap-int64(text)) / n
	t.Logf("%.1f bytes a pair", each)
	require.LessOrEqual(t, each, 40.0)
	runtime.KeepAlive(m)
}

func BenchmarkMemPostings_InternKnown(b *testing.B) {
	m := newFleet(100_000)
	ls := fleet(77_777)
	b.ReportAllocs()
	for i := 0; b.Loop(); i += 2 {
		m.Intern(ls[i%20], ls[i%20+1])
	}
}

// One operation is one series of ten labels, interned and added.
func BenchmarkMemPostings_Add(b *testing.B) {
	series := make([][]string, 100_000)
	for i := range series {
		series[i] = fleet(i)
	}
	var m *index.MemPostings
	pairs := make([]index.Pair, 10)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if i%len(series) == 0 {
			m = index.NewMemPostings()
		}
		ls := series[i%len(series)]
		for j := range pairs {
			pairs[j] = m.Intern(ls[2*j], ls[2*j+1])
		}
		m.Add(uint64(i%len(series)+1), pairs)
	}
}

// fleetQueries are selections from a fleet of 100,000 series.
func fleetQueries(b *testing.B) map[string][]*labels.Matcher {
	return map[string][]*labels.Matcher{
		"equal":               {labels.Equal("__name__", "http_requests_metric_total_3")},
		"equal_equal":         {labels.Equal("__name__", "http_requests_metric_total_3"), labels.Equal("cluster", "production-eu-west-1")},
		"equal_one":           {labels.Equal("__name__", "http_requests_metric_total_3"), labels.Equal("instance", "10.0.3.4:9090")},
		"one":                 {labels.Equal("instance", "10.0.3.4:9090")},
		"equal_prefix":        {labels.Equal("__name__", "http_requests_metric_total_3"), regexp(b, "pod", "deployment-1.*")},
		"equal_prefix_narrow": {labels.Equal("__name__", "http_requests_metric_total_3"), regexp(b, "job", "job-1.*")},
		"equal_suffix":        {labels.Equal("__name__", "http_requests_metric_total_3"), regexp(b, "pod", ".*7")},
		"equal_set":           {labels.Equal("__name__", "http_requests_metric_total_3"), regexp(b, "job", "job-1|job-2|job-3")},
		"equal_not":           {labels.Equal("__name__", "http_requests_metric_total_3"), notRegexp(b, "pod", "deployment-1.*")},
		"wide_prefix":         {labels.Equal("cluster", "production-eu-west-1"), regexp(b, "pod", "deployment-1.*")},
		"prefix_equal":        {regexp(b, "pod", "deployment-1-.*"), labels.Equal("__name__", "http_requests_metric_total_3")},
		"prefix":              {regexp(b, "pod", "deployment-1.*")},
		"all":                 nil,
	}
}

func BenchmarkMemPostings_Select(b *testing.B) {
	m := newFleet(100_000)
	for name, ms := range fleetQueries(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				refs, err := m.Select(context.Background(), ms...)
				if err != nil || len(refs) == 0 {
					b.Fatal(err)
				}
				n = len(refs)
			}
			b.ReportMetric(float64(n), "refs")
		})
	}
}
