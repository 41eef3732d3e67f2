package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
)

func TestCheckScrapes_SeesWhatIsMissingDifferentAndBeyond(t *testing.T) {
	q := openTest(t, `
		{__name__="a"} 1 1000
		{__name__="b"} 2 1000
		{__name__="a"} 3 2000
		{__name__="b"} 4 2000
		{__name__="a"} 5 3000
		{__name__="b"} 6 3000
		{__name__="a"} 7 5000`)
	sum := func(vs ...float64) (sum uint64) {
		for _, v := range vs {
			sum += checksum(v)
		}
		return sum
	}
	check, err := checkScrapes(t.Context(), q, []scrapeAck{
		{T: 1000, Samples: 2, Sum: sum(2, 1)},
		{T: 2000, Samples: 3, Sum: sum(3, 4, 9)}, // a sample is lost
		{T: 3000, Samples: 2, Sum: sum(5, 6.5)},  // a value is another one
		{T: 4000, Samples: 1, Sum: sum(8)},       // all of it is lost
	})
	require.NoError(t, err)
	require.Equal(t, demoCheck{Acknowledged: 4, Recovered: 1, Missing: 1, Different: 2, Beyond: 1, Samples: 2}, check)
}

func TestReadAcks_IgnoresALineThatTheKillCutShort(t *testing.T) {
	acks := make(chan scrapeAck, 4)
	var hello recorderHello
	text := `{"series":3,"samples":9,"mint":1,"maxt":2}` + "\n" + `{"t":5,"samples":2,"series":3,"sum":"18446744073709551615"}` + "\n" + `{"t":6,"sam`
	require.NoError(t, readAcks(strings.NewReader(text), &hello, acks))
	require.Equal(t, recorderHello{Series: 3, Samples: 9, MinT: 1, MaxT: 2}, hello)
	require.Len(t, acks, 1)
	require.Equal(t, scrapeAck{T: 5, Samples: 2, Series: 3, Sum: 1<<64 - 1}, <-acks)
	require.Error(t, readAcks(strings.NewReader("panic!\n"), &hello, acks))
	require.Error(t, readAcks(strings.NewReader(strings.Repeat("x", 2*maxAckLine)), &hello, acks))
}

func TestRateOf_IsTakenOverASecondAndSurvivesAReset(t *testing.T) {
	l := line{t: []int64{0, 400, 1000, 1400, 2400}, v: []float64{0, 40, 100, 140, 90}}
	require.Equal(t, line{t: []int64{1000, 1400, 2400}, v: []float64{100, 100, 0}}, rateOf(l))
	short := line{t: []int64{0, 100}, v: []float64{0, 10}}
	require.Equal(t, line{t: []int64{100}, v: []float64{100}}, rateOf(short), "a short run has a rate too")
	require.Empty(t, rateOf(line{t: []int64{5}, v: []float64{1}}).v)
	require.Equal(t, 15.0, increase([]float64{0, 10, 2, 5}))
}

func TestBusyLine_IsTheShareThatWasNotIdle(t *testing.T) {
	cpu := func(mode string, v ...float64) namedLine {
		return namedLine{labels: labels.FromStrings("mode", mode), line: line{t: []int64{0, 1000, 2000}, v: v}}
	}
	got := busyLine([]namedLine{cpu("idle", 0, 0.5, 1.5), cpu("iowait", 0, 0.25, 0.25), cpu("user", 7, 7.25, 7.25)})
	require.Equal(t, line{t: []int64{1000, 2000}, v: []float64{25, 0}}, got)
}

func TestMeasureDisk_CountsEachSeriesOfAllBlocksOnce(t *testing.T) {
	dir := t.TempDir()
	w, err := tsdb.NewBlockWriter(dir, nil)
	require.NoError(t, err)
	for n, names := range [][]string{{"a", "b"}, {"b", "c"}} { // a day each
		for _, name := range names {
			require.NoError(t, w.Append(labels.FromStrings(labels.MetricName, name), int64(n+1)*86_400_000, 1))
		}
		_, err := w.Flush(t.Context())
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	db, err := tsdb.Open(dir, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	m, err := measureDisk(t.Context(), db)
	require.NoError(t, err)
	require.Len(t, db.Blocks(), 2)
	require.Equal(t, 3, m.Series)
	require.EqualValues(t, 4, m.Samples)
}

func TestDurations_CountsInTheBucketsOfTheirBounds(t *testing.T) {
	var d durations
	for _, took := range []time.Duration{0, 1, 500 * time.Millisecond, time.Second, time.Second + 1, 1024 * time.Second} {
		d.observe(took)
	}
	for i := range 100 { // on the bounds, and on either side
		bound := time.Duration(histogram.Bound(durationSchema, int64(i-80)) * float64(time.Second))
		for _, took := range []time.Duration{bound - 1, bound, bound + 1} {
			d.observe(took)
		}
	}
	h := d.histogram()
	require.NoError(t, h.Validate())
	require.EqualValues(t, 6+300, h.Count)
	at := histogram.NewIndexes(h.PositiveSpans)
	n := uint64(0)
	for index, ok := at.Next(); ok; index, ok = at.Next() {
		require.Positive(t, d.counts[index])
		n += d.counts[index]
	}
	require.Equal(t, h.Count, n)
	require.GreaterOrEqual(t, d.counts[0], uint64(1), "a second is in the bucket that ends there")
	require.GreaterOrEqual(t, d.counts[1], uint64(1), "and what took longer is in the next one")
	require.GreaterOrEqual(t, d.counts[80], uint64(1))
}
