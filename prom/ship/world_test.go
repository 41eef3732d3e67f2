package ship_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/thanos-io/objstore"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom/ship"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

var ctx = context.Background()

var external = labels.FromStrings("cluster", "test", "replica", "a")

const blockRange = 10 * time.Minute

// world is a database in memory, with a clock that moves when it is told to.
type world struct {
	testing.TB
	fs     *tsdbtest.MemFS
	clock  *tsdbtest.Clock
	bucket *countedBucket
	db     *tsdb.DB
}

func newWorld(t testing.TB) *world {
	start := time.UnixMilli(1_700_000_000_000).Truncate(blockRange)
	return &world{TB: t, fs: tsdbtest.NewMemFS(), clock: tsdbtest.NewClock(start), bucket: newCounted(objstore.NewInMemBucket())}
}

func (w *world) options() *tsdb.Options {
	return &tsdb.Options{FS: w.fs, Clock: w.clock, WAL: tsdb.WALOptions{SegmentSize: 1 << 15},
		Blocks: tsdb.BlockOptions{Manual: true, Range: blockRange, MaxRange: blockRange}}
}

// open opens the database until the test ends.
func (w *world) open(o *tsdb.Options) *tsdb.DB {
	w.Helper()
	db, err := tsdb.Open("data", o)
	require.NoError(w, err)
	w.db = db
	w.Cleanup(func() { require.NoError(w, db.Close()) })
	return db
}

func (w *world) shipper(change ...func(*ship.Options)) *ship.Shipper {
	w.Helper()
	o := ship.Options{Labels: external, FS: w.fs}
	for _, c := range change {
		c(&o)
	}
	s, err := ship.NewDir("data", w.bucket, o)
	require.NoError(w, err)
	return s
}

func compacted(o *ship.Options) { o.Compacted = true }

// scrape commits a sample of some series each minute, and each kind that a change makes of it.
func (w *world) scrape(minutes int, change ...func(*tsdb.Sample)) {
	w.Helper()
	for range minutes {
		app, now := w.db.Appender(), w.clock.Now().UnixMilli()
		for i := range 20 {
			s := tsdb.Sample{T: now, V: float64(now + int64(i))}
			for _, c := range change {
				c(&s)
			}
			_, err := app.AppendSample(0, labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)), s)
			require.NoError(w, err)
		}
		_, err := app.Commit(ctx)
		require.NoError(w, err)
		w.clock.Advance(time.Minute)
	}
}

// blocks makes blocks of the past.
func (w *world) blocks(n int) {
	w.Helper()
	w.scrape(n * int(blockRange/time.Minute))
	require.NoError(w, w.db.Flush(ctx))
}

// sync uploads so many blocks.
func (w *world) sync(s *ship.Shipper, want int) {
	w.Helper()
	n, err := s.Sync(ctx)
	require.NoError(w, err)
	require.Equal(w, want, n)
}

// objects are those of a bucket.
func objects(t testing.TB, b objstore.Bucket) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	require.NoError(t, b.Iter(ctx, "", func(name string) error {
		r, err := b.Get(ctx, name)
		if err != nil {
			return err
		}
		all[name], err = io.ReadAll(r)
		return errors.Join(err, r.Close())
	}, objstore.WithRecursiveIter()))
	return all
}

// uploadedMeta is what a meta file in the bucket has.
type uploadedMeta struct {
	ULID             string
	MinTime, MaxTime int64
	Compaction       struct {
		Level   int
		Sources []string
	}
	Thanos struct {
		Version    int
		Labels     map[string]string
		Downsample struct{ Resolution *int64 }
		Source     string
		Segments   []string `json:"segment_files"`
		Files      []struct {
			Path string `json:"rel_path"`
			Size int64  `json:"size_bytes"`
		}
		IndexStats map[string]int64 `json:"index_stats"`
	}
}

// checkBucket requires that the bucket has the blocks that a database has, byte for byte, and
// nothing else.
func (w *world) checkBucket() {
	w.Helper()
	var names []string
	for _, m := range w.db.Blocks() {
		names = append(names, m.ULID.String())
	}
	checkBlocks(w, w.bucket, names, func(name string) ([]byte, error) { return w.fs.ReadFile("data/" + name) })
}

