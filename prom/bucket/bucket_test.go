package bucket_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
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

// Backups in a bucket are those in a directory.
func TestStore_KeepsBackups(t *testing.T) {
	onDisk, err := filesystem.NewBucket(t.TempDir())
	require.NoError(t, err)
	for name, b := range map[string]objstore.Bucket{"file system": onDisk, "in memory": objstore.NewInMemBucket(), "prefixed": objstore.NewPrefixedBucket(objstore.NewInMemBucket(), "a/b")} {
		t.Run(name, func(t *testing.T) {
			ctx, dir := context.Background(), filepath.Join(t.TempDir(), "data")
			store := bucket.NewStore(b)
			_, err := backup.Restore(ctx, store, "", filepath.Join(t.TempDir(), "restored"), nil)
			require.ErrorIs(t, err, fs.ErrNotExist)
			db, err := tsdb.Open(dir, nil)
			require.NoError(t, err)
			var results []backup.Result
			for i := range 3 {
				app := db.Appender()
				_, err := app.Append(0, labels.FromStrings("__name__", "m"), time.Now().UnixMilli()+int64(i), float64(i))
				require.NoError(t, err)
				_, err = app.Commit(ctx)
				require.NoError(t, err)
				if i == 1 {
					require.NoError(t, db.Flush(ctx))
				}
				at := tsdbtest.NewClock(time.UnixMilli(int64(i))) // their names are times
				r, err := backup.Take(ctx, dir, store, &backup.Options{Clock: at})
				require.NoError(t, err)
				results = append(results, r)
			}
			require.NoError(t, db.Close())
			problems, err := backup.Verify(ctx, store, nil)
			require.NoError(t, err)
			require.Empty(t, problems)
			for i, r := range results {
				to := filepath.Join(t.TempDir(), "restored")
				_, err := backup.Restore(ctx, store, r.Name, to, nil)
				require.NoError(t, err)
				reader, err := tsdb.OpenReadOnly(to, nil)
				require.NoError(t, err)
				q, err := reader.Querier(0, 1<<62)
				require.NoError(t, err)
				n := 0
				for s, err := range q.Select(ctx, nil, labels.Equal("__name__", "m")).All() {
					require.NoError(t, err)
					for range s.Samples() {
						n++
					}
				}
				require.NoError(t, q.Close())
				require.NoError(t, reader.Close())
				require.Equal(t, i+1, n)
			}
			p, err := backup.Prune(ctx, store, 1, nil)
			require.NoError(t, err)
			require.Len(t, p.Backups, 2)
			require.NoError(t, store.Delete(ctx, "objects/nothing"))
			list, err := backup.List(ctx, store)
			require.NoError(t, err)
			require.Len(t, list, 1)
		})
	}
}

// cutBucket fails in the middle of an upload, as the file system provider does when its disk is full.
type cutBucket struct {
	objstore.Bucket
	cut bool
}

func (b *cutBucket) Upload(ctx context.Context, name string, r io.Reader, opts ...objstore.ObjectUploadOption) error {
	if !b.cut || !strings.HasPrefix(name, "objects/") {
		return b.Bucket.Upload(ctx, name, r, opts...)
	}
	b.cut = false
	if err := b.Bucket.Upload(ctx, name, strings.NewReader("a part"), opts...); err != nil {
		return err
	}
	return errors.New("cut")
}

// A part of an object is not taken for it.
func TestStore_APartOfAnObjectIsStoredAgain(t *testing.T) {
	ctx, dir := context.Background(), filepath.Join(t.TempDir(), "data")
	inner, err := filesystem.NewBucket(t.TempDir())
	require.NoError(t, err)
	b := &cutBucket{Bucket: inner, cut: true}
	store := bucket.NewStore(b)
	db, err := tsdb.Open(dir, nil)
	require.NoError(t, err)
	app := db.Appender()
	_, err = app.Append(0, labels.FromStrings("__name__", "m"), time.Now().UnixMilli(), 1)
	require.NoError(t, err)
	_, err = app.Commit(ctx)
	require.NoError(t, err)
	require.NoError(t, db.Close())
	_, err = backup.Take(ctx, dir, store, nil)
	require.ErrorContains(t, err, "cut")
	_, err = backup.Take(ctx, dir, store, nil)
	require.NoError(t, err)
	problems, err := backup.Verify(ctx, store, nil)
	require.NoError(t, err)
	require.Empty(t, problems)
}
