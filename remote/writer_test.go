package remote

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// receiver is a database that takes remote write, with a way to misbehave.
type receiver struct {
	*httptest.Server
	db *tsdb.DB

	mu       sync.Mutex
	fail     func(n int, r *http.Request, w http.ResponseWriter) bool // whether it answered itself
	requests []*http.Request
	bodies   [][]byte
}

func newReceiver(t *testing.T, opts *WriteOptions) *receiver {
	t.Helper()
	rc := &receiver{db: openDB(t, t.TempDir())}
	h := NewWriteHandler(rc.db, opts)
	rc.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		rc.mu.Lock()
		rc.requests, rc.bodies = append(rc.requests, r), append(rc.bodies, body)
		fail, n := rc.fail, len(rc.requests)
		rc.mu.Unlock()
		if fail != nil && fail(n, r, w) {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(rc.Close)
	return rc
}

func openDB(t *testing.T, dir string) *tsdb.DB {
	t.Helper()
	db, err := tsdb.Open(dir, &tsdb.Options{Head: tsdb.HeadOptions{MaxExemplars: 1000}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() }) // a test may have closed it
	return db
}

// startWriter starts a Writer that sends soon.
func startWriter(t *testing.T, db *tsdb.DB, rc *receiver, change func(*WriterOptions)) *Writer {
	t.Helper()
	opts := &WriterOptions{URL: rc.URL, Deadline: 50 * time.Millisecond}
	if change != nil {
		change(opts)
	}
	w, err := NewWriter(db, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() }) // a test may have closed it
	return w
}

func flush(t *testing.T, w *Writer) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	require.NoError(t, w.Flush(ctx))
}

// put commits samples of series of one time.
func put(t *testing.T, db *tsdb.DB, at int64, values ...float64) {
	t.Helper()
	app := db.Appender()
	for i, v := range values {
		_, err := app.Append(0, labels.FromStrings(labels.MetricName, "m", "n", fmt.Sprint(i)), at, v)
		require.NoError(t, err)
	}
	_, err := app.Commit(context.Background())
	require.NoError(t, err)
}

func requireSent(t *testing.T, want, got *tsdb.DB) {
	t.Helper()
	require.Equal(t, storedSamples(t, want, "m"), storedSamples(t, got, "m"))
}

func TestWriter_SendsAllThatIsCommitted(t *testing.T) {
	for _, protocol := range []WriterProtocol{ProtocolV1, ProtocolV2, ProtocolAny} {
		t.Run(fmt.Sprint(protocol), func(t *testing.T) {
			rc := newReceiver(t, nil)
			db := openDB(t, t.TempDir())
			w := startWriter(t, db, rc, func(o *WriterOptions) {
				o.Protocol, o.MaxSamples = protocol, 100
				o.ExternalLabels = labels.FromStrings("region", "eu")
			})
			now := time.Now().UnixMilli()
			app := db.Appender()
			ls := func(name string) labels.Labels { return labels.FromStrings(labels.MetricName, name, "z", "1") }
			for i := range int64(300) {
				_, err := app.Append(0, ls("m"), now+i, float64(i))
				require.NoError(t, err)
			}
			h := &histogram.Histogram{Schema: 1, Count: 3, Sum: 4, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []int64{1, 1}}
			fh := &histogram.FloatHistogram{Schema: 1, Count: 3, Sum: 4, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []float64{1, 2}}
			for i := range int64(10) {
				_, err := app.AppendSample(0, ls("h"), tsdb.Sample{T: now + i, H: h})
				require.NoError(t, err)
				_, err = app.AppendSample(0, ls("f"), tsdb.Sample{T: now + i, FH: fh})
				require.NoError(t, err)
			}
			ref, err := app.SetMetadata(0, ls("m"), tsdb.Metadata{Type: tsdb.MetricCounter, Unit: "s", Help: "helps"})
			require.NoError(t, err)
			_, err = app.AppendExemplar(ref, ls("m"), exemplar.Exemplar{Labels: labels.FromStrings("trace", "x"), Value: 7, T: now, HasT: true})
			require.NoError(t, err)
			_, err = app.Commit(context.Background())
			require.NoError(t, err)
			flush(t, w)

			for _, metric := range []string{"m", "h", "f"} {
				want, got := storedSamples(t, db, metric), storedSamples(t, rc.db, metric)
				require.Len(t, got, 1)
				for key, samples := range want {
					require.NotContains(t, key, "region")
					for other, stored := range got {
						require.Contains(t, other, `region="eu"`)
						require.Equal(t, samples, stored)
					}
				}
			}
			q, err := rc.db.Querier(math.MinInt64, math.MaxInt64)
			require.NoError(t, err)
			all, err := q.Exemplars(context.Background(), labels.Equal(labels.MetricName, "m"))
			require.NoError(t, err)
			require.Len(t, all, 1)
			require.NoError(t, q.Close())
			st := w.Stats()
			require.EqualValues(t, 300, st.Samples)
			require.EqualValues(t, 20, st.Histograms)
			require.EqualValues(t, 1, st.Exemplars)
			require.Zero(t, st.DroppedRefused+st.DroppedLate+st.DroppedUnread+st.Retries)
			require.Zero(t, st.Pending)
			require.Equal(t, now+299, st.NewestSent)
			require.Equal(t, now+299, st.NewestTaken)
			require.NoError(t, w.Close())
			require.ErrorIs(t, w.Close(), tsdb.ErrClosed)
			require.ErrorIs(t, w.Flush(context.Background()), tsdb.ErrClosed)
		})
	}
}

