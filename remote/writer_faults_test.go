package remote

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// skipIfShort skips what takes many seconds.
func skipIfShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes many seconds: without -short it is run")
	}
}

// putOne commits a sample of a metric.
func putOne(t *testing.T, db *tsdb.DB, metric string, at int64) {
	t.Helper()
	app := db.Appender()
	_, err := app.Append(0, labels.FromStrings(labels.MetricName, metric), at, 1)
	require.NoError(t, err)
	_, err = app.Commit(context.Background())
	require.NoError(t, err)
}

// Exemplars go with their series, in whatever order they were appended.
func TestWriter_SendsAllExemplarsOfACommit(t *testing.T) {
	rc := newReceiver(t, nil)
	db := openDB(t, t.TempDir())
	w := startWriter(t, db, rc, nil)
	now := time.Now().UnixMilli()
	const n = 16
	put(t, db, now, make([]float64, n)...)
	app := db.Appender()
	for i := n - 1; i >= 0; i-- {
		ls := labels.FromStrings(labels.MetricName, "m", "n", fmt.Sprint(i))
		ref, err := app.Append(0, ls, now+1000, 1)
		require.NoError(t, err)
		_, err = app.AppendExemplar(ref, ls, exemplar.Exemplar{Labels: labels.FromStrings("trace", fmt.Sprint(i)), Value: 7, T: now + 1000, HasT: true})
		require.NoError(t, err)
	}
	_, err := app.Commit(context.Background())
	require.NoError(t, err)
	flush(t, w)
	require.EqualValues(t, n, w.Stats().Exemplars)
	q, err := rc.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	all, err := q.Exemplars(context.Background(), labels.Equal(labels.MetricName, "m"))
	require.NoError(t, err)
	require.Len(t, all, n)
	for _, s := range all {
		require.Equal(t, s.Labels.Get("n"), s.Exemplars[0].Labels.Get("trace"))
	}
	require.NoError(t, q.Close())
}

// History is about the first run only: who is away for longer misses nothing.
func TestWriter_AwayForLongerThanHistory(t *testing.T) {
	rc := newReceiver(t, nil)
	db := openDB(t, t.TempDir())
	history := func(o *WriterOptions) { o.History = time.Hour }
	now := time.Now().UnixMilli()
	put(t, db, now-5_400_000, 0) // older than that
	w := startWriter(t, db, rc, history)
	put(t, db, now-3_000_000, 1)
	flush(t, w)
	require.NoError(t, w.Close())
	for i := range int64(4) {
		put(t, db, now-2_900_000+i, 2)
		require.NoError(t, db.Flush(context.Background()))
	}
	w = startWriter(t, db, rc, func(o *WriterOptions) { o.History = time.Minute })
	flush(t, w)
	require.Len(t, storedSamples(t, rc.db, "m")[`{__name__="m", n="0"}`], 5)
}