func checkBlocks(t testing.TB, bucket objstore.Bucket, names []string, local func(name string) ([]byte, error)) {
	t.Helper()
	all, blocks := objects(t, bucket), map[string]bool{}
	for name := range all {
		blocks[strings.Split(name, "/")[0]] = true
	}
	require.ElementsMatch(t, names, sortedNames(blocks))
	for name := range blocks {
		text := all[name+"/meta.json"]
		var m uploadedMeta
		require.NoError(t, json.Unmarshal(text, &m), "%s: %q", name, text)
		require.Equal(t, name, m.ULID)
		require.Equal(t, 1, m.Thanos.Version)
		require.Equal(t, external.Map(), m.Thanos.Labels)
		require.Equal(t, "sidecar", m.Thanos.Source)
		require.Zero(t, *m.Thanos.Downsample.Resolution)
		var files, segments []string
		for _, f := range m.Thanos.Files {
			files = append(files, f.Path)
			if f.Path == "meta.json" {
				continue
			}
			if strings.HasPrefix(f.Path, "chunks/") {
				segments = append(segments, path.Base(f.Path))
			}
			got := all[name+"/"+f.Path]
			require.Len(t, got, int(f.Size))
			want, err := local(name + "/" + f.Path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got), f.Path)
		}
		require.NotEmpty(t, segments)
		require.Equal(t, segments, m.Thanos.Segments)
		var there []string
		for object := range all {
			if rest, ok := strings.CutPrefix(object, name+"/"); ok {
				there = append(there, rest)
			}
		}
		require.ElementsMatch(t, files, there)
	}
}

func sortedNames[V any](m map[string]V) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// countedBucket counts what is done to a bucket, and does something before or after it.
type countedBucket struct {
	objstore.Bucket
	mu      sync.Mutex
	uploads map[string]int // those that succeeded
	order   []string
	before  func(op, name string) error
	after   func(op, name string) error
}

func newCounted(b objstore.Bucket) *countedBucket {
	return &countedBucket{Bucket: b, uploads: map[string]int{}}
}

func (b *countedBucket) do(op, name string, f func() error) error {
	b.mu.Lock()
	before, after := b.before, b.after
	b.mu.Unlock()
	if before != nil {
		if err := before(op, name); err != nil {
			return err
		}
	}
	if err := f(); err != nil {
		return err
	}
	if op == "upload" {
		b.mu.Lock()
		b.uploads[name]++
		b.order = append(b.order, name)
		b.mu.Unlock()
	}
	if after != nil {
		return after(op, name)
	}
	return nil
}

func (b *countedBucket) Upload(ctx context.Context, name string, r io.Reader, o ...objstore.ObjectUploadOption) error {
	return b.do("upload", name, func() error {
		size, err := objstore.TryToGetSize(r)
		if err != nil {
			return err
		}
		all := &countedReader{r: r}
		if err = b.Bucket.Upload(ctx, name, all, o...); err == nil && all.n != size {
			err = fmt.Errorf("%s has %d bytes, not %d", name, all.n, size)
		}
		return err
	})
}

type countedReader struct {
	r io.Reader
	n int64
}

func (r *countedReader) ObjectSize() (int64, error) { return objstore.TryToGetSize(r.r) }

func (r *countedReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.n += int64(n)
	return n, err
}

func (b *countedBucket) Get(ctx context.Context, name string) (r io.ReadCloser, err error) {
	err = b.do("get", name, func() error { r, err = b.Bucket.Get(ctx, name); return err })
	return r, err
}

func (b *countedBucket) Iter(ctx context.Context, dir string, f func(string) error, o ...objstore.IterOption) error {
	return b.do("iter", dir, func() error { return b.Bucket.Iter(ctx, dir, f, o...) })
}

func (b *countedBucket) Exists(ctx context.Context, name string) (there bool, err error) {
	err = b.do("exists", name, func() error { there, err = b.Bucket.Exists(ctx, name); return err })
	return there, err
}

func (b *countedBucket) Attributes(ctx context.Context, name string) (a objstore.ObjectAttributes, err error) {
	err = b.do("attributes", name, func() error { a, err = b.Bucket.Attributes(ctx, name); return err })
	return a, err
}

func (b *countedBucket) Delete(ctx context.Context, name string) error {
	return b.do("delete", name, func() error { return b.Bucket.Delete(ctx, name) })
}

// once requires that each object was uploaded once, and the meta file of each block last.
func (b *countedBucket) once(t testing.TB) {
	t.Helper()
	for name, n := range b.uploads {
		require.Equal(t, 1, n, name)
	}
	b.metaLast(t)
}

func (b *countedBucket) metaLast(t testing.TB) {
	t.Helper()
	whole := map[string]bool{}
	for _, name := range b.order {
		block, file, _ := strings.Cut(name, "/")
		if file == "meta.json" {
			whole[block] = true
		} else {
			require.False(t, whole[block], "%s is uploaded behind the meta file: %v", name, b.order)
		}
	}
}

// reasons are those why blocks are not uploaded.
func reasons(s *ship.Shipper) (list []string) {
	for _, b := range s.Stats().Skipped {
		list = append(list, b.Reason)
	}
	slices.Sort(list)
	return list
}

func (w *world) series(i int) labels.Labels {
	return labels.FromStrings("__name__", "late", "i", fmt.Sprint(i))
}
