package tsdb_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
)

// The program of the README.
func Example() {
	db := must(tsdb.Open(must(os.MkdirTemp("", "tsdb")), nil))
	defer db.Close()

	app := db.Appender()
	room := labels.FromStrings("__name__", "temperature_celsius", "room", "kitchen")
	for i := range int64(3) {
		must(app.Append(0, room, i*1000, 20+float64(i)/2))
	}
	must(app.Commit(context.Background()))

	q := must(db.Querier(0, 10_000))
	defer q.Close()
	for series, err := range q.Select(context.Background(), nil, labels.Equal("room", "kitchen")).All() {
		fmt.Println(must(series, err).Labels())
		for it := series.Iterator(nil); it.Next() != chunkenc.ValNone; {
			fmt.Println(it.At())
		}
	}
	// Output:
	// {__name__="temperature_celsius", room="kitchen"}
	// 0 20
	// 1000 20.5
	// 2000 21
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// A scrape is one time for many series. After the first one their refs are known, and
// AppendBatch takes refs and values as they are.
func ExampleAppender_AppendBatch() {
	db := must(tsdb.Open(must(os.MkdirTemp("", "tsdb")), nil))
	defer db.Close()

	app := db.Appender()
	refs := make([]tsdb.SeriesRef, 3)
	for i := range refs {
		refs[i] = must(app.Append(0, labels.FromStrings("cpu", fmt.Sprint(i)), 1000, 0))
	}
	rejected := must(app.AppendBatch(2000, refs, []float64{0.5, 0.25, 1}, nil))
	res := must(app.Commit(context.Background()))
	fmt.Println(res.Samples, "samples,", len(rejected)+len(res.Rejected), "rejected")
	// Output: 6 samples, 0 rejected
}

// The readme's program is this package's example, line by line.
func TestReadme_ProgramIsTheExample(t *testing.T) {
	readme, source := must(os.ReadFile("README.md")), must(os.ReadFile("example_test.go"))
	_, program, _ := strings.Cut(string(readme), "func main() {\n")
	body, _, found := strings.Cut(program, "\n}\n")
	require.True(t, found)
	require.Contains(t, string(source), body)
}

// A native histogram is a sample like any other one. Beside the value a sample may say since when
// it has been counted.
func ExampleAppender_AppendSample() {
	db := must(tsdb.Open(must(os.MkdirTemp("", "tsdb")), nil))
	defer db.Close()

	app := db.Appender()
	latency := labels.FromStrings("__name__", "request_seconds")
	must(app.AppendSample(0, latency, tsdb.Sample{T: 5000, ST: 1000, H: &histogram.Histogram{
		Schema: 0, Count: 3, Sum: 5.5, // buckets end at the powers of two
		PositiveSpans:   []histogram.Span{{Offset: 1, Length: 2}},
		PositiveBuckets: []int64{2, -1}, // two observations up to 2, and one less up to 4
	}}))
	must(app.Commit(context.Background()))

	q := must(db.Querier(0, 10_000))
	defer q.Close()
	for series, err := range q.Select(context.Background(), nil, labels.Equal("__name__", "request_seconds")).All() {
		it := must(series, err).Iterator(nil)
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			var h histogram.FloatHistogram
			t := it.AtFloatHistogram(&h)
			fmt.Println(kind, "at", t, "since", it.AtST())
			for b := range h.Buckets() {
				fmt.Println(b.Count, "up to", b.Upper)
			}
		}
	}
	// Output:
	// histogram at 5000 since 1000
	// 2 up to 2
	// 1 up to 4
}

// Exemplars lead from a series to traces. They are appended beside samples, and found by the
// labels of their series and by time.
func ExampleAppender_AppendExemplar() {
	db := must(tsdb.Open(must(os.MkdirTemp("", "tsdb")), nil))
	defer db.Close()

	app := db.Appender()
	requests := labels.FromStrings("__name__", "request_seconds_bucket", "le", "0.5")
	ref := must(app.Append(0, requests, 1000, 12))
	for at, trace := range map[int64]string{900: "a9f1", 950: "77c0"} {
		must(app.AppendExemplar(ref, requests, exemplar.Exemplar{Labels: labels.FromStrings("trace_id", trace), Value: 0.4, T: at, HasT: true}))
	}
	must(app.Commit(context.Background()))

	q := must(db.Querier(0, 10_000))
	defer q.Close()
	for _, s := range must(q.Exemplars(context.Background(), labels.Equal("le", "0.5"))) {
		fmt.Println(s.Labels)
		for _, e := range s.Exemplars {
			fmt.Println(e.T, e.Value, e.Labels)
		}
	}
	// Output:
	// {__name__="request_seconds_bucket", le="0.5"}
	// 900 0.4 {trace_id="a9f1"}
	// 950 0.4 {trace_id="77c0"}
}

