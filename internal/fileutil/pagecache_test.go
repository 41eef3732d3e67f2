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

// halfCached has the first half of a file in the page cache.
type halfCached struct{ fileutil.File }

func (f halfCached) IsCached(off int64) (bool, error) { return off < 1<<19, nil }

func TestCachedBytes_Estimates(t *testing.T) {
	f := newFile(t, 1<<20)
	cached, err := fileutil.CachedBytes(halfCached{f})
	require.NoError(t, err)
	require.EqualValues(t, 1<<19, cached)
	require.NoError(t, f.Close())
	_, err = fileutil.CachedBytes(halfCached{f})
	require.Error(t, err)

	f = newFile(t, 0)
	cached, err = fileutil.CachedBytes(halfCached{f})
	require.NoError(t, err)
	require.Zero(t, cached)
	require.NoError(t, f.Close())

	m, err := tsdbtest.NewMemFS().Create("a")
	require.NoError(t, err)
	_, err = m.Write(make([]byte, 100))
	require.NoError(t, err)
	_, err = fileutil.CachedBytes(m)
	require.ErrorIs(t, err, fileutil.ErrUnsupported)
	require.NoError(t, m.Close())
}

func newFile(t *testing.T, size int) fileutil.File {
	t.Helper()
	f, err := fileutil.OS.Create(filepath.Join(t.TempDir(), "a"))
	require.NoError(t, err)
	_, err = f.Write(make([]byte, size))
	require.NoError(t, err)
	return f
}
