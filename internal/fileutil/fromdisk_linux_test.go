package fileutil_test

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

func TestOpenDirect_LeavesThePageCacheAsItIs(t *testing.T) {
	needsCachedBytes(t)
	path := filepath.Join(t.TempDir(), "a")
	writeSynced(t, fileutil.OS, path, 3<<20)
	f, err := fileutil.OS.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	readDirectly := func() {
		d, err := fileutil.OpenDirect(fileutil.OS, path)
		if errors.Is(err, fileutil.ErrUnsupported) {
			t.Skip("the file system of the temporary directory has no direct I/O (O_DIRECT)")
		}
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, d)
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
	readDirectly()
	requireCached(t, 3<<20, f)
	require.NoError(t, fileutil.DropCache(f))
	before, err := fileutil.CachedBytes(f) // a few pages at most, as far as the advice was taken
	require.NoError(t, err)
	readDirectly()
	requireCached(t, before, f)
}
