package ship_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/thanos-io/objstore"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/prom/ship"
)

// cachedBytes is what the page cache has of files.
func cachedBytes(t *testing.T, files []string) (n int64) {
	t.Helper()
	for _, name := range files {
		f, err := fileutil.OS.Open(name)
		require.NoError(t, err)
		cached, err := fileutil.CachedBytes(f)
		require.NoError(t, f.Close())
		if errors.Is(err, fileutil.ErrUnsupported) {
			t.Skip("the file system of the temporary directory does not tell what is cached")
		}
		require.NoError(t, err)
		n += cached
	}
	return n
}

// An upload leaves the page cache as it is: what is in there stays, and what is not stays out.
func TestSync_LeavesThePageCacheAsItIs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	var files []string
	size := int64(0)
	for _, name := range largeBlocks(t, fileutil.OS, dir, 2) {
		for _, file := range blockFiles {
			files = append(files, filepath.Join(dir, name, file))
			info, err := os.Stat(files[len(files)-1])
			require.NoError(t, err)
			size += info.Size()
		}
	}
	if !fileutil.HasDirect(fileutil.OS, files[0]) {
		t.Skip("the file system of the temporary directory does not say that it has direct I/O (STATX_DIOALIGN)")
	}
	upload := func() {
		s, err := ship.NewDir(dir, objstore.NewInMemBucket(), ship.Options{Labels: external})
		require.NoError(t, err)
		n, err := s.Sync(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		require.NoError(t, os.Remove(filepath.Join(dir, "thanos.shipper.json"))) // the next one uploads them again
	}
	for _, name := range files {
		_, err := os.ReadFile(name)
		require.NoError(t, err)
	}
	require.Equal(t, size, cachedBytes(t, files))
	upload()
	require.Equal(t, size, cachedBytes(t, files))

	for _, name := range files {
		f, err := fileutil.OS.Open(name)
		require.NoError(t, err)
		require.NoError(t, fileutil.DropCache(f))
		require.NoError(t, f.Close())
	}
	before := cachedBytes(t, files) // a few pages, as far as the advice was taken
	require.Less(t, before, size/2)
	upload()
	require.Equal(t, before, cachedBytes(t, files))
	t.Logf("%d bytes are uploaded, %d of them cached before and after", size, before)
}
