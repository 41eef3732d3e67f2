package marks

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// One Store has a file until it is closed, whatever the file is called and whoever asks.
func TestOpen_OfAFileThatIsInUse(t *testing.T) {
	held := func(fsys fileutil.FS) fileutil.FS { return fileutil.Held(fsys, func() error { return nil }) }
	mem := tsdbtest.NewMemFS()
	s, _, err := Open(held(mem), testPath)
	require.NoError(t, err)
	for _, fsys := range []fileutil.FS{mem, held(mem), held(held(mem))} {
		_, _, err = Open(fsys, testPath)
		require.ErrorIs(t, err, ErrInUse)
		_, _, err = Open(fsys, "data/./remote-write//a.marks")
		require.ErrorIs(t, err, ErrInUse)
	}
	for _, other := range []struct {
		fs   fileutil.FS
		path string
	}{{mem, "data/remote-write/b.marks"}, {mem, "other/remote-write/a.marks"}, {tsdbtest.NewMemFS(), testPath}} {
		o, _, err := Open(other.fs, other.path)
		require.NoError(t, err)
		require.NoError(t, o.Close())
	}
	require.NoError(t, s.Close())
	s, _, err = Open(mem, testPath)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// A path that begins at the working directory is the same as one that begins at the root.
func TestOpen_OfAFileThatIsInUse_ByAnotherPath(t *testing.T) {
	t.Chdir(t.TempDir())
	dir, err := os.Getwd()
	require.NoError(t, err)
	s, _, err := Open(fileutil.OS, "a.marks")
	require.NoError(t, err)
	_, _, err = Open(fileutil.OS, filepath.Join(dir, "a.marks"))
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, s.Close())
}

// What fails to open, or to close, has the file no longer.
func TestOpen_ThatFails_LeavesTheFile(t *testing.T) {
	fsys := faultfs.New(tsdbtest.NewMemFS())
	s, _, err := Open(fsys, testPath)
	require.NoError(t, err)
	require.NoError(t, s.Rewrite(nil))
	fsys.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpSync}, Err: syscall.EIO})
	require.ErrorIs(t, s.Close(), syscall.EIO)
	fsys.Lift()
	fsys.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpOpen}, Err: syscall.EIO})
	_, _, err = Open(fsys, testPath)
	require.ErrorIs(t, err, syscall.EIO)
	fsys.Lift()
	s, _, err = Open(fsys, testPath)
	require.NoError(t, err)
	require.NoError(t, s.Close())
}

// uncomparable is a file system as a value that cannot be compared.
type uncomparable struct {
	fileutil.FS
	_ []int
}

// A file system that cannot be compared is known by what a database puts around it.
func TestOpen_InAFileSystemThatCannotBeCompared(t *testing.T) {
	fsys := fileutil.Held(uncomparable{FS: tsdbtest.NewMemFS()}, func() error { return nil })
	s, _, err := Open(fsys, testPath)
	require.NoError(t, err)
	_, _, err = Open(fsys, testPath)
	require.ErrorIs(t, err, ErrInUse)
	require.NoError(t, s.Close())
}