// A Writer goes on where the last one was, whatever was committed meanwhile, flushed or not.
func TestWriter_GoesOnAfterRestarts(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			rc := newReceiver(t, nil)
			dir := t.TempDir()
			db := openDB(t, dir)
			now := time.Now().UnixMilli() - 3_600_000
			put(t, db, now-1, 100, 200) // before the first run
			w := startWriter(t, db, rc, nil)
			for i := range int64(10) {
				put(t, db, now+10*i, float64(i), float64(2*i))
				if i == 5 {
					flush(t, w)
					require.NoError(t, w.Close())
				}
				if gone && i > 5 {
					require.NoError(t, db.Flush(context.Background()))
				}
				if i == 7 {
					require.NoError(t, db.Close())
					db = openDB(t, dir)
				}
			}
			w = startWriter(t, db, rc, nil)
			flush(t, w)
			require.NoError(t, w.Close())
			got := storedSamples(t, rc.db, "m")
			for key, samples := range storedSamples(t, db, "m") {
				require.Equal(t, samples[1:], got[key], key)
			}
			require.Zero(t, w.Stats().DroppedRefused)
			require.EqualValues(t, 8, w.Stats().Samples, "nothing twice")
		})
	}
}

func TestWriter_SendsHistory(t *testing.T) {
	rc := newReceiver(t, nil)
	db := openDB(t, t.TempDir())
	now := time.Now().UnixMilli()
	for i := range int64(10) {
		put(t, db, now-(10-i)*600_000, float64(i), 1)
		if i == 5 {
			require.NoError(t, db.Flush(context.Background()))
		}
	}
	w := startWriter(t, db, rc, func(o *WriterOptions) { o.History = -1 })
	put(t, db, now, 7, 7)
	flush(t, w)
	requireSent(t, db, rc.db)
	require.EqualValues(t, 1, w.Stats().Backfills)
}

// Receivers fail in all ways, and in the end everything is there.
func TestWriter_RepeatsWhatFails(t *testing.T) {
	for name, fail := range map[string]func(w http.ResponseWriter){
		"500":     func(w http.ResponseWriter) { http.Error(w, "broken", http.StatusInternalServerError) },
		"503":     func(w http.ResponseWriter) { http.Error(w, "busy", http.StatusServiceUnavailable) },
		"429":     func(w http.ResponseWriter) { http.Error(w, "too many", http.StatusTooManyRequests) },
		"302":     func(w http.ResponseWriter) { w.Header().Set("Location", "/elsewhere"); w.WriteHeader(http.StatusFound) },
		"cut off": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"after": func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	} {
		t.Run(name, func(t *testing.T) {
			rc := newReceiver(t, nil)
			rc.Config.ErrorLog = log.New(io.Discard, "", 0)
			rc.fail = func(n int, r *http.Request, w http.ResponseWriter) bool {
				if n%3 != 0 {
					fail(w)
					return true
				}
				return false
			}
			db := openDB(t, t.TempDir())
			w := startWriter(t, db, rc, func(o *WriterOptions) { o.MinBackoff, o.MaxSamples = time.Millisecond, 10 })
			now := time.Now().UnixMilli()
			for i := range int64(20) {
				put(t, db, now+i, float64(i), 1, 2)
			}
			flush(t, w)
			requireSent(t, db, rc.db)
			st := w.Stats()
			require.Positive(t, st.Retries)
			require.Zero(t, st.DroppedRefused)
			require.Empty(t, st.Failing)
			for i := 1; i < len(rc.requests); i++ {
				if attempt := rc.requests[i].Header.Get("Retry-Attempt"); attempt != "" {
					require.Equal(t, rc.bodies[i-1], rc.bodies[i], "the same body again")
				}
			}
		})
	}
}

