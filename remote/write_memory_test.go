package remote

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// floatsBody is a request with very many floats of one series.
func floatsBody(name string, n int) []byte {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	series := encodePairs(nil, []string{labels.MetricName, name})
	for i := range int64(n) {
		series = appendPart(series, 2, appendInt(putDouble(nil, 1, r.Float64()), 2, writeNewest+i))
	}
	return snappy.Encode(nil, appendPart(nil, 1, series))
}

// seriesBody is a request with one float of very many series.
func seriesBody(n int) []byte {
	var b []byte
	for i := range n {
		b = append(b, encodeV1(sentSeries{pairs: []string{labels.MetricName, "new", "i", fmt.Sprint(i)}, samples: []tsdb.Sample{at(writeNewest, 1)}})...)
	}
	return snappy.Encode(nil, b)
}

// peaks are the most memory that was taken while something ran, and that lived, above what is there
// in the end. The collector runs all the time meanwhile.
func peaks(memory *requestMemory, f func()) (taken, lived int64) {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	done := make(chan struct{})
	var m runtime.MemStats
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
			}
			taken = max(taken, memory.taken.Load())
			runtime.ReadMemStats(&m)
			lived = max(lived, int64(m.HeapAlloc))
		}
	})
	f()
	close(done)
	watch.Wait()
	runtime.GC()
	runtime.GC() // pools
	runtime.ReadMemStats(&m)
	return taken, lived - int64(m.HeapAlloc)
}

// What is taken for a request is at least what it needs, of whatever it is made; and that is no
// more than a few times what it says.
func TestWriteMemory_IsThatOfTheRequest(t *testing.T) {
	if underRace() {
		t.Skip("everything takes more")
	}
	var histograms sentSeries
	histograms.pairs = []string{labels.MetricName, "h"}
	for i := range int64(100_000) {
		histograms.histograms = append(histograms.histograms, tsdb.Sample{T: writeNewest + i, H: some(i)})
	}
	for what, test := range map[string]struct {
		body []byte
		most int64 // bytes that are taken
	}{
		"floats":     {floatsBody("floats", 1_200_000), 180 << 20},
		"series":     {seriesBody(200_000), 140 << 20},
		"histograms": {snappy.Encode(nil, encodeV1(histograms)), 120 << 20},
	} {
		t.Run(what, func(t *testing.T) {
			db := openDB(t, t.TempDir())
			h := NewWriteHandler(db, &WriteOptions{MaxFuture: -1})
			taken, lived := peaks(&h.memory, func() {
				w := sendBody(h, writeMediaType, test.body)
				require.Equal(t, http.StatusNoContent, w.Code, w.Body)
			})
			t.Logf("%.1f MB of body: %.1f were taken, %.1f lived", float64(len(test.body))/1e6, float64(taken)/1e6, float64(lived)/1e6)
			require.LessOrEqual(t, lived, taken*5/4, "some of it is garbage")
			require.LessOrEqual(t, taken, test.most)
			require.Zero(t, h.memory.taken.Load())
		})
	}
}

// A large request is not copied as it grows, and what it needed is not kept.
func TestWrite_OfVeryManyFloatsAllocatesLittle(t *testing.T) {
	if underRace() {
		t.Skip("everything takes more")
	}
	db := openDB(t, t.TempDir())
	h := NewWriteHandler(db, &WriteOptions{MaxFuture: -1})
	body := floatsBody("a", 1_200_000)
	n := allocated(func() { require.Equal(t, http.StatusNoContent, sendBody(h, writeMediaType, body).Code) })
	t.Logf("%d MB for %d MB of body", n>>20, len(body)>>20)
	require.Less(t, n, uint64(250<<20))
	for range 8 {
		q := h.requests.Get().(*writeRequest)
		require.LessOrEqual(t, cap(q.content)+q.staged.sizeBytes(), keptBytes)
	}
}

// Many large requests at a time take what they may together, and no more. Those that there is no
// room for come again, and all are stored.
func TestWriteMemory_IsBoundedForAllTogether(t *testing.T) {
	const senders, most, floats = 8, 48 << 20, 100_000
	db := openDB(t, t.TempDir())
	h := NewWriteHandler(db, &WriteOptions{MaxFuture: -1, MaxMemoryBytes: most})
	var bodies [senders][]byte
	for i := range bodies {
		bodies[i] = floatsBody(fmt.Sprint("m", i), floats)
	}
	var busy [senders]int
	taken, lived := peaks(&h.memory, func() {
		var group sync.WaitGroup
		for i, body := range bodies {
			group.Go(func() {
				for {
					w := sendBody(h, writeMediaType, body)
					if w.Code == http.StatusNoContent {
						return
					}
					if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != retryAfter {
						t.Error(w.Code, w.Header(), w.Body)
						return
					}
					busy[i]++
					<-time.After(5 * time.Millisecond)
				}
			})
		}
		group.Wait()
	})
	t.Logf("%.1f MB were taken, %.1f lived, %v were told to come again", float64(taken)/1e6, float64(lived)/1e6, busy)
	require.LessOrEqual(t, taken, int64(most))
	require.Greater(t, taken, int64(most/4))
	if !underRace() {
		require.LessOrEqual(t, lived, int64(most*5/4), "some of it is garbage")
	}
	require.NotEqual(t, [senders]int{}, busy)
	require.Zero(t, h.memory.taken.Load())
	for i := range bodies {
		name := fmt.Sprint("m", i)
		require.Len(t, storedSamples(t, db, name)[`{__name__="`+name+`"}`], floats)
	}
}

