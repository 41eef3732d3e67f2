package fileutil_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

func TestDropCache_LosesNothing(t *testing.T) {
	f := newFile(t, 1<<16)
	require.NoError(t, f.Sync())
	require.NoError(t, fileutil.DropCache(f))
	n, err := f.ReadAt(make([]byte, 1<<16), 0)
	require.NoError(t, err)
	require.Equal(t, 1<<16, n)
	require.NoError(t, f.Close())
}

func TestCachedBytes_OfAFileSystemThatDoesNotTell_IsUnsupported(t *testing.T) {
	f, err := tsdbtest.NewMemFS().Create("a")
	require.NoError(t, err)
	_, err = fileutil.CachedBytes(f)
	require.ErrorIs(t, err, fileutil.ErrUnsupported)
	require.NoError(t, f.Close())
}

func newFile(t *testing.T, size int) fileutil.File {
	t.Helper()
	f, err := fileutil.OS.Create(filepath.Join(t.TempDir(), "a"))
	require.NoError(t, err)
	_, err = f.Write(make([]byte, size))
	require.NoError(t, err)
	return f
}