// What was on its way by two shards is in doubt apart: one part may be there, and the other not.
func TestWriter_DoubtOfTwoShards(t *testing.T) {
	strict := &strictReceiver{newest: map[string]int64{}, taken: map[string]int{}}
	var dying atomic.Bool
	var came atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !dying.Load() {
			strict.ServeHTTP(w, r)
			return
		}
		if came.Add(1) == 1 { // taken, but nobody hears of it
			strict.ServeHTTP(httptest.NewRecorder(), r)
		} else {
			contentOf(r)
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	db := openDB(t, t.TempDir())
	opts := &WriterOptions{URL: server.URL, Protocol: ProtocolV1, Deadline: 10 * time.Millisecond, shards: 2}
	w, err := NewWriter(db, opts)
	require.NoError(t, err)
	dying.Store(true)
	now := time.Now().UnixMilli() - 100_000
	values := make([]float64, 64) // so many series that each shard has some, however they are hashed
	for i := range int64(5) {
		put(t, db, now+i, values...)
	}
	require.Eventually(t, func() bool { return came.Load() >= 2 }, 10*time.Second, time.Millisecond)
	w.cancel() // as a kill
	require.NoError(t, w.Close())
	dying.Store(false)
	w, err = NewWriter(db, opts)
	require.NoError(t, err)
	put(t, db, now+100, values...)
	flush(t, w)
	st := w.Stats()
	require.Zero(t, st.DroppedRefused, st)
	require.Positive(t, st.Repeated)
	require.NoError(t, w.Close())
	require.Len(t, strict.taken, len(values))
	for series, n := range strict.taken {
		require.Equal(t, 6, n, series)
	}
	require.Zero(t, strict.mixed)
}

// The file of marks becomes short again while samples come all the time.
func TestWriter_RewritesMarksUnderLoad(t *testing.T) {
	skipIfShort(t)
	rc := newReceiver(t, nil)
	db := openDB(t, t.TempDir())
	w := startWriter(t, db, rc, func(o *WriterOptions) { o.shards, o.MaxSamples = 2, 100 })
	at := time.Now().UnixMilli() - 3_600_000
	values := make([]float64, 2000)
	path := filepath.Join(db.Dir(), writerDir, defaultWriterName+".marks")
	for last, end := int64(0), time.Now().Add(time.Minute); ; at++ {
		put(t, db, at, values...)
		info, err := os.Stat(path)
		require.NoError(t, err)
		if info.Size() < last {
			break
		}
		last = info.Size()
		require.True(t, time.Now().Before(end), "%d bytes, %+v", last, w.Stats())
	}
}

// heldReceiver returns a receiver that answers nothing until it is released.
func heldReceiver(t *testing.T) (rc *receiver, release func()) {
	rc = newReceiver(t, nil)
	hold := make(chan struct{})
	rc.fail = func(int, *http.Request, http.ResponseWriter) bool {
		<-hold
		return false
	}
	return rc, sync.OnceFunc(func() { close(hold) })
}

// A series that is behind others, and comes while older windows of a backfill are under way, is in
// the last one.
func TestWriter_BackfillTakesWhatComesMeanwhile(t *testing.T) {
	rc, release := heldReceiver(t)
	defer release()
	db := openDB(t, t.TempDir())
	now := time.Now().UnixMilli()
	const hour = 3_600_000
	for i := int64(10); i >= 0; i-- {
		put(t, db, now-i*hour, 1)
	}
	w := startWriter(t, db, rc, func(o *WriterOptions) { o.History, o.MaxSamples, o.Protocol = -1, 1, ProtocolV1 })
	require.Eventually(t, func() bool { return w.Stats().Pending >= 3 }, 10*time.Second, time.Millisecond) // it is within
	from := db.Stats().AcceptsInOrderFrom
	putOne(t, db, "slow", max(from, now-10*hour+60_000))
	require.Zero(t, db.Stats().LateSamplesAppended)
	release()
	flush(t, w)
	require.Len(t, storedSamples(t, rc.db, "slow"), 1)
	requireSent(t, db, rc.db)
}

// While a receiver is away no Querier holds the head.
func TestWriter_BackfillHoldsNothingWhileNobodyTakesIt(t *testing.T) {
	skipIfShort(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	db := openDB(t, t.TempDir())
	at := time.Now().UnixMilli() - 3_600_000
	for range 10 {
		at++
		put(t, db, at, 1, 2, 3)
	}
	w, err := NewWriter(db, &WriterOptions{URL: server.URL, History: -1, MaxSamples: 2})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.Stats().Pending >= 4 && db.Stats().QueriersOpen == 0 }, 3*backfillPatience, 10*time.Millisecond)
	require.NoError(t, w.Close())
}

// One error of the disk costs a second.
func TestWriter_GoesOnAfterAnErrorOfTheDisk(t *testing.T) {
	rc := newReceiver(t, nil)
	disk := faultfs.New(fileutil.OS)
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{FS: disk})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	w := startWriter(t, db, rc, nil)
	now := time.Now().UnixMilli()
	put(t, db, now, 1)
	flush(t, w)
	disk.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpReadAt}, Err: syscall.EIO, Match: func(op tsdbtest.Op) bool { return strings.Contains(op.Name, "wal") }})
	put(t, db, now+1, 2)
	flush(t, w)
	require.NotEmpty(t, disk.Hits())
	requireSent(t, db, rc.db)
	require.NoError(t, w.Close())
}