// standing is a database in which series of the metric "stands" are not made until the gate opens.
// At each of them something is told.
func standing(t *testing.T) (db *tsdb.DB, opts WriteOptions, told <-chan struct{}, open func()) {
	t.Helper()
	stands, gate := make(chan struct{}, 100), make(chan struct{})
	limits := tsdb.Limits{NewSeries: func(ls labels.Labels) error {
		if ls.Get(labels.MetricName) == "stands" {
			stands <- struct{}{}
			<-gate
		}
		return nil
	}}
	db, clock := openForWrites(t, tsdb.Options{Limits: limits})
	return db, WriteOptions{Clock: clock, MaxFuture: -1}, stands, sync.OnceFunc(func() { close(gate) })
}

// standingBody is a heavy request that stands still at its series.
func standingBody(i int) []byte {
	message := encodeV1(sentSeries{pairs: []string{labels.MetricName, "stands", "i", fmt.Sprint(i)}, samples: []tsdb.Sample{at(writeNewest, 1)}})
	return snappy.Encode(nil, appendPart(message, 9, make([]byte, lightContent))) // nobody knows field 9
}

// However many large requests are under way, or wait, a small one is answered; and a large one
// finds no place among those that are kept for small ones.
func TestWrite_ASmallRequestDoesNotWaitForLargeOnes(t *testing.T) {
	for _, inFlight := range []int{2, 4, 20} {
		db, opts, told, open := standing(t)
		opts.MaxInFlight, opts.ReadTimeout = inFlight, 10*time.Second
		h := NewWriteHandler(db, &opts)
		var group sync.WaitGroup
		for i := range inFlight + 3 {
			group.Go(func() {
				if w := sendBody(h, writeMediaType, standingBody(i)); w.Code != http.StatusNoContent {
					t.Error(w.Code, w.Body)
				}
			})
		}
		places := inFlight - max(1, inFlight/4)
		for range places {
			<-told
		}
		for i := range int64(10) {
			w := send(h, writeMediaType, encodeV1(one("small", at(writeNewest+i, 1))))
			requireWritten(t, w, writeV1, http.StatusNoContent, "")
		}
		require.Empty(t, told, "as many large ones as may be")
		open()
		group.Wait()
		require.Empty(t, h.slots.all)
		require.Empty(t, h.slots.heavy)
	}
}

// When large requests have all the memory that they may, one more is told to come again, and a
// small one is stored.
func TestWrite_MemoryIsKeptForSmallRequests(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock})
	others := memoryShare{of: &h.memory}
	for others.take(1<<20) == nil {
	}
	large := floatsBody("large", 100_000)
	w := sendBody(h, writeMediaType, large)
	require.Equal(t, http.StatusServiceUnavailable, w.Code, w.Body)
	require.Equal(t, retryAfter, w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), "too many writes")
	for i := range int64(10) {
		requireWritten(t, send(h, writeMediaType, encodeV1(one("small", at(writeNewest+i, 1)))), writeV1, http.StatusNoContent, "")
	}
	others.end()
	require.Equal(t, http.StatusNoContent, sendBody(h, writeMediaType, large).Code)
	require.Zero(t, h.memory.taken.Load())
	require.Equal(t, uint64(1), h.Stats().Requests[http.StatusServiceUnavailable])
}