// What is refused for some samples is sent without them.
func TestWriter_DropsOnlyWhatIsRefused(t *testing.T) {
	for _, protocol := range []WriterProtocol{ProtocolV1, ProtocolV2} {
		t.Run(fmt.Sprint(protocol), func(t *testing.T) {
			rc := newReceiver(t, nil)
			now := time.Now().UnixMilli()
			refuse := func(n int, r *http.Request, w http.ResponseWriter) bool { // as others do: all of 1.0 or nothing
				message, err := snappy.Decode(nil, rc.bodies[n-1])
				require.NoError(t, err)
				if protocol == ProtocolV1 && containsSeries(message, "13") {
					http.Error(w, "bad sample", http.StatusBadRequest)
					return true
				}
				return false
			}
			rc.fail = refuse
			db := openDB(t, t.TempDir())
			w := startWriter(t, db, rc, func(o *WriterOptions) { o.Protocol = protocol })
			put(t, rc.db, now+1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 999, 14, 15) // of 13 it has another value
			put(t, db, now+1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
			put(t, db, now+2, 0, 1, 2)
			flush(t, w)
			st := w.Stats()
			require.EqualValues(t, 1, st.DroppedRefused)
			require.EqualValues(t, 18, st.Samples)
			require.NotEmpty(t, st.LastRefusal)
		})
	}
}

// containsSeries reports whether a message has the value of a label.
func containsSeries(message []byte, value string) bool {
	want := appendString(appendString(nil, 1, "n"), 2, value)
	for i := 0; i+len(want) <= len(message); i++ {
		if string(message[i:i+len(want)]) == string(want) {
			return true
		}
	}
	return false
}

func TestWriter_FallsBackToV1(t *testing.T) {
	for name, opts := range map[string]*WriteOptions{"415": {NoV2: true}, "silent": nil} {
		t.Run(name, func(t *testing.T) {
			rc := newReceiver(t, opts)
			if name == "silent" { // an old receiver sees an empty request of 1.0
				rc.fail = func(n int, r *http.Request, w http.ResponseWriter) bool {
					if r.Header.Get(versionHeader) == "2.0.0" {
						w.WriteHeader(http.StatusNoContent)
						return true
					}
					return false
				}
			}
			db := openDB(t, t.TempDir())
			w := startWriter(t, db, rc, nil)
			require.Equal(t, "2.0", w.Stats().Protocol)
			put(t, db, time.Now().UnixMilli(), 1, 2, 3)
			flush(t, w)
			requireSent(t, db, rc.db)
			require.Equal(t, "1.0", w.Stats().Protocol)
			require.Len(t, rc.requests, 2)
		})
	}
}

func TestNewWriter_RefusesBadOptions(t *testing.T) {
	db := openDB(t, t.TempDir())
	for _, o := range []*WriterOptions{
		nil, {}, {URL: "host:9090"}, {URL: "ftp://host"}, {URL: "http://h", MaxSamples: -1}, {URL: "http://h", Protocol: 7}, {URL: "http://h", Name: "a/b"},
	} {
		_, err := NewWriter(db, o)
		require.Error(t, err)
	}
	_, err := NewWriter(db, &WriterOptions{URL: "http://h", Dir: filepath.Join(db.Dir(), "wal", "00000000")})
	require.Error(t, err)
}

// By 1.0 metadata goes by itself: of each family that is sent once.
func TestWriter_SendsFamiliesByV1(t *testing.T) {
	rc := newReceiver(t, nil)
	db := openDB(t, t.TempDir())
	w := startWriter(t, db, rc, func(o *WriterOptions) {
		o.Protocol, o.MaxSamples, o.MetadataInterval = ProtocolV1, 2, 10*time.Millisecond
		o.Keep = func(ls labels.Labels) bool { return ls.Get(labels.MetricName) != "secret" }
	})
	app := db.Appender()
	now := time.Now().UnixMilli()
	for _, name := range []string{"a", "b_bucket", "b_sum", "c", "secret"} {
		ls := labels.FromStrings(labels.MetricName, name)
		ref, err := app.Append(0, ls, now, 1)
		require.NoError(t, err)
		_, err = app.SetMetadata(ref, ls, tsdb.Metadata{Type: tsdb.MetricHistogram, Help: "of " + name[:1]})
		require.NoError(t, err)
	}
	_, err := app.Commit(context.Background())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		told := map[string]string{}
		rc.mu.Lock()
		defer rc.mu.Unlock()
		for _, body := range rc.bodies {
			message, err := snappy.Decode(nil, body)
			require.NoError(t, err)
			n := 0
			for all := readFields(message); all.next(); {
				if all.num != 3 {
					continue
				}
				n++
				var name, help string
				for f := readFields(all.bytes()); f.next(); {
					switch f.num {
					case 2:
						name = f.string()
					case 4:
						help = f.string()
					}
				}
				told[name] = help
			}
			require.LessOrEqual(t, n, 2)
		}
		require.NotContains(t, told, "secret")
		return told["a"] == "of a" && told["b"] == "of b" && told["c"] == "of c" && len(told) == 3
	}, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, w.Close())
}

