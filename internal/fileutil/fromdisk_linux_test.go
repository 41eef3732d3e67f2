package fileutil_test

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

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
		d, _, err := fileutil.OpenDirect(fileutil.OS, path)
		if errors.Is(err, fileutil.ErrUnsupported) {
			require.False(t, saysDirect(t, path))
			t.Skip("the file system of the temporary directory does not say that it has direct I/O (STATX_DIOALIGN)")
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
	require.True(t, fileutil.HasDirect(fileutil.OS, path))
}

// saysDirect tells whether the kernel says that a file has direct I/O: that of ext4 and xfs does
// since 6.1.
func saysDirect(t *testing.T, path string) bool {
	t.Helper()
	var stat unix.Statx_t
	require.NoError(t, unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_DIOALIGN, &stat))
	return stat.Mask&unix.STATX_DIOALIGN != 0 && stat.Dio_offset_align != 0
}

func TestOpenDirect_OfWhatHasNone_IsUnsupported(t *testing.T) {
	for _, path := range []string{"/proc/self/status", t.TempDir()} {
		_, _, err := fileutil.OpenDirect(fileutil.OS, path)
		require.ErrorIs(t, err, fileutil.ErrUnsupported, path)
		require.False(t, fileutil.HasDirect(fileutil.OS, path))
	}
	r, _, err := fileutil.OpenFromDisk(fileutil.OS, "/proc/self/status", true)
	require.NoError(t, err, "read through the page cache")
	require.NoError(t, r.Close())
}

func TestOpenDirect_GoesByWhatTheKernelSays(t *testing.T) {
	for _, tc := range []struct {
		stat fileutil.Statx
		want bool
	}{
		{fileutil.Statx{}, false},                          // an older kernel
		{fileutil.Statx{Mask: unix.STATX_DIOALIGN}, false}, // not this file
		{fileutil.Statx{Mask: unix.STATX_DIOALIGN, Dio_mem_align: 4, Dio_offset_align: 512}, true},
		{fileutil.Statx{Mask: unix.STATX_DIOALIGN, Dio_mem_align: 4096, Dio_offset_align: 64 << 10}, true},
		{fileutil.Statx{Mask: unix.STATX_DIOALIGN, Dio_mem_align: 4, Dio_offset_align: 128 << 10}, false},
		{fileutil.Statx{Mask: unix.STATX_DIOALIGN, Dio_mem_align: 1 << 20, Dio_offset_align: 512}, false},
	} {
		require.Equal(t, tc.want, fileutil.IsDirect(&tc.stat), "%+v", tc.stat)
	}
}
