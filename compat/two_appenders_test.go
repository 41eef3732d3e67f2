package compat

import (
	"context"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prometheus/prometheus/model/histogram"
	theirlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

const twoStart = int64(1_700_006_400_000)

// twoAppenders lets two appenders of the reference create a series each of n, and the one that
// was second to append commit first. It returns what the reference took.
func twoAppenders(t *testing.T, r *theirs, n int, at int64) data {
	t.Helper()
	want := data{}
	first, second := r.db.Appender(context.Background()), r.db.Appender(context.Background())
	add := func(app storage.Appender, ls theirlabels.Labels, ts int64, v float64) {
		_, err := app.Append(0, ls, ts, v)
		require.NoError(t, err)
		key := keyOfTheirs(ls)
		want[key] = append(want[key], point{ts, math.Float64bits(v)})
	}
	for i := range n {
		ls := theirlabels.FromStrings("__name__", "two", "i", fmt.Sprint(i), "at", fmt.Sprint(at))
		_, err := first.Append(0, ls, at+240_000, 1)
		require.NoError(t, err)
		add(second, ls, at+180_000, 2)
		want[keyOfTheirs(ls)] = append(want[keyOfTheirs(ls)], point{at + 240_000, math.Float64bits(1)})
	}
	require.NoError(t, second.Commit())
	require.NoError(t, first.Commit())
	return want
}

// A directory in which the reference logged samples before the record of their series: it loses
// them at its next start; here they are all there, also once the reference has it again.
func TestBackward_SamplesBeforeTheirSeriesRecord(t *testing.T) {
	for _, closed := range []bool{false, true} {
		for _, n := range []int{1, 500} {
			t.Run(fmt.Sprintf("closed %v, %d series", closed, n), func(t *testing.T) {
				dir := t.TempDir()
				r := openTheirs(t, dir)
				want := twoAppenders(t, r, n, twoStart)
				for key, ps := range twoAppenders(t, r, n, twoStart+600_000) {
					want[key] = append(want[key], ps...)
				}
				requireEqual(t, want, r.dump(), "the reference, as long as it runs")
				if closed {
					r.close()
				} else {
					dir = copyDir(t, dir)
				}

				again := openTheirs(t, copyDir(t, dir))
				lost := want.samples() - again.dump().samples()
				again.close()
				require.Equal(t, 2*n, lost, "what the reference loses; if it is nothing, it has mended this")

				db := openOurs(t, dir, func(o *tsdb.Options) { o.Blocks.Manual = true })
				requireEqual(t, want, db.dump(), "ours")
				db.requireClean()
				require.Zero(t, db.db.OpenReport().SamplesUnknown)
				report, err := tsdb.Verify(context.Background(), copyDir(t, dir), nil)
				require.NoError(t, err)
				require.True(t, report.Clean(), "%+v", report.Findings)
				require.NoError(t, db.db.Flush(context.Background()))
				db.close()
				back := openTheirs(t, dir)
				requireEqual(t, want, back.dump(), "the reference, behind us")
				back.close()
			})
		}
	}
}

// The same with two Appenders of this library: nothing is lost, here or in the reference.
func TestForward_TwoAppendersCreateOneSeries(t *testing.T) {
	for _, secondFirst := range []bool{false, true} {
		dir := t.TempDir()
		db := openOurs(t, dir)
		ls := labels.FromStrings("__name__", "two", "i", "0")
		first, second := db.db.Appender(), db.db.Appender()
		times := []int64{twoStart + 240_000, twoStart + 180_000}
		if !secondFirst {
			times[0], times[1] = times[1], times[0]
		}
		for i, app := range []*tsdb.Appender{first, second} {
			_, err := app.Append(0, ls, times[i], float64(i))
			require.NoError(t, err)
		}
		order := []*tsdb.Appender{first, second}
		if secondFirst {
			order = []*tsdb.Appender{second, first}
		}
		for _, app := range order {
			res, err := app.Commit(context.Background())
			require.NoError(t, err)
			require.Equal(t, 1, res.Samples)
		}
		require.NoError(t, db.db.Sync())
		want := db.dump()
		require.Equal(t, 2, want.samples())
		killed := copyDir(t, dir)
		db.close()
		for what, dir := range map[string]string{"closed": dir, "killed": killed} {
			r := openTheirs(t, copyDir(t, dir))
			requireEqual(t, want, r.dump(), "the reference, "+what)
			r.close()
			again := openOurs(t, dir)
			requireEqual(t, want, again.dump(), "ours, "+what)
			again.requireClean()
			again.close()
		}
	}
}

// A log with native histograms: the head becomes blocks, and the reference reads the histograms
// there.
func TestBackward_HistogramsInTheLogBecomeBlocks(t *testing.T) {
	dir := t.TempDir()
	r := openTheirs(t, dir)
	app := r.db.Appender(context.Background())
	_, err := app.Append(0, theirlabels.FromStrings("__name__", "f"), twoStart, 1)
	require.NoError(t, err)
	h := &histogram.Histogram{Count: 3, Sum: 3, ZeroThreshold: 1e-9, PositiveSpans: []histogram.Span{{Length: 1}}, PositiveBuckets: []int64{3}}
	_, err = app.AppendHistogram(0, theirlabels.FromStrings("__name__", "h"), twoStart, h, nil)
	require.NoError(t, err)
	require.NoError(t, app.Commit())
	want := r.dumpAny()
	require.Len(t, want, 2)
	r.close()

	db := openOurs(t, dir, func(o *tsdb.Options) { o.Blocks.Manual = true })
	db.requireClean()
	require.Empty(t, db.db.OpenReport().UnreadRecords)
	require.NoError(t, db.db.Health())
	f, more := newSeries("__name__", "f"), anyRow{0, tsdb.Sample{T: twoStart + 1000, V: 2}}
	db.commitAny([]series{f}, []anyRow{more})
	want.add([]series{f}, []anyRow{more})
	requireEqualAny(t, want, db.dumpAny(), "ours")
	require.Empty(t, db.db.Blocks())
	db.flush()
	require.NotEmpty(t, db.db.Blocks())
	requireEqualAny(t, want, db.dumpAny(), "ours, flushed")
	db.close()

	back := openTheirs(t, dir)
	require.NotEmpty(t, back.db.Blocks())
	requireEqualAny(t, want, back.dumpAny(), "the reference, behind us")
	back.requireUndamaged()
	back.close()
	db = openOurs(t, dir, func(o *tsdb.Options) { o.Blocks.Manual = true })
	requireEqualAny(t, want, db.dumpAny(), "ours, opened again")
}