// What is known of a metric is set once for each of its series, and read back by matchers.
func ExampleAppender_SetMetadata() {
	db := must(tsdb.Open(must(os.MkdirTemp("", "tsdb")), nil))
	defer db.Close()

	app := db.Appender()
	ref := must(app.Append(0, labels.FromStrings("__name__", "requests_total", "job", "api"), 1000, 1))
	must(app.SetMetadata(ref, labels.Labels{}, tsdb.Metadata{Type: tsdb.MetricCounter, Unit: "requests", Help: "Requests so far."}))
	must(app.Commit(context.Background()))

	q := must(db.Querier(0, 10_000))
	defer q.Close()
	for _, m := range must(q.Metadata(context.Background(), labels.Equal("job", "api"))) {
		fmt.Println(m.Labels, m.Metadata.Type, m.Metadata.Unit, m.Metadata.Help)
	}
	// Output:
	// {__name__="requests_total", job="api"} counter requests Requests so far.
}

// A loop over the samples of a series, its newest sample, and the times between which it has some.
func ExampleSeries() {
	db := must(tsdb.Open(must(os.MkdirTemp("", "tsdb")), nil))
	defer db.Close()
	app := db.Appender()
	for i := range int64(3) {
		must(app.Append(0, labels.FromStrings("room", "kitchen"), i*1000, 20+float64(i)/2))
	}
	must(app.Commit(context.Background()))

	q := must(db.Querier(0, 10_000))
	defer q.Close()
	for series, err := range q.Select(context.Background(), nil).All() {
		if err != nil {
			log.Fatal(err)
		}
		for t, v := range series.Samples() {
			fmt.Println(t, v)
		}
		if err := series.Err(); err != nil {
			log.Fatal(err)
		}
		last, _, err := series.Last()
		fmt.Println("last:", last.T, last.V, err)
		mint, maxt, err := series.Bounds()
		fmt.Println("bounds:", mint, maxt, err)
	}
	mint, maxt, warnings, err := db.Bounds(context.Background())
	fmt.Println("of all:", mint, maxt, warnings, err)
	// Output:
	// 0 20
	// 1000 20.5
	// 2000 21
	// last: 2000 21 <nil>
	// bounds: 0 2000 <nil>
	// of all: 0 2000 [] <nil>
}

// A sample that is refused for its time says what is accepted.
func ExampleBoundsError() {
	db := must(tsdb.Open(must(os.MkdirTemp("", "tsdb")), nil))
	defer db.Close()

	_, err := db.Appender().Append(0, labels.FromStrings("room", "kitchen"), 1<<60, 20)
	var bounds *tsdb.BoundsError
	if errors.As(err, &bounds) {
		accepted := db.Stats()
		fmt.Println(bounds.T > bounds.To, bounds.From == accepted.AcceptsFrom)
	}
	// Output: true true
}

// Samples may come late: a window says how late, and LastWriteWins whether they may correct what is
// there.
func ExampleDB_SetOutOfOrderWindow() {
	opts := &tsdb.Options{}
	opts.Head.OutOfOrderWindow = time.Hour
	opts.Head.LastWriteWins = true
	db := must(tsdb.Open(must(os.MkdirTemp("", "tsdb")), opts))
	defer db.Close()

	now := time.Now().UnixMilli()
	minutesAgo := func(m int64) int64 { return now - m*60_000 }
	app := db.Appender()
	ref := must(app.Append(0, labels.FromStrings("__name__", "temperature"), now, 20))
	must(app.Commit(context.Background()))
	app = db.Appender()
	must(app.Append(ref, labels.Labels{}, minutesAgo(30), 18)) // late
	must(app.Append(ref, labels.Labels{}, minutesAgo(30), 19)) // and corrected
	_, err := app.Append(ref, labels.Labels{}, minutesAgo(90), 17)
	fmt.Println(errors.Is(err, tsdb.ErrTooOld))
	must(app.Commit(context.Background()))
	fmt.Println(db.Stats().LateSamplesAppended)

	if err := db.SetOutOfOrderWindow(2 * time.Hour); err != nil { // while it is open
		panic(err)
	}
	app = db.Appender()
	_, err = app.Append(ref, labels.Labels{}, minutesAgo(90), 17)
	fmt.Println(err)
	if err := app.Rollback(); err != nil {
		panic(err)
	}
	// Output:
	// true
	// 2
	// <nil>
}
