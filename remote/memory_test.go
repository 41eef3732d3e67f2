package remote

import (
	"context"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
)

// skipShort: each of these takes a second or two, ten times that with the race detector.
func skipShort(t *testing.T) {
	t.Helper()
	if !sweep.Whole() {
		t.Skip("it reads much data, which takes seconds, and ten times that with the race detector: the long form has it")
	}
}

// liveBytes is what is reachable now. What pools keep goes with the second collection.
func liveBytes() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// peakOf returns the most that is reachable while a request is answered, above what is
// when it is not: looked at behind the first pieces and some of the later ones.
func peakOf(t *testing.T, h http.Handler, typ responseType, metric string) (peak, bytes int64) {
	t.Helper()
	request := allOf(typ, metric)
	w := newSink()
	idle, n := int64(0), 0
	w.write = func() {
		if n++; n <= 2 || n%20 == 0 {
			peak = max(peak, liveBytes()-idle)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/", bodyOf(request))
	idle = liveBytes()
	h.ServeHTTP(w, r)
	require.Equal(t, http.StatusOK, w.status)
	runtime.KeepAlive(request)
	return peak, w.bytes
}

// perRequest is what a request may have in memory, but for a byte or two a series and block,
// and eight a series of the head.
const perRequest = 1 << 20

func TestMemory_IsFlatInTheNumberOfSeries(t *testing.T) {
	// The few are longer, as an answer of one piece is looked at only when it is made.
	few, many := openBlocks(t, 100, 1920), openBlocks(t, 10_000, 240)
	for _, typ := range []responseType{typeSamples, typeChunks} {
		small, _ := peakOf(t, ReadHandler(few, nil), typ, "requests_total")
		large, bytes := peakOf(t, ReadHandler(many, nil), typ, "requests_total")
		t.Logf("%v: %d bytes for 100 series, %d for 10,000, the answer has %d", typ, small, large, bytes)
		require.Greater(t, bytes, int64(3*perRequest), "the answer is larger than what is allowed for it")
		require.Less(t, large, int64(perRequest))
		require.Less(t, large-small, int64(3*2*10_000+64<<10))
	}
}

func TestMemory_IsFlatInTheNumberOfSeriesOfTheHead(t *testing.T) {
	skipShort(t)
	opts := &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}, WAL: tsdb.WALOptions{Sync: tsdb.SyncNever()}}
	db, err := tsdb.Open(t.TempDir(), opts)
	require.NoError(t, err)
	app := db.Appender()
	for s, n := 0, 10_000; s < n; s++ {
		name, samples := "many", 50
		if s%100 == 0 {
			name, samples = "few", 500
		}
		var ref tsdb.SeriesRef
		ls := labels.FromStrings("__name__", name, "n", strconv.Itoa(s))
		for i := range samples {
			if ref, err = app.Append(ref, ls, fixtureStart+int64(i)*fixtureStep, fixtureValue(s, i)); err != nil {
				require.NoError(t, err)
			}
		}
	}
	_, err = app.Commit(context.Background())
	require.NoError(t, err)
	require.NoError(t, db.Close()) // or it would write chunks meanwhile
	db, err = tsdb.Open(db.Dir(), opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	h := ReadHandler(db, nil)
	for _, typ := range []responseType{typeSamples, typeChunks} {
		small, _ := peakOf(t, h, typ, "few")
		large, bytes := peakOf(t, h, typ, "many")
		t.Logf("%v: %d bytes for 100 series, %d for 9,900, the answer has %d", typ, small, large, bytes)
		require.Less(t, large, int64(perRequest))
		require.Less(t, large-small, int64(3*8*10_000+64<<10))
	}
}

func TestMemory_IsFlatInTheLengthOfASeries(t *testing.T) {
	skipShort(t)
	peaks := func(n int) (samples, chunks int64) {
		ts, vs := make([]int64, n), make([]float64, n)
		for i := range ts {
			ts[i], vs[i] = fixtureStart+int64(i)*1000, math.Sqrt(float64(i))
		}
		h := ReadHandler(openOne(t, ts, vs), nil)
		samples, _ = peakOf(t, h, typeSamples, "one")
		chunks, _ = peakOf(t, h, typeChunks, "one")
		runtime.KeepAlive([]any{ts, vs})
		return samples, chunks
	}
	shortSamples, shortChunks := peaks(60_000)
	longSamples, longChunks := peaks(400_000)
	t.Logf("samples: %d bytes for a short series, %d for a long one", shortSamples, longSamples)
	t.Logf("chunks: %d and %d bytes", shortChunks, longChunks)
	// What the head lists of a series, 24 bytes and more a chunk, is in memory.
	require.Less(t, longSamples-shortSamples, int64(512<<10))
	require.Less(t, longChunks, int64(3<<20), "a frame of 1 MiB behind others, with room to grow")
}

func TestMemory_IsFlatInTheNumberOfHistograms(t *testing.T) {
	skipShort(t)
	const each = 40
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}, WAL: tsdb.WALOptions{Sync: tsdb.SyncNever()}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	r := rand.New(rand.NewPCG(1, 9))
	app := db.Appender()
	for s, n := 0, 4000; s < n; s++ {
		name := "many"
		if s%20 == 0 {
			name = "few"
		}
		last := histtest.Draw(r.Int64N)
		for i := range int64(each) {
			last = histtest.Follow(r.Int64N, last)
			_, err := app.AppendSample(0, labels.FromStrings("__name__", name, "n", strconv.Itoa(s)), tsdb.Sample{T: fixtureStart + i*fixtureStep, H: last})
			require.NoError(t, err)
		}
	}
	_, err = app.Commit(context.Background())
	require.NoError(t, err)
	require.NoError(t, db.Flush(context.Background()))
	h := ReadHandler(db, nil)
	small, _ := peakOf(t, h, typeSamples, "few")
	large, bytes := peakOf(t, h, typeSamples, "many")
	t.Logf("%d bytes for 200 series, %d for 3,800, the answer has %d", small, large, bytes)
	require.Greater(t, bytes, int64(3*perRequest))
	require.Less(t, large, int64(perRequest))
	require.Less(t, large-small, int64(3*3*4000+256<<10))
}