// A request that alone needs more than all may have is told so for good, wherever that is found.
func TestWrite_OfMoreThanThereIsMemoryFor(t *testing.T) {
	db, clock := openForWrites(t, tsdb.Options{})
	random := make([]byte, 1<<20)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	var empty []byte // items of two bytes
	for range 400_000 {
		empty = append(empty, 2<<3|2, 0)
	}
	for what, test := range map[string]struct {
		most int64
		body []byte
	}{
		"body":                 {512 << 10, random},
		"content":              {512 << 10, snappy.Encode(nil, make([]byte, 1<<20))},
		"samples of a heavy":   {8 << 20, floatsBody("a", 100_000)},
		"samples of a light":   {8 << 20, snappy.Encode(nil, appendPart(nil, 1, append(encodePairs(nil, []string{labels.MetricName, "a"}), empty...)))},
		"samples beforehand":   {2 << 20, snappy.Encode(nil, encodeV1(one("a", make([]tsdb.Sample, 50_000)...)))},
		"what waits of bodies": {-1, random},
	} {
		opts := &WriteOptions{Clock: clock, MaxMemoryBytes: test.most}
		if test.most < 0 {
			opts.MaxBufferedBytes = 512 << 10
		}
		h := NewWriteHandler(db, opts)
		before := db.Stats().SamplesAppended
		w := sendBody(h, writeMediaType, test.body)
		require.Equal(t, http.StatusRequestEntityTooLarge, w.Code, "%s: %s", what, w.Body)
		require.Regexp(t, `^[0-9]+ bytes or more, one may have [0-9]+: send less at a time: request takes too much memory\n$`, w.Body.String())
		require.Empty(t, w.Header().Get("Retry-After"))
		require.Equal(t, before, db.Stats().SamplesAppended)
		require.Zero(t, h.memory.taken.Load(), what)
		require.Zero(t, h.buffered.taken.Load(), what)
		requireWritten(t, send(h, writeMediaType, encodeV1(one("small", at(writeNewest, 1)))), writeV1, http.StatusNoContent, "")
	}
	require.Empty(t, storedSamples(t, db, "a"))
}

// A help that is sent once is kept for each series that refers to it, and counts as often.
func TestWrite_OfAHelpThatManyShare(t *testing.T) {
	request := func(help, series int) []byte {
		list := make([]sentSeries, series)
		for i := range list {
			list[i] = sentSeries{pairs: []string{labels.MetricName, "m", "i", fmt.Sprint(i)}, samples: []tsdb.Sample{at(writeNewest, 1)}}
			list[i].meta.Help = strings.Repeat("h", help)
		}
		return snappy.Encode(nil, encodeV2(list...))
	}
	db, clock := openForWrites(t, tsdb.Options{})
	for what, test := range map[string]struct {
		body   []byte
		status int
		most   uint64 // bytes that are allocated
	}{
		"short":     {request(100, 20_000), http.StatusNoContent, 200 << 20},
		"long":      {request(4000, 20_000), http.StatusRequestEntityTooLarge, 100 << 20},
		"very long": {request(1<<20, 2000), http.StatusBadRequest, 600 << 20},
	} {
		h := NewWriteHandler(db, &WriteOptions{Clock: clock, MaxMemoryBytes: 64 << 20})
		n := allocated(func() {
			w := sendBody(h, writeEncoders[writeV2].contentType, test.body)
			require.Equal(t, test.status, w.Code, "%s: %s", what, w.Body)
			if test.status != http.StatusNoContent {
				require.Contains(t, w.Body.String(), "send less at a time")
			}
		})
		require.Less(t, n, test.most, what)
	}
	h := NewOTLPHandler(db, &OTLPOptions{Write: WriteOptions{Clock: clock, MaxFuture: -1, MaxMemoryBytes: 64 << 20}})
	points := make([]string, 20_000)
	for i := range points {
		points[i] = fmt.Sprintf(`{"timeUnixNano":"%d000000","asInt":"1","attributes":[{"key":"i","value":{"intValue":"%d"}}]}`, int64(writeNewest), i)
	}
	for help, want := range map[int]int{100: http.StatusOK, 4000: http.StatusRequestEntityTooLarge} {
		status, body := sendOTLPText(h, fmt.Sprintf(`{"name":"g","description":%q,"gauge":{"dataPoints":[%s]}}`, strings.Repeat("h", help), strings.Join(points, ",")))
		require.Equal(t, want, status, body)
	}
}

// However a request ends, nothing is held behind it.
func TestWriteMemory_IsGivenBack(t *testing.T) {
	limits := tsdb.Limits{NewSeries: func(ls labels.Labels) error {
		if ls.Get(labels.MetricName) == "panics" {
			panic("rule")
		}
		return nil
	}}
	db, clock := openForWrites(t, tsdb.Options{Limits: limits})
	long := make([]tsdb.Sample, 80_000)
	for i := range long {
		long[i] = at(writeNewest+int64(i), 1)
	}
	for _, heavy := range []bool{false, true} {
		more := sentSeries{pairs: []string{labels.MetricName, "more"}, samples: long[:10]}
		if heavy {
			more.samples = long
		}
		for what, message := range map[string][]byte{
			"good":      encodeV1(more),
			"refused":   encodeV1(more, one("")),
			"malformed": append(encodeV1(more), 0xff),
			"panics":    encodeV1(more, one("panics", at(writeNewest, 1))),
		} {
			h := NewWriteHandler(db, &WriteOptions{Clock: clock, MaxFuture: -1})
			func() {
				defer func() { _ = recover() }()
				w := send(h, writeMediaType, message)
				require.NotEqual(t, http.StatusServiceUnavailable, w.Code, what)
			}()
			require.Zero(t, h.memory.taken.Load(), what)
			require.Zero(t, h.buffered.taken.Load(), what)
			require.Empty(t, h.slots.all, what)
			require.Empty(t, h.slots.heavy, what)
		}
	}
}

