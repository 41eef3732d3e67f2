package fileutil_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// needsCachedBytes skips the test where the system does not tell. An overlay file system has no
// pages of its own and says so.
func needsCachedBytes(t *testing.T) {
	t.Helper()
	f := newFile(t, 1)
	_, err := fileutil.ProbeCached(f, 1)
	require.NoError(t, f.Close())
	if errors.Is(err, fileutil.ErrUnsupported) {
		t.Skip("overlayfs and older tmpfs, where the temporary directory is, do not tell what is cached (RWF_NOWAIT)")
	}
	require.NoError(t, err)
}

func requireCached(t *testing.T, bytes int64, f fileutil.File) {
	t.Helper()
	n, err := fileutil.CachedBytes(f)
	require.NoError(t, err)
	require.Equal(t, bytes, n)
}

func TestCachedBytes_OfAFileJustWritten_IsAllOfIt(t *testing.T) {
	needsCachedBytes(t)
	for _, size := range []int{0, 1, 1<<20 + 7} {
		f := newFile(t, size)
		requireCached(t, int64(size), f)
		if size > 0 {
			n, err := fileutil.ProbeCached(f, int64(size))
			require.NoError(t, err)
			require.EqualValues(t, size, n)
		}
		require.NoError(t, f.Close())
		_, err := fileutil.CachedBytes(f)
		require.ErrorIs(t, err, os.ErrClosed)
	}
}

// Of a file that was dropped, as far as the system took the advice: tmpfs does not.
func TestCachedBytes_AskingTwice_IsTheSame(t *testing.T) {
	needsCachedBytes(t)
	f := newFile(t, 16<<20)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	require.NoError(t, f.Sync())
	require.NoError(t, fileutil.DropCache(f))
	n, err := fileutil.CachedBytes(f)
	require.NoError(t, err)
	requireCached(t, n, f)
}

func TestCachedBytes_WithoutCachestat_IsEstimated(t *testing.T) {
	n, err := fileutil.EstimateCached(1<<20, func(off int64) (bool, error) { return off < 1<<19, nil })
	require.NoError(t, err)
	require.EqualValues(t, 1<<19, n)
	_, err = fileutil.EstimateCached(1<<20, func(int64) (bool, error) { return false, syscall.EIO })
	require.ErrorIs(t, err, syscall.EIO)

	for err, lacks := range map[error]bool{
		nil: false, syscall.EIO: false, syscall.ENOSYS: true, syscall.EPERM: true,
		&os.PathError{Op: "cachestat", Err: syscall.EOPNOTSUPP}: true,
	} {
		require.Equal(t, lacks, fileutil.LacksCachestat(err), err)
	}
}
