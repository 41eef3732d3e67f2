package remote

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/marks"
)

// flip changes a byte of a file, at a part of its length.
func flip(t *testing.T, pattern string, part float64) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, names)
	content, err := os.ReadFile(names[0])
	require.NoError(t, err)
	f, err := os.OpenFile(names[0], os.O_WRONLY, 0)
	require.NoError(t, err)
	at := int64(part * float64(len(content)))
	_, err = f.WriteAt([]byte{content[at] ^ 0x55}, at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// A block that is damaged while it is open costs what is in it, and nothing of the head, wherever
// the damage is.
func TestWriter_DamagedBlockBesideTheHead(t *testing.T) {
	for _, file := range []string{"index", "chunks/000001"} {
		step := 0.1
		if testing.Short() {
			step = 0.4
		}
		for part := 0.05; part < 1; part += step {
			rc := newReceiver(t, nil)
			db := openDB(t, t.TempDir())
			now := time.Now().UnixMilli()
			for i := range int64(3) {
				put(t, db, now-2*3_600_000+i, 1, 2, 3, 4, 5, 6)
			}
			require.NoError(t, db.Flush(context.Background()))
			put(t, db, now, 1, 2, 3)
			flip(t, filepath.Join(db.Dir(), "01*", file), part)
			w := startWriter(t, db, rc, func(o *WriterOptions) { o.History = -1 })
			flush(t, w)
			require.NoError(t, w.Close())
			got := storedSamples(t, rc.db, "m")
			for _, n := range []string{"0", "1", "2"} {
				list := got[`{__name__="m", n="`+n+`"}`]
				require.NotEmpty(t, list, "%s %v", file, part)
				require.Equal(t, now, list[len(list)-1].T, "%s %v", file, part)
			}
		}
	}
}

// What is damaged in the log is sent from the head, and then the log goes on. The Writer does not
// run while it is damaged: one that runs may have read that place before.
func TestWriter_DamagedLog(t *testing.T) {
	rc := newReceiver(t, nil)
	db := openDB(t, t.TempDir())
	oneByOne := func(o *WriterOptions) { o.MaxSamples = 1 }
	at := time.Now().UnixMilli()
	w := startWriter(t, db, rc, oneByOne)
	put(t, db, at, 1)
	flush(t, w)
	require.NoError(t, w.Close())
	for range 100 {
		at++
		put(t, db, at, 1)
	}
	flip(t, filepath.Join(db.Dir(), "wal", "00000000"), 0.6)
	w = startWriter(t, db, rc, oneByOne)
	flush(t, w)
	requireSent(t, db, rc.db)
	require.Positive(t, w.Stats().Backfills)
	require.NoError(t, w.Close())
}

// The first backfill may take several starts: what is sent does not become less.
func TestWriter_HistoryOverRestarts(t *testing.T) {
	rc := newReceiver(t, nil)
	db := openDB(t, t.TempDir())
	now := time.Now().UnixMilli()
	put(t, db, now-90_000, 1)
	dead := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer dead.Close()
	w, err := NewWriter(db, &WriterOptions{URL: dead.URL, History: time.Hour, Deadline: time.Millisecond})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return w.Stats().Retries > 0 }, 10*time.Second, time.Millisecond)
	w.cancel()
	require.NoError(t, w.Close())
	w = startWriter(t, db, rc, func(o *WriterOptions) { o.History = time.Minute })
	flush(t, w)
	requireSent(t, db, rc.db)
	require.Eventually(t, func() bool { return w.marks.Position() != nil }, 10*time.Second, time.Millisecond)
	floor := w.marks.Floor()
	require.Less(t, floor, now-3_000_000)
	require.Greater(t, floor, now-5_000_000, "it is kept")
	require.NoError(t, w.Close())
}

// What is in doubt after many shards goes in few requests.
func TestWriter_DoubtsGoTogether(t *testing.T) {
	rc := newReceiver(t, nil)
	db := openDB(t, t.TempDir())
	hang := make(chan struct{})
	dead := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		contentOf(r)
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer dead.Close()
	defer close(hang)
	w, err := NewWriter(db, &WriterOptions{URL: dead.URL, Deadline: time.Millisecond, shards: 8})
	require.NoError(t, err)
	put(t, db, time.Now().UnixMilli(), make([]float64, 2000)...)
	require.Eventually(t, func() bool { return w.Stats().Requests == 8 }, 10*time.Second, time.Millisecond)
	w.cancel()
	require.NoError(t, w.Close())
	w = startWriter(t, db, rc, nil)
	flush(t, w)
	requireSent(t, db, rc.db)
	require.LessOrEqual(t, w.Stats().Requests, uint64(8))
}

// A floor from the time of a clock that was ahead is not believed.
func TestWriter_FloorOfTheFuture(t *testing.T) {
	rc := newReceiver(t, nil)
	db := openDB(t, t.TempDir())
	o, err := (&WriterOptions{URL: rc.URL}).withDefaults(db)
	require.NoError(t, err)
	store, _, err := marks.Open(db.Options().FS, filepath.Join(o.Dir, o.Name+".marks"))
	require.NoError(t, err)
	require.NoError(t, store.Rewrite(nil))
	store.SetFloor(time.Now().AddDate(1, 0, 0).UnixMilli())
	store.SetPosition([]byte(`{"Segment":7777,"Offset":9,"Seq":1,"Sum":1}`))
	require.NoError(t, store.Close())
	put(t, db, time.Now().UnixMilli(), 1, 2)
	w := startWriter(t, db, rc, nil)
	flush(t, w)
	requireSent(t, db, rc.db)
}

// Also while much waits, whoever waits for it is told that the database is closed.
func TestWriter_FlushOfMuchInAClosedDatabase(t *testing.T) {
	dead := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer dead.Close()
	db := openDB(t, t.TempDir())
	w, err := NewWriter(db, &WriterOptions{URL: dead.URL, MaxSamples: 1})
	require.NoError(t, err)
	put(t, db, time.Now().UnixMilli(), make([]float64, 100)...)
	require.Eventually(t, func() bool { return w.Stats().Pending >= 3 }, 10*time.Second, time.Millisecond)
	require.NoError(t, db.Close())
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	require.ErrorIs(t, w.Flush(ctx), tsdb.ErrClosed)
	require.NoError(t, w.Close())
}