// A block that cannot be read costs what is in it.
func TestWriter_LeavesOutADamagedBlock(t *testing.T) {
	rc := newReceiver(t, nil)
	dir := t.TempDir()
	db := openDB(t, dir)
	now := time.Now().UnixMilli()
	putOne(t, db, "lost", now-20*3_600_000)
	require.NoError(t, db.Flush(context.Background()))
	require.NoError(t, db.Close())
	indexes, err := filepath.Glob(filepath.Join(dir, "01*", "index"))
	require.NoError(t, err)
	require.Len(t, indexes, 1)
	content, err := os.ReadFile(indexes[0])
	require.NoError(t, err)
	content[len(content)/2] ^= 0x55
	require.NoError(t, os.WriteFile(indexes[0], content, 0o644))
	db = openDB(t, dir)
	put(t, db, now, 1)
	w := startWriter(t, db, rc, func(o *WriterOptions) { o.History = -1 })
	put(t, db, now+1, 2)
	flush(t, w)
	require.Len(t, storedSamples(t, rc.db, "m")[`{__name__="m", n="0"}`], 2)
	require.NoError(t, w.Close())
}

// Whoever waits for samples that cannot be sent any more is told so.
func TestWriter_FlushOfAClosedDatabase(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	db := openDB(t, t.TempDir())
	w, err := NewWriter(db, &WriterOptions{URL: server.URL, Deadline: time.Millisecond})
	require.NoError(t, err)
	put(t, db, time.Now().UnixMilli(), 1)
	require.Eventually(t, func() bool { return w.Stats().Retries > 0 }, 10*time.Second, time.Millisecond)
	require.NoError(t, db.Close())
	require.ErrorIs(t, w.Flush(context.Background()), tsdb.ErrClosed)
	require.NoError(t, w.Close())
}

// The lag is that of what waits, also behind a restart.
func TestWriter_Lag(t *testing.T) {
	rc := newReceiver(t, nil)
	db := openDB(t, t.TempDir())
	w := startWriter(t, db, rc, nil)
	now := time.Now().UnixMilli()
	put(t, db, now, 1)
	flush(t, w)
	require.NoError(t, w.Close())
	w = startWriter(t, db, rc, nil)
	require.Equal(t, [2]int64{now, now}, [2]int64{w.Stats().NewestTaken, w.Stats().NewestSent})
	rc.fail = func(_ int, _ *http.Request, w http.ResponseWriter) bool {
		w.WriteHeader(http.StatusServiceUnavailable)
		return true
	}
	put(t, db, now+5000, 1)
	require.Eventually(t, func() bool { return w.Stats().Failing != "" }, 10*time.Second, time.Millisecond)
	require.Equal(t, [2]int64{now + 5000, now}, [2]int64{w.Stats().NewestTaken, w.Stats().NewestSent})
}

// An answer counts once its headers are there.
func TestWriter_AnswerWithoutAnEnd(t *testing.T) {
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		contentOf(r)
		n.Add(1)
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush() // the test sees what comes of it
		<-r.Context().Done()
	}))
	defer server.Close()
	db := openDB(t, t.TempDir())
	w, err := NewWriter(db, &WriterOptions{URL: server.URL, Deadline: time.Millisecond, Timeout: time.Second, Protocol: ProtocolV1})
	require.NoError(t, err)
	put(t, db, time.Now().UnixMilli(), 1)
	flush(t, w)
	require.EqualValues(t, 1, n.Load())
	require.EqualValues(t, 1, w.Stats().Samples)
	require.NoError(t, w.Close())
}

