package bucket_test

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/filesystem"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/backup"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom/bucket"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

var errKilled = errors.New("killed")

// killedBucket is killed at one of its writes: of what is uploaded then a share is there, and
// nothing works any more. So it is where the provider writes what it gets at once.
type killedBucket struct {
	objstore.Bucket
	at     int // the write, counted from 1; 0: never
	share  float64
	writes int
	dead   bool
	name   string // what was being written
}

func (b *killedBucket) Upload(ctx context.Context, name string, r io.Reader, opts ...objstore.ObjectUploadOption) error {
	if b.dead {
		return errKilled
	}
	if b.writes++; b.writes != b.at {
		return b.Bucket.Upload(ctx, name, r, opts...)
	}
	b.dead, b.name = true, name
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	part := string(text[:int(math.Round(b.share*float64(len(text))))])
	if err := b.Bucket.Upload(ctx, name, strings.NewReader(part), opts...); err != nil {
		return err
	}
	return errKilled
}

func (b *killedBucket) Delete(ctx context.Context, name string) error {
	if b.dead {
		return errKilled
	}
	if b.writes++; b.writes == b.at {
		b.dead, b.name = true, name
		return errKilled
	}
	return b.Bucket.Delete(ctx, name)
}

// killWorld is a database, a bucket in a directory with a backup of it, and what it got since.
type killWorld struct {
	*testing.T
	data, kept  string // directories
	first       string // the backup
	clock       *tsdbtest.Clock
	before, now []string // samples: of the backup, and of the database
}

func newKillWorld(t *testing.T) *killWorld {
	w := &killWorld{T: t, data: filepath.Join(t.TempDir(), "data"), kept: t.TempDir(), clock: tsdbtest.NewClock(time.UnixMilli(1_700_000_000_000))}
	db, err := tsdb.Open(w.data, &tsdb.Options{Clock: w.clock, Blocks: tsdb.BlockOptions{Manual: true, Range: time.Minute}})
	require.NoError(t, err)
	round := func() {
		for range 3 {
			w.clock.Advance(time.Minute)
			app := db.Appender()
			_, err := app.Append(0, labels.FromStrings("__name__", "m"), w.clock.Now().UnixMilli(), 1)
			require.NoError(t, err)
			_, err = app.Commit(ctx)
			require.NoError(t, err)
		}
		require.NoError(t, db.Flush(ctx))
	}
	round()
	b, err := filesystem.NewBucket(w.kept)
	require.NoError(t, err)
	r, err := backup.Take(ctx, w.data, bucket.NewStore(b), w.options())
	require.NoError(t, err)
	w.first, w.before = r.Name, w.samplesOf(w.data)
	round()
	require.NoError(t, db.Close())
	w.now = w.samplesOf(w.data)
	require.Greater(t, len(w.now), len(w.before))
	return w
}

var ctx = context.Background()

func (w *killWorld) options() *backup.Options {
	w.clock.Advance(time.Second)
	return &backup.Options{Clock: w.clock}
}

// samplesOf returns the times of the samples of a data directory.
func (w *killWorld) samplesOf(dir string) (times []string) {
	w.Helper()
	r, err := tsdb.OpenReadOnly(dir, nil)
	require.NoError(w, err)
	q, err := r.Querier(0, math.MaxInt64)
	require.NoError(w, err)
	for s, err := range q.Select(ctx, nil, labels.Equal("__name__", "m")).All() {
		require.NoError(w, err)
		for at := range s.Samples() {
			times = append(times, time.UnixMilli(at).UTC().Format(time.RFC3339))
		}
	}
	require.NoError(w, q.Close())
	require.NoError(w, r.Close())
	return times
}

// restored restores a backup, the newest one for an empty name.
func (w *killWorld) restored(store backup.Store, name string) []string {
	w.Helper()
	to := filepath.Join(w.TempDir(), "restored")
	_, err := backup.Restore(ctx, store, name, to, nil)
	require.NoError(w, err)
	return w.samplesOf(to)
}