func TestMemory_ManyReadersNeedSoManyTimesAsMuch(t *testing.T) {
	skipShort(t)
	const readers = 20
	db := openBlocks(t, 4000, 240)
	h := ReadHandler(db, &ReadOptions{MaxInFlight: readers})
	for typ, pieces := range map[responseType]int{typeSamples: 5, typeChunks: 3} {
		one, _ := peakOf(t, h, typ, "requests_total")
		var all, left sync.WaitGroup
		all.Add(readers)
		idle := liveBytes()
		hold := make(chan struct{})
		for range readers {
			left.Go(func() {
				w := newSink()
				n := 0
				w.write = func() {
					if n++; n == pieces {
						all.Done()
						<-hold
					}
				}
				h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bodyOf(allOf(typ, "requests_total"))))
			})
		}
		all.Wait()
		together := liveBytes() - idle
		close(hold)
		left.Wait()
		t.Logf("%v: %d bytes for one, %d for %d", typ, one, together, readers)
		require.Less(t, together, readers*(one+64<<10))
	}
}

// What is made for an answer in frames and thrown away is not much more than what it has at a time.
func TestMemory_GarbageOfFrames(t *testing.T) {
	ts, vs := make([]int64, 100_000), make([]float64, 100_000)
	for i := range ts {
		ts[i], vs[i] = fixtureStart+int64(i)*1000, math.Sqrt(float64(i))
	}
	for name, c := range map[string]struct {
		db          *tsdb.DB
		metric      string
		least, most int // bytes of the answer, of garbage
	}{
		"a short answer":  {openOne(t, ts[:100], vs[:100]), "one", 100, 64 << 10},
		"many series":     {openBlocks(t, 4000, 240), "requests_total", 4 * framesPiece, 800 << 10},
		"one long series": {openOne(t, ts, vs), "one", framesPiece, 1500 << 10},
	} {
		h := ReadHandler(c.db, nil)
		request := allOf(typeChunks, c.metric)
		answer := func() *sink {
			w := newSink()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", bodyOf(request)))
			return w
		}
		require.Greater(t, answer().bytes, int64(c.least), name)
		garbage := uint64(math.MaxUint64)
		for range 5 { // the least: what pools lose is not the answer's
			garbage = min(garbage, allocatedBy(func() { answer() }))
		}
		t.Logf("%s: %d bytes", name, garbage)
		require.Less(t, garbage, uint64(c.most), name)
	}
}
