package ship_test

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/thanos-io/objstore"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/prom/ship"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// largeBlocks makes a data directory with blocks whose files take many reads, and returns their
// names.
func largeBlocks(t *testing.T, fsys tsdb.FS, dir string, n int) (names []string) {
	t.Helper()
	clock := tsdbtest.NewClock(time.UnixMilli(1_700_000_000_000).Truncate(blockRange))
	db, err := tsdb.Open(dir, &tsdb.Options{FS: fsys, Clock: clock, Blocks: tsdb.BlockOptions{Manual: true, Range: blockRange, MaxRange: blockRange}})
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(5, 6))
	for range n {
		for range 3 {
			app := db.Appender()
			for i := range 6000 {
				_, err := app.Append(0, labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)), clock.Now().UnixMilli(), random.Float64())
				require.NoError(t, err)
			}
			_, err := app.Commit(ctx)
			require.NoError(t, err)
			clock.Advance(time.Minute)
		}
		clock.Advance(blockRange)
		require.NoError(t, db.Flush(ctx))
	}
	for _, m := range db.Blocks() {
		names = append(names, m.ULID.String())
	}
	require.NoError(t, db.Close())
	require.Len(t, names, n)
	return names
}

// blockFiles are those of a block that are large.
var blockFiles = []string{"index", "chunks/000001"}

// readFS counts how often each byte of a file is read, by the block and the file, wherever a link
// to it is. One that is mapped counts as read.
type readFS struct {
	tsdb.FS
	mu    sync.Mutex
	reads map[string][]int
}

func (r *readFS) Open(name string) (fileutil.File, error) {
	f, err := r.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &readFile{f, r, name}, nil
}

type readFile struct {
	fileutil.File
	fs   *readFS
	name string
}

func (f *readFile) count(off, n int64) {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	for _, file := range blockFiles {
		dir, ok := cutFile(f.name, file)
		if !ok {
			continue
		}
		key := filepath.Base(dir) + "/" + file
		reads := f.fs.reads[key]
		for int64(len(reads)) < off+n {
			reads = append(reads, 0)
		}
		for i := off; i < off+n; i++ {
			reads[i]++
		}
		f.fs.reads[key] = reads
	}
}

// cutFile returns what is in front of a file.
func cutFile(name, file string) (dir string, ok bool) {
	end := string(filepath.Separator) + filepath.FromSlash(file)
	if at := len(name) - len(end); at > 0 && name[at:] == end {
		return name[:at], true
	}
	return "", false
}

func (f *readFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	f.count(off, int64(n))
	return n, err
}

func (f *readFile) Mmap(length int64) (fileutil.Mapping, error) {
	f.count(0, length)
	return f.File.Mmap(length)
}

// Each byte of a block is read once to be uploaded, though it is looked at on its way, and not
// again by who finds it uploaded.
func TestSync_ReadsEachByteOnce(t *testing.T) {
	disk := &readFS{FS: tsdbtest.NewMemFS(), reads: map[string][]int{}}
	names := largeBlocks(t, disk, "data", 2)
	clear(disk.reads)
	b := newCounted(objstore.NewInMemBucket())
	sync := func(want int) {
		s, err := ship.NewDir("data", b, ship.Options{Labels: external, FS: disk})
		require.NoError(t, err)
		n, err := s.Sync(ctx)
		require.NoError(t, err)
		require.Equal(t, want, n)
	}
	sync(2)
	require.Len(t, disk.reads, len(names)*len(blockFiles))
	for _, name := range names {
		for _, file := range blockFiles {
			info, err := disk.Stat(filepath.Join("data", name, filepath.FromSlash(file)))
			require.NoError(t, err)
			require.Greater(t, info.Size(), int64(100<<10))
			reads := disk.reads[name+"/"+file]
			require.Len(t, reads, int(info.Size()), file)
			for off, n := range reads {
				if n != 1 {
					t.Fatalf("byte %d of %s is read %d times", off, file, n)
				}
			}
		}
	}
	b.once(t)
	clear(disk.reads)
	sync(0)
	require.Empty(t, disk.reads)
}