// disk is a copy of the bucket.
func (w *killWorld) disk() objstore.Bucket {
	w.Helper()
	dir := w.TempDir()
	require.NoError(w, os.CopyFS(dir, os.DirFS(w.kept)))
	b, err := filesystem.NewBucket(dir)
	require.NoError(w, err)
	return b
}

// A kill at any write of a Take, with any share of what is written there, leaves the backups before
// it: the newest whole one is restored, the next Take and Prune succeed, and what is damaged can be
// removed.
func TestTake_KilledInADirectoryOfABucket(t *testing.T) {
	w := newKillWorld(t)
	manifests := 0
	for at := 1; ; at++ {
		for _, share := range []float64{0, 0.7, 1} {
			b := w.disk()
			killed := &killedBucket{Bucket: b, at: at, share: share}
			_, err := backup.Take(ctx, w.data, bucket.NewStore(killed), w.options())
			if !killed.dead {
				require.NoError(t, err)
				require.Greater(t, at, 5)
				require.Equal(t, 3, manifests)
				return
			}
			require.ErrorIs(t, err, errKilled)
			if strings.HasPrefix(killed.name, "backups/") {
				manifests++
			}
			w.checkKilled(b, strings.HasPrefix(killed.name, "backups/") && share < 1)
		}
	}
}

// checkKilled checks a bucket in which a Take was killed, and goes on. torn: it is in the manifest.
func (w *killWorld) checkKilled(b objstore.Bucket, torn bool) {
	w.Helper()
	store := bucket.NewStore(b)
	require.Equal(w, w.before, w.restored(store, w.first))
	require.Contains(w, [][]string{w.before, w.now}, w.restored(store, ""))
	problems, err := backup.Verify(ctx, store, nil)
	require.NoError(w, err)
	if torn {
		require.Len(w, problems, 1)
		require.ErrorIs(w, problems[0].Err, tsdb.ErrCorrupt)
		require.Empty(w, problems[0].Object)
	} else {
		require.Empty(w, problems)
	}

	r, err := backup.Take(ctx, w.data, store, w.options())
	require.NoError(w, err)
	p, err := backup.Prune(ctx, store, 2, w.options())
	require.NoError(w, err)
	require.Equal(w, w.now, w.restored(store, r.Name))
	if torn {
		require.Empty(w, p)
		require.Equal(w, w.before, w.restored(store, w.first), "it does not count")
	}
	require.NoError(w, backup.RemoveDamaged(ctx, store, problems, w.options()))
	_, err = backup.Prune(ctx, store, 1, w.options())
	require.NoError(w, err)
	problems, err = backup.Verify(ctx, store, nil)
	require.NoError(w, err)
	require.Empty(w, problems)
	require.Equal(w, w.now, w.restored(store, ""))
	objects := 0
	require.NoError(w, store.List(ctx, "", func(string, int64) error { objects++; return nil }))
	fresh := bucket.NewStore(objstore.NewInMemBucket())
	again, err := backup.Take(ctx, w.data, fresh, w.options())
	require.NoError(w, err)
	require.Equal(w, again.StoredFiles+1, objects, "nothing is left of the others")
}

// A kill at any write of a Prune leaves what is to stay.
func TestPrune_KilledInADirectoryOfABucket(t *testing.T) {
	w := newKillWorld(t)
	inner, err := filesystem.NewBucket(w.kept)
	require.NoError(t, err)
	r, err := backup.Take(ctx, w.data, bucket.NewStore(inner), w.options())
	require.NoError(t, err)
	for at := 1; ; at++ {
		b := w.disk()
		killed := &killedBucket{Bucket: b, at: at}
		_, err := backup.Prune(ctx, bucket.NewStore(killed), 1, w.options())
		if !killed.dead {
			require.NoError(t, err)
			require.Greater(t, at, 3)
			return
		}
		require.ErrorIs(t, err, errKilled)
		store := bucket.NewStore(b)
		problems, err := backup.Verify(ctx, store, nil)
		require.NoError(t, err)
		require.Empty(t, problems)
		require.Equal(t, w.now, w.restored(store, r.Name))
		_, err = backup.Prune(ctx, store, 1, w.options())
		require.NoError(t, err)
		require.Equal(t, w.now, w.restored(store, ""))
	}
}
