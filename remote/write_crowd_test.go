package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Several senders at a time, each of whose requests comes twice at a time, as when the first one
// took too long: every one is answered as if it were alone.
func TestWrite_FromManySendersAtATime(t *testing.T) {
	const senders, messages, series = 4, 30, 20
	eachVersion(t, tsdb.Options{}, func(t *testing.T, db *tsdb.DB, h http.Handler, i int) {
		v := writeEncoders[i]
		var group sync.WaitGroup
		failed := make(chan string, senders*messages*2)
		for sender := range senders {
			group.Go(func() {
				for m := range int64(messages) {
					var list []sentSeries
					for s := range series {
						now := writeNewest + m*1000
						one := one(fmt.Sprintf("crowd_%d_%d", sender, s), at(now, 1), at(now+1, 2))
						one.histograms = []tsdb.Sample{{T: now + 2, H: some(m)}}
						list = append(list, one)
					}
					list = append(list, one("shared", at(writeNewest, 1))) // the same of all
					message := v.encode(list...)
					var twice sync.WaitGroup
					for range 2 {
						twice.Go(func() {
							w := send(h, v.contentType, message)
							want := "/41/20/0"
							if v.version == writeV1 {
								want = ""
							}
							if w.Code != http.StatusNoContent || writtenOf(w.Header().Get) != want {
								failed <- fmt.Sprintf("%d %s %s", w.Code, writtenOf(w.Header().Get), w.Body)
							}
						})
					}
					twice.Wait()
				}
			})
		}
		group.Wait()
		close(failed)
		for text := range failed {
			t.Error(text)
		}
		for sender := range senders {
			name := fmt.Sprintf("crowd_%d_7", sender)
			require.Len(t, storedSamples(t, db, name)[`{__name__="`+name+`"}`], 3*messages)
		}
	})
}

// A disk that is full, or fails, is told as such, and nothing counts as written; when there is room
// again the same request is stored.
func TestWrite_OnAFullDisk(t *testing.T) {
	for _, v := range writeEncoders {
		t.Run(v.name, func(t *testing.T) {
			fs := tsdbtest.NewMemFS()
			db, clock := openForWrites(t, tsdb.Options{FS: fs})
			h := NewWriteHandler(db, &WriteOptions{Clock: clock})
			before := v.encode(one("full", at(writeNewest-1, 1))) // so that it is known
			requireWritten(t, send(h, v.contentType, before), v.version, http.StatusNoContent, "/1/0/0")
			series := one("full", at(writeNewest, 1), at(writeNewest+1, 2))
			series.meta = tsdb.Metadata{Help: "Help."}
			message := v.encode(series, one("other", at(writeNewest, 1)))
			fs.SetCapacity(fs.Used())
			for range 2 {
				w := send(h, v.contentType, message)
				requireWritten(t, w, v.version, http.StatusServiceUnavailable, "/0/0/0")
				require.Equal(t, retryAfter, w.Header().Get("Retry-After"))
			}
			fs.SetCapacity(1 << 30)
			requireWritten(t, send(h, v.contentType, message), v.version, http.StatusNoContent, "/3/0/0")
			if v.version == writeV2 {
				require.Equal(t, map[string]tsdb.Metadata{"full": series.meta}, metadataOf(t, db))
			}
		})
	}
}

// gone is a client that goes when its body was read.
type gone struct {
	io.Reader
	cancel context.CancelFunc
}

func (g gone) Read(b []byte) (int, error) {
	n, err := g.Reader.Read(b)
	if err == io.EOF {
		g.cancel()
	}
	return n, err
}

// Nothing is stored for who went away, and a rule of the program that panics ends its request only:
// the slot is free behind both.
func TestWrite_EndsWithItsRequest(t *testing.T) {
	eachVersion(t, tsdb.Options{}, func(t *testing.T, _ *tsdb.DB, _ http.Handler, i int) {
		v := writeEncoders[i]
		limits := tsdb.Limits{NewSeries: func(ls labels.Labels) error {
			switch ls.Get(labels.MetricName) {
			case "panics":
				panic("rule")
			case "refused":
				return errors.New("not this one")
			}
			return nil
		}}
		db, clock := openForWrites(t, tsdb.Options{Limits: limits})
		h := NewWriteHandler(db, &WriteOptions{Clock: clock, MaxInFlight: 1})
		ctx, cancel := context.WithCancel(context.Background())
		body := snappy.Encode(nil, v.encode(one("gone", at(writeNewest, 1))))
		r := httptest.NewRequest(http.MethodPost, "/", gone{bytes.NewReader(body), cancel}).WithContext(ctx)
		r.Header.Set("Content-Type", v.contentType)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		require.Equal(t, http.StatusServiceUnavailable, w.Code)
		require.PanicsWithValue(t, "rule", func() {
			send(h, v.contentType, v.encode(one("ahead", at(writeNewest, 1)), one("panics", at(writeNewest, 1))))
		})
		require.Empty(t, storedSamples(t, db, "gone"))
		require.Empty(t, storedSamples(t, db, "ahead"))
		answer := send(h, v.contentType, v.encode(one("refused", at(writeNewest, 1), at(writeNewest+1, 1)), one("behind", at(writeNewest, 1))))
		requireWritten(t, answer, v.version, http.StatusBadRequest, "/1/0/0")
		require.Contains(t, answer.Body.String(), `not this one`)
		require.Contains(t, answer.Body.String(), `{__name__="refused"}`)
	})
}

