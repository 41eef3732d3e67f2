package remote

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/labels"
)

// openLateDB opens a database that takes late samples.
func openLateDB(t *testing.T) *tsdb.DB {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Head: tsdb.HeadOptions{MaxExemplars: 1000, OutOfOrderWindow: time.Hour}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// putTraced commits samples of a series with an exemplar beside each.
func putTraced(t *testing.T, db *tsdb.DB, times ...int64) {
	t.Helper()
	app, ls := db.Appender(), labels.FromStrings(labels.MetricName, "m", "n", "0")
	for _, at := range times {
		ref, err := app.Append(0, ls, at, float64(at))
		require.NoError(t, err)
		_, err = app.AppendExemplar(ref, ls, exemplar.Exemplar{Labels: labels.FromStrings("trace", "x"), Value: float64(at), T: at, HasT: true})
		require.NoError(t, err)
	}
	_, err := app.Commit(context.Background())
	require.NoError(t, err)
}

// runWriter sends what is to be sent, and ends.
func runWriter(t *testing.T, db *tsdb.DB, rc *receiver, meanwhile ...func()) WriterStats {
	t.Helper()
	w := startWriter(t, db, rc, func(o *WriterOptions) { o.History = -1 })
	flush(t, w)
	for _, f := range meanwhile {
		f()
		flush(t, w)
	}
	require.NoError(t, w.Close())
	require.Zero(t, w.Stats().DroppedRefused)
	return w.Stats()
}

// A sample that comes late to what is sent is not sent: not from the log, where it is counted if a
// Writer runs, and not from blocks. One that is late, but behind the mark of its series when blocks
// are read, is sent with the others in their order.
func TestWriter_LateSamples(t *testing.T) {
	rc, db := newReceiver(t, nil), openLateDB(t)
	now := time.Now().UnixMilli()
	put(t, db, now-600_000, 1)
	put(t, db, now-500_000, 2)
	put(t, db, now-550_000, 3) // late, before the first run
	st := runWriter(t, db, rc, func() {
		requireSent(t, db, rc.db)
		put(t, db, now-540_000, -1)
	})
	require.EqualValues(t, 1, st.Backfills)
	require.EqualValues(t, 3, st.Samples)
	require.EqualValues(t, 1, st.DroppedLate)

	put(t, db, now-530_000, -1) // while there is no Writer, and the log has it
	put(t, db, now-400_000, 4)
	st = runWriter(t, db, rc)
	require.Zero(t, st.Backfills)
	require.EqualValues(t, 1, st.Samples)
	require.Zero(t, st.DroppedLate, "an earlier Writer may have counted it")

	put(t, db, now-520_000, -1) // and the log does not have it any more
	put(t, db, now-300_000, 5)
	put(t, db, now-350_000, 6) // late, and behind what was sent
	require.NoError(t, db.Flush(context.Background()))
	st = runWriter(t, db, rc)
	require.EqualValues(t, 1, st.Backfills)
	require.EqualValues(t, 2, st.Samples)
	require.Zero(t, st.DroppedLate)

	var sent []float64
	for _, samples := range storedSamples(t, rc.db, "m") {
		sent = append(sent, floatsOf(samples)...)
	}
	require.Equal(t, []float64{1, 3, 2, 4, 6, 5}, sent)
	require.EqualValues(t, 5, db.Stats().LateSamplesAppended)
}

// Exemplars are sent from the log, beside a sample of their commit that is sent; what comes from
// blocks and the head comes without.
func TestWriter_ExemplarsComeFromTheLogOnly(t *testing.T) {
	rc, db := newReceiver(t, nil), openLateDB(t)
	now := time.Now().UnixMilli()
	putTraced(t, db, now-600_000)
	st := runWriter(t, db, rc, func() {
		putTraced(t, db, now-500_000)
		putTraced(t, db, now-550_000) // late
		app := db.Appender()
		_, err := app.AppendExemplar(0, labels.FromStrings(labels.MetricName, "m", "n", "0"), exemplar.Exemplar{Labels: labels.FromStrings("trace", "alone"), T: now - 450_000, HasT: true})
		require.NoError(t, err)
		_, err = app.Commit(context.Background())
		require.NoError(t, err)
	})
	require.EqualValues(t, 1, st.Backfills)
	require.EqualValues(t, 2, st.Samples)
	require.EqualValues(t, 1, st.Exemplars)

	putTraced(t, db, now-400_000) // while there is no Writer, and the log has it
	st = runWriter(t, db, rc)
	require.Zero(t, st.Backfills)
	require.EqualValues(t, 1, st.Exemplars)

	putTraced(t, db, now-300_000) // and the log does not have it any more
	require.NoError(t, db.Flush(context.Background()))
	st = runWriter(t, db, rc)
	require.EqualValues(t, 1, st.Backfills)
	require.EqualValues(t, 1, st.Samples)
	require.Zero(t, st.Exemplars)

	q, err := rc.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	all, err := q.Exemplars(context.Background(), labels.Equal(labels.MetricName, "m"))
	require.NoError(t, err)
	require.NoError(t, q.Close())
	require.Len(t, all, 1)
	var times []int64
	for _, e := range all[0].Exemplars {
		times = append(times, e.T)
	}
	require.Equal(t, []int64{now - 500_000, now - 400_000}, times)
}

// What comes late while a backfill is under way is sent if it comes to times that were not read
// yet.
func TestWriter_LateSamplesBesideABackfill(t *testing.T) {
	rc, release := heldReceiver(t)
	defer release()
	db := openLateDB(t)
	require.NoError(t, db.SetOutOfOrderWindow(24*time.Hour))
	now := time.Now().UnixMilli()
	const hour = 3_600_000
	for i := int64(10); i >= 0; i-- {
		put(t, db, now-i*hour, float64(-i))
	}
	require.NoError(t, db.Flush(context.Background())) // the head alone would be one window
	w := startWriter(t, db, rc, func(o *WriterOptions) { o.History, o.MaxSamples, o.Protocol = -1, 1, ProtocolV1 })
	require.Eventually(t, func() bool { return w.Stats().Pending >= 3 }, 10*time.Second, time.Millisecond) // it is within
	put(t, db, now-10*hour+60_000, 100)
	put(t, db, now-hour/2, 200)
	release()
	flush(t, w)
	got := floatsOf(storedSamples(t, rc.db, "m")[labels.FromStrings(labels.MetricName, "m", "n", "0").String()])
	require.Equal(t, []float64{-10, -9, -8, -7, -6, -5, -4, -3, -2, -1, 200, 0}, got)
	require.Zero(t, w.Stats().DroppedLate, "the log is read behind it")
	put(t, db, now-hour/3, 300)
	flush(t, w)
	require.EqualValues(t, 1, w.Stats().DroppedLate)
	require.NoError(t, w.Close())
}