// What is turned off is in no request.
func TestWriter_LeavesOutWhatIsTurnedOff(t *testing.T) {
	rc := newReceiver(t, nil)
	db := openDB(t, t.TempDir())
	w := startWriter(t, db, rc, func(o *WriterOptions) { o.NoHistograms, o.NoExemplars, o.NoMetadata = true, true, true })
	now := time.Now().UnixMilli()
	h := &histogram.Histogram{Schema: 1, Count: 2, Sum: 4, PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []int64{1, 0}}
	ls := labels.FromStrings(labels.MetricName, "m")
	app := db.Appender()
	ref, err := app.Append(0, ls, now, 1)
	require.NoError(t, err)
	_, err = app.AppendSample(0, labels.FromStrings(labels.MetricName, "h"), tsdb.Sample{T: now, H: h})
	require.NoError(t, err)
	_, err = app.SetMetadata(ref, ls, tsdb.Metadata{Unit: "s", Help: "helps"})
	require.NoError(t, err)
	_, err = app.AppendExemplar(ref, ls, exemplar.Exemplar{Labels: labels.FromStrings("trace", "x"), Value: 7, T: now, HasT: true})
	require.NoError(t, err)
	_, err = app.Commit(context.Background())
	require.NoError(t, err)
	flush(t, w)
	st := w.Stats()
	require.Equal(t, [3]uint64{1, 0, 0}, [3]uint64{st.Samples, st.Histograms, st.Exemplars})
	q, err := rc.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	about, err := q.Metadata(context.Background())
	require.NoError(t, err)
	require.Empty(t, about)
	require.NoError(t, q.Close())
	require.NoError(t, w.Close())
}

// Two Writers of one name would write over each other's marks and send everything twice: the second
// one is refused until the first one is closed.
func TestNewWriter_OfANameThatAnotherHas(t *testing.T) {
	rc := newReceiver(t, nil)
	db := openDB(t, t.TempDir())
	w := startWriter(t, db, rc, nil)
	for range 2 {
		_, err := NewWriter(db, &WriterOptions{URL: rc.URL})
		require.ErrorIs(t, err, ErrWriterName)
		require.ErrorContains(t, err, `writer "default" in `+filepath.Join(db.Dir(), writerDir))
		require.ErrorContains(t, err, "close it first, or give this one another WriterOptions.Name")
	}
	other := startWriter(t, db, newReceiver(t, nil), func(o *WriterOptions) { o.Name = "other" })
	put(t, db, time.Now().UnixMilli(), 1, 2)
	flush(t, w)
	flush(t, other)
	requireSent(t, db, rc.db)
	require.NoError(t, w.Close())
	w = startWriter(t, db, rc, nil)
	put(t, db, time.Now().UnixMilli()+1, 3, 4)
	flush(t, w)
	requireSent(t, db, rc.db)
	require.EqualValues(t, 2, w.Stats().Samples, "nothing twice")

	// Nor may Writers of two databases that have one directory for marks.
	_, err := NewWriter(openDB(t, t.TempDir()), &WriterOptions{URL: rc.URL, Name: "other", Dir: filepath.Join(db.Dir(), writerDir)})
	require.ErrorIs(t, err, ErrWriterName)
}

// A Writer that cannot begin leaves its name to the next one.
func TestNewWriter_ThatFails_LeavesItsName(t *testing.T) {
	for _, kind := range []tsdbtest.OpKind{tsdbtest.OpOpen, tsdbtest.OpCreate} { // to read marks, to write them
		t.Run(kind.String(), func(t *testing.T) {
			fsys := faultfs.New(tsdbtest.NewMemFS())
			db, err := tsdb.Open("data", &tsdb.Options{FS: fsys})
			require.NoError(t, err)
			defer func() { require.NoError(t, db.Close()) }()
			opts := &WriterOptions{URL: "http://127.0.0.1:1"}
			w, err := NewWriter(db, opts)
			require.NoError(t, err)
			require.NoError(t, w.Close())
			ofMarks := func(op tsdbtest.Op) bool { return strings.Contains(op.Name, ".marks") }
			fsys.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{kind}, Match: ofMarks, Err: syscall.EIO})
			_, err = NewWriter(db, opts)
			require.ErrorIs(t, err, syscall.EIO)
			require.Len(t, fsys.Hits(), 1)
			fsys.Lift()
			w, err = NewWriter(db, opts)
			require.NoError(t, err)
			require.NoError(t, w.Close())
		})
	}
	db := openDB(t, t.TempDir())
	require.NoError(t, db.Close())
	_, err := NewWriter(db, &WriterOptions{URL: "http://127.0.0.1:1"})
	require.ErrorIs(t, err, tsdb.ErrClosed)
	_, err = NewWriter(db, &WriterOptions{URL: "http://127.0.0.1:1"})
	require.NotErrorIs(t, err, ErrWriterName)
}