// racing is a database in which something happens between Append and Commit: a rule of the program
// is asked for the series "rule", which it refuses, and does it.
func racing(t *testing.T, happens func(db *tsdb.DB, time int)) (*tsdb.DB, http.Handler) {
	t.Helper()
	var db *tsdb.DB
	times := 0
	limits := tsdb.Limits{NewSeries: func(ls labels.Labels) error {
		if ls.Get(labels.MetricName) != "rule" {
			return nil
		}
		times++
		happens(db, times)
		return errors.New("refused")
	}}
	db, clock := openForWrites(t, tsdb.Options{Limits: limits})
	return db, NewWriteHandler(db, &WriteOptions{Clock: clock})
}

func commit(t *testing.T, db *tsdb.DB, name string, at int64, v float64) {
	t.Helper()
	app := db.Appender()
	_, err := app.Append(0, labels.FromStrings(labels.MetricName, name), at, v)
	require.NoError(t, err)
	res, err := app.Commit(context.Background())
	require.NoError(t, err)
	require.Empty(t, res.Rejected)
}

// What another commit makes late does not count as written, unless it is what that commit stored.
func TestWrite_CountsWhatCommitTakes(t *testing.T) {
	for _, v := range writeEncoders {
		db, h := racing(t, func(db *tsdb.DB, _ int) {
			commit(t, db, "late", writeNewest+5, 5)
			commit(t, db, "same", writeNewest, 1)
			commit(t, db, "same", writeNewest+5, 5)
		})
		w := send(h, v.contentType, v.encode(
			one("late", at(writeNewest, 1), at(writeNewest+6, 6)), one("same", at(writeNewest, 1), at(writeNewest+5, 5)),
			one("rule", at(writeNewest, 1)), one("fine", at(writeNewest, 1))))
		requireWritten(t, w, v.version, http.StatusBadRequest, "/4/0/0")
		require.Regexp(t, `^refused.*{__name__="rule"}\nout of order.*{__name__="late"}\n$`, w.Body.String())
		require.Equal(t, []float64{5, 6}, floatsOf(storedSamples(t, db, "late")[`{__name__="late"}`]))
		require.Equal(t, []float64{1, 5}, floatsOf(storedSamples(t, db, "same")[`{__name__="same"}`]))
	}
}

// A series that leaves the head between Append and Commit is made again.
func TestWrite_OfASeriesThatGoesMeanwhile(t *testing.T) {
	const later = 8 * 3600_000
	for _, v := range writeEncoders {
		db, h := racing(t, func(db *tsdb.DB, time int) {
			if time == 1 {
				commit(t, db, "newest", writeNewest+later/2, 1)
				require.NoError(t, db.Flush(context.Background()))
			}
		})
		requireWritten(t, send(h, v.contentType, v.encode(one("goes", at(writeNewest, 1)))), v.version, http.StatusNoContent, "/1/0/0")
		removed := db.Stats().SeriesRemoved
		w := send(h, v.contentType, v.encode(one("goes", at(writeNewest+later, 2), at(writeNewest+later+1, 3)), one("rule", at(writeNewest+later, 1))))
		requireWritten(t, w, v.version, http.StatusBadRequest, "/2/0/0")
		require.Greater(t, db.Stats().SeriesRemoved, removed, "it went")
		require.Regexp(t, `^refused.*{__name__="rule"}\n$`, w.Body.String())
		require.Equal(t, []float64{1, 2, 3}, floatsOf(storedSamples(t, db, "goes")[`{__name__="goes"}`]))
	}
}

// Who waits too long for a slot comes again.
func TestWrite_WaitsForASlotForSomeTime(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	limits := tsdb.Limits{NewSeries: func(ls labels.Labels) error {
		if ls.Get(labels.MetricName) == "slow" {
			close(entered)
			<-leave
		}
		return nil
	}}
	db, clock := openForWrites(t, tsdb.Options{Limits: limits})
	h := NewWriteHandler(db, &WriteOptions{Clock: clock, MaxInFlight: 1, ReadTimeout: 10 * time.Millisecond})
	answered := make(chan int)
	go func() { answered <- send(h, writeMediaType, encodeV1(one("slow", at(writeNewest, 1)))).Code }()
	<-entered
	w := send(h, writeMediaType, encodeV1(one("quick", at(writeNewest, 1))))
	requireWritten(t, w, writeV1, http.StatusServiceUnavailable, "")
	require.Equal(t, retryAfter, w.Header().Get("Retry-After"))
	close(leave)
	require.Equal(t, http.StatusNoContent, <-answered)
	requireWritten(t, send(h, writeMediaType, encodeV1(one("quick", at(writeNewest, 1)))), writeV1, http.StatusNoContent, "")
}
