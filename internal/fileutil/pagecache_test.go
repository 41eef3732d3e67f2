package fileutil_test

import (
	"path/filepath"
	"testing"

	"github.com/pkg/errors"
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

func TestCachedPart(t *testing.T) {
	f := newFile(t, 1<<20)
	part, err := fileutil.CachedPart(f)
	if !errors.Is(err, fileutil.ErrUnsupported) {
		require.NoError(t, err)
		require.Equal(t, 1.0, part, "nobody has written it to a disk yet")
	}
	require.NoError(t, f.Close())
	part, err = fileutil.CachedPart(f)
	require.Error(t, err)
	require.Zero(t, part)

	f = newFile(t, 0)
	part, _ = fileutil.CachedPart(f)
	require.Zero(t, part)
	require.NoError(t, f.Close())

	m, err := tsdbtest.NewMemFS().Create("a")
	require.NoError(t, err)
	_, err = fileutil.CachedPart(m)
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