// What is found to weigh beforehand is what it weighs.
func TestWeigh_IsTheWeight(t *testing.T) {
	list := make([]sentSeries, 3)
	for i := range list {
		list[i] = one(fmt.Sprint("w", i), at(writeNewest, 1), at(writeNewest+1, 2))
		list[i].histograms = []tsdb.Sample{{T: writeNewest + 2, H: some(3)}}
		list[i].exemplars = []sentExemplar{{[]string{"trace_id", "x"}, writeNewest, 1}}
	}
	eachVersion(t, tsdb.Options{}, func(t *testing.T, db *tsdb.DB, _ http.Handler, i int) {
		v := writeEncoders[i]
		message := v.encode(list...)
		if v.version == writeV1 {
			message = appendPart(message, 3, appendString(appendInt(nil, 1, 1), 2, "w1"))
		}
		var l load
		samples := l.weigh(message, v.version)
		require.Equal(t, 3*3, samples)
		q := &writeRequest{h: NewWriteHandler(db, &WriteOptions{MaxFuture: -1}), content: message}
		memory := anyMemory()
		require.NoError(t, q.store(t.Context(), v.version, memory))
		require.Equal(t, q.load.weight, l.weight)
		require.GreaterOrEqual(t, memory.has, l.bytes)
		require.GreaterOrEqual(t, q.load.bytes, l.bytes)
		if v.version == writeV1 {
			require.Equal(t, q.load.bytes, l.bytes)
		}
		require.Len(t, q.staged.samples, samples)
	})
}

func TestStagedItems_SayWhereTheyWere(t *testing.T) {
	var s stagedItems
	s.reset(3)
	for number := range 3 {
		for i := range uint32(4) {
			s.add([]itemKind{itemSample, itemHistogram}[i%2], sentPlace{number, place{uint32(number), 7}}, place{1<<30 - i, 1<<30 + i})
		}
	}
	require.Len(t, s.series, 3)
	for i := range s.samples {
		require.Equal(t, sentPlace{i / 4, place{uint32(i / 4), 7}}, s.seriesOf(i))
		require.Equal(t, place{1<<30 - uint32(i%4), 1<<30 + uint32(i%4)}, s.samples[i].place())
		require.Equal(t, i%2 == 1, s.samples[i].kind() == itemHistogram)
	}
}

// What a Writer sends comes again where there is no room for it, and in halves where there never
// is. Nothing is lost.
func TestWriter_ToAReceiverWithLittleMemory(t *testing.T) {
	for _, protocol := range []WriterProtocol{ProtocolV1, ProtocolV2} {
		for what, most := range map[string]int64{"no room": 2 << 20, "too large": 1 << 20} {
			t.Run(fmt.Sprint(protocol, " ", what), func(t *testing.T) {
				rc := &receiver{db: openDB(t, t.TempDir())}
				h := NewWriteHandler(rc.db, &WriteOptions{MaxMemoryBytes: most})
				rc.Server = httptest.NewServer(h)
				t.Cleanup(rc.Close)
				if what == "no room" {
					h.memory.taken.Add(most) // as of others
				}
				db := openDB(t, t.TempDir())
				w := startWriter(t, db, rc, func(o *WriterOptions) { o.Protocol, o.MaxSamples, o.MinBackoff = protocol, 2000, time.Millisecond })
				now := time.Now().UnixMilli()
				for i := range int64(5) {
					put(t, db, now+i, make([]float64, 2000)...)
				}
				refused := http.StatusRequestEntityTooLarge
				if what == "no room" {
					refused = http.StatusServiceUnavailable
					require.Eventually(t, func() bool { return h.Stats().Requests[refused] > 1 }, 30*time.Second, time.Millisecond)
					h.memory.taken.Add(-most)
				}
				flush(t, w)
				requireSent(t, db, rc.db)
				require.NotZero(t, h.Stats().Requests[refused])
				stats := w.Stats()
				require.Equal(t, uint64(5*2000), stats.Samples)
				require.Zero(t, stats.DroppedRefused)
				require.Zero(t, h.memory.taken.Load())
			})
		}
	}
}