// After a clock that was ahead, and what came of it was deleted, new series are sent as before.
func TestWriter_ClockThatWasAhead(t *testing.T) {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Limits: tsdb.Limits{MaxFuture: -1}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	rc := newReceiver(t, nil)
	now := time.Now().UnixMilli()
	const year = 365 * 24 * 3_600_000
	put(t, db, now, 1)
	put(t, db, now+year, 2)
	require.NoError(t, db.Flush(context.Background()))
	w := startWriter(t, db, rc, nil)
	flush(t, w)
	require.NoError(t, db.Delete(context.Background(), now+1, math.MaxInt64))
	putOne(t, db, "new", now+5000)
	put(t, db, now+5000, 3) // a receiver would not take it behind the one of next year
	flush(t, w)
	require.Len(t, storedSamples(t, rc.db, "new"), 1)
	require.EqualValues(t, 1, w.Stats().DroppedLate)
	require.NoError(t, w.Close())
}

// What is too large for a receiver is sent in parts, which are smaller.
func TestWriter_TooLarge(t *testing.T) {
	for _, protocol := range []WriterProtocol{ProtocolV1, ProtocolV2} {
		rc := newReceiver(t, nil)
		rc.fail = func(n int, _ *http.Request, w http.ResponseWriter) bool {
			rc.mu.Lock()
			size := len(rc.bodies[n-1])
			rc.mu.Unlock()
			if size > 150_000 {
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				return true
			}
			return false
		}
		db := openDB(t, t.TempDir())
		w := startWriter(t, db, rc, func(o *WriterOptions) { o.Protocol = protocol })
		app := db.Appender()
		now := time.Now().UnixMilli()
		for i := range 100 {
			var text strings.Builder
			for range 200 {
				fmt.Fprintf(&text, "%016x", rand.Uint64())
			}
			ls := labels.FromStrings(labels.MetricName, "m", "n", text.String())
			ref, err := app.Append(0, ls, now, float64(i))
			require.NoError(t, err)
			_, err = app.SetMetadata(ref, ls, tsdb.Metadata{Unit: "s", Help: "h"})
			require.NoError(t, err)
		}
		_, err := app.Commit(context.Background())
		require.NoError(t, err)
		flush(t, w)
		require.EqualValues(t, 100, w.Stats().Samples)
		require.Zero(t, w.Stats().DroppedRefused)
		requireSent(t, db, rc.db)
	}
}

// A receiver that calls 2.0 a bad request gets 1.0.
func TestWriter_FallsBackAfterABadRequest(t *testing.T) {
	rc := newReceiver(t, nil)
	rc.fail = func(_ int, r *http.Request, w http.ResponseWriter) bool {
		if r.Header.Get(versionHeader) != "2.0.0" {
			return false
		}
		http.Error(w, "proto: illegal wireType 7", http.StatusBadRequest)
		return true
	}
	db := openDB(t, t.TempDir())
	w := startWriter(t, db, rc, nil)
	put(t, db, time.Now().UnixMilli(), 1, 2, 3)
	flush(t, w)
	requireSent(t, db, rc.db)
	require.Zero(t, w.Stats().DroppedRefused)
}

func TestPauseOf(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, "-1": 0, "soon": 0, "9223372037": maxRetryAfter, "99999999999999999999": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		require.Equal(t, want, pauseOf(text, now), text)
	}
}

// However much is committed while a receiver is away, a Writer needs no more memory.
func TestWriter_MemoryWhileNobodyTakesAnything(t *testing.T) {
	skipIfShort(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Range: time.Hour, Manual: true}, Limits: tsdb.Limits{MaxFuture: -1}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	w, err := NewWriter(db, &WriterOptions{URL: server.URL, MaxBackoff: 50 * time.Millisecond})
	require.NoError(t, err)
	at := time.Now().UnixMilli()
	values := make([]float64, 200)
	hour := func() int64 {
		for range 240 {
			at += 15_000
			put(t, db, at, values...)
		}
		require.NoError(t, db.Flush(context.Background()))
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	hour()
	first := hour()
	last := int64(0)
	for range 5 {
		last = hour()
	}
	require.Equal(t, at, w.Stats().NewestTaken)
	t.Logf("%d KiB of heap, five hours later %d KiB; %+v", first>>10, last>>10, w.Stats())
	require.Less(t, last, first+2<<20)
	require.NoError(t, w.Close())
}
