package tsdbtest_test

import (
	"io"
	"io/fs"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// forEachFS runs a test of the contract in fileutil on every implementation. dir
// exists and is empty.
func forEachFS(t *testing.T, test func(t *testing.T, fsys fileutil.FS, dir string)) {
	t.Run("OS", func(t *testing.T) { test(t, fileutil.OS, t.TempDir()) })
	t.Run("MemFS", func(t *testing.T) {
		m := tsdbtest.NewMemFS()
		require.NoError(t, m.MkdirAll("data/dir"))
		test(t, m, "data/dir")
		require.Empty(t, m.OpenHandles())
	})
	t.Run("faultfs", func(t *testing.T) {
		m := tsdbtest.NewMemFS()
		test(t, faultfs.New(m), "/")
		require.Empty(t, m.OpenHandles())
	})
}

func write(t *testing.T, fsys fileutil.FS, name, data string) {
	t.Helper()
	f, err := fsys.Create(name)
	require.NoError(t, err)
	n, err := f.Write([]byte(data))
	require.NoError(t, err)
	require.Equal(t, len(data), n)
	require.NoError(t, f.Close())
}

func read(t *testing.T, fsys fileutil.FS, name string) string {
	t.Helper()
	data, err := fileutil.ReadFile(fsys, name, 1<<20)
	require.NoError(t, err)
	return string(data)
}

func TestFS_CreateRefusesWhatExists(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		name := filepath.Join(dir, "a")
		write(t, fsys, name, "first")
		_, err := fsys.Create(name)
		require.ErrorIs(t, err, fs.ErrExist)
		require.Equal(t, "first", read(t, fsys, name))
	})
}

func TestFS_MissingThingsAreErrNotExist(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		name := filepath.Join(dir, "missing")
		_, err := fsys.Open(name)
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = fsys.OpenWrite(name)
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = fsys.Create(filepath.Join(name, "a"))
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = fsys.ReadDir(name)
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = fsys.Stat(name)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorIs(t, fsys.Remove(name), fs.ErrNotExist)
		require.ErrorIs(t, fsys.Rename(name, filepath.Join(dir, "b")), fs.ErrNotExist)
		require.ErrorIs(t, fsys.Link(name, filepath.Join(dir, "b")), fs.ErrNotExist)
		_, err = fsys.LockDir(name, "me")
		require.ErrorIs(t, err, fs.ErrNotExist)
		if runtime.GOOS != "windows" {
			require.ErrorIs(t, fsys.SyncDir(name), fs.ErrNotExist)
		}
	})
}

func TestFile_WritesAppendAndReadsSeeThem(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		name := filepath.Join(dir, "a")
		f, err := fsys.Create(name)
		require.NoError(t, err)
		require.Equal(t, name, f.Name())
		for _, s := range []string{"one ", "", "two"} {
			n, err := f.Write([]byte(s))
			require.NoError(t, err)
			require.Equal(t, len(s), n)
		}
		size, err := f.Size()
		require.NoError(t, err)
		require.EqualValues(t, 7, size)

		buf := make([]byte, 5)
		n, err := f.ReadAt(buf, 4)
		require.Equal(t, io.EOF, err, "bare, as io.ReaderAt asks for")
		require.Equal(t, "two", string(buf[:n]))
		n, err = f.ReadAt(buf[:3], 4)
		require.Equal(t, 3, n)
		require.True(t, err == nil || err == io.EOF)
		n, err = f.ReadAt(buf, 100)
		require.Zero(t, n)
		require.Equal(t, io.EOF, err)
		_, err = f.ReadAt(buf, -1)
		require.Error(t, err)
		require.NoError(t, f.Sync())
		require.NoError(t, f.Close())
		require.NoError(t, fsys.SyncDir(dir))
	})
}

func TestFile_OpenWriteStartsAtTheEnd(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		name := filepath.Join(dir, "a")
		write(t, fsys, name, "one ")
		f, err := fsys.OpenWrite(name)
		require.NoError(t, err)
		_, err = f.Write([]byte("two"))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.Equal(t, "one two", read(t, fsys, name))
	})
}

func TestFile_WriteAfterTruncateGoesToTheNewEnd(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		name := filepath.Join(dir, "a")
		f, err := fsys.Create(name)
		require.NoError(t, err)
		_, err = f.Write([]byte("0123456789"))
		require.NoError(t, err)
		require.NoError(t, f.Truncate(4))
		_, err = f.Write([]byte("ab"))
		require.NoError(t, err)
		require.NoError(t, f.Truncate(8))
		require.NoError(t, f.Close())
		require.Equal(t, "0123ab\x00\x00", read(t, fsys, name))
	})
}

func TestFile_OpenIsForReadingOnly(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		name := filepath.Join(dir, "a")
		write(t, fsys, name, "data")
		f, err := fsys.Open(name)
		require.NoError(t, err)
		_, err = f.Write([]byte("x"))
		require.Error(t, err)
		require.Error(t, f.Truncate(0))
		require.NoError(t, f.Close())
		require.Equal(t, "data", read(t, fsys, name))
	})
}

func TestFile_ClosedFileIsErrClosed(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		f, err := fsys.Create(filepath.Join(dir, "a"))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		_, err = f.Write([]byte("x"))
		require.ErrorIs(t, err, fs.ErrClosed)
		_, err = f.ReadAt(make([]byte, 1), 0)
		require.ErrorIs(t, err, fs.ErrClosed)
		require.ErrorIs(t, f.Sync(), fs.ErrClosed)
		require.ErrorIs(t, f.Close(), fs.ErrClosed)
	})
}

func TestFS_ReadDirIsSortedAndStatTells(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		require.NoError(t, fsys.MkdirAll(filepath.Join(dir, "m", "deep")))
		require.NoError(t, fsys.MkdirAll(filepath.Join(dir, "m", "deep")), "again is fine")
		write(t, fsys, filepath.Join(dir, "z"), "123")
		write(t, fsys, filepath.Join(dir, "a"), "")
		entries, err := fsys.ReadDir(dir)
		require.NoError(t, err)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		require.Equal(t, []string{"a", "m", "z"}, names)
		require.True(t, entries[1].IsDir())
		require.False(t, entries[2].IsDir())

		info, err := fsys.Stat(filepath.Join(dir, "z"))
		require.NoError(t, err)
		require.Equal(t, "z", info.Name())
		require.EqualValues(t, 3, info.Size())
		require.True(t, info.Mode().IsRegular())
		info, err = fsys.Stat(filepath.Join(dir, "m"))
		require.NoError(t, err)
		require.True(t, info.IsDir())

		_, err = fsys.ReadDir(filepath.Join(dir, "z"))
		require.Error(t, err)
		require.Error(t, fsys.MkdirAll(filepath.Join(dir, "z", "below")))
	})
}

func TestFS_RenameReplacesFilesAndMovesDirectories(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		at := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
		write(t, fsys, at("a"), "new")
		write(t, fsys, at("b"), "old")
		require.NoError(t, fsys.Rename(at("a"), at("b")))
		require.Equal(t, "new", read(t, fsys, at("b")))
		_, err := fsys.Stat(at("a"))
		require.ErrorIs(t, err, fs.ErrNotExist)

		require.NoError(t, fsys.MkdirAll(at("d1", "sub")))
		require.NoError(t, fsys.MkdirAll(at("d2")))
		require.NoError(t, fsys.Rename(at("b"), at("d1", "sub", "c")))
		require.NoError(t, fsys.Rename(at("d1"), at("d3")))
		require.Equal(t, "new", read(t, fsys, at("d3", "sub", "c")))
		require.NoError(t, fsys.Rename(at("d3", "sub"), at("d2", "sub")))
		require.Equal(t, "new", read(t, fsys, at("d2", "sub", "c")))

		write(t, fsys, at("f"), "")
		require.Error(t, fsys.Rename(at("f"), at("d3")), "a directory is not replaced")
		require.Error(t, fsys.Rename(at("d3"), at("d2")), "nor by a directory")
		require.Error(t, fsys.Rename(at("d2"), at("d2", "sub", "x")), "nor moved into itself")
		if runtime.GOOS != "windows" {
			require.Error(t, fsys.Rename(at("d3"), at("f")), "nor does it replace a file")
		}
	})
}

func TestFS_LinkIsASecondNameOfTheSameFile(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		write(t, fsys, a, "x")
		require.NoError(t, fsys.Link(a, b))
		require.ErrorIs(t, fsys.Link(a, b), fs.ErrExist)
		f, err := fsys.OpenWrite(a)
		require.NoError(t, err)
		_, err = f.Write([]byte("y"))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.NoError(t, fsys.Remove(a))
		require.Equal(t, "xy", read(t, fsys, b))
		require.Error(t, fsys.Link(dir, filepath.Join(dir, "c")), "directories have one name")
	})
}

func TestFS_RemoveTakesFilesAndEmptyDirectories(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		sub := filepath.Join(dir, "sub")
		require.NoError(t, fsys.MkdirAll(sub))
		write(t, fsys, filepath.Join(sub, "a"), "x")
		require.Error(t, fsys.Remove(sub))
		require.NoError(t, fsys.Remove(filepath.Join(sub, "a")))
		require.NoError(t, fsys.Remove(sub))
		_, err := fsys.Stat(sub)
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}

func TestFile_RemovedFileLivesUntilItIsClosed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("open files cannot be removed")
	}
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		name := filepath.Join(dir, "a")
		f, err := fsys.Create(name)
		require.NoError(t, err)
		require.NoError(t, fsys.Remove(name))
		_, err = f.Write([]byte("still here"))
		require.NoError(t, err)
		buf := make([]byte, 5)
		_, err = f.ReadAt(buf, 0)
		require.NoError(t, err)
		require.Equal(t, "still", string(buf))
		require.NoError(t, f.Close())
	})
}

func TestMapping_SeesLaterWritesBeyondTheOldEnd(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		f, err := fsys.Create(filepath.Join(dir, "a"))
		require.NoError(t, err)
		_, err = f.Write([]byte("head"))
		require.NoError(t, err)
		m, err := f.Mmap(1 << 20)
		require.NoError(t, err)
		b, err := m.At(0, 4)
		require.NoError(t, err)
		require.Equal(t, "head", string(b))

		_, err = f.Write(make([]byte, 100_000))
		require.NoError(t, err)
		_, err = f.Write([]byte("tail"))
		require.NoError(t, err)
		b, err = m.At(100_004, 4)
		require.NoError(t, err)
		require.Equal(t, "tail", string(b))

		require.NoError(t, f.Close())
		b, err = m.At(2, 2)
		require.NoError(t, err, "a mapping outlives its file")
		require.Equal(t, "ad", string(b))
		require.NoError(t, m.Close())
		require.NoError(t, m.Close())
		_, err = m.At(0, 1)
		require.ErrorIs(t, err, fs.ErrClosed)
	})
}

func TestMapping_RefusesWhatIsOutside(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		name := filepath.Join(dir, "a")
		write(t, fsys, name, "0123456789")
		f, err := fsys.Open(name)
		require.NoError(t, err)
		m, err := f.Mmap(10)
		require.NoError(t, err)
		b, err := m.At(10, 0)
		require.NoError(t, err)
		require.Empty(t, b)
		for _, c := range []struct {
			off int64
			n   int
		}{{-1, 1}, {0, -1}, {0, 11}, {10, 1}, {11, 0}, {1 << 62, 1 << 30}, {-1 << 63, 1}} {
			_, err := m.At(c.off, c.n)
			require.ErrorIs(t, err, fileutil.ErrOutOfRange, "%v", c)
		}
		require.NoError(t, m.Close())

		empty, err := f.Mmap(0)
		require.NoError(t, err)
		_, err = empty.At(0, 0)
		require.NoError(t, err)
		require.NoError(t, empty.Close())
		_, err = f.Mmap(-1)
		require.Error(t, err)
		require.NoError(t, f.Close())
	})
}

// A caller guards both the call and the use: the real file system faults when the
// bytes are touched, the others tell when they are asked.
func TestMapping_BytesBehindTheEndAreAMemoryFault(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		f, err := fsys.Create(filepath.Join(dir, "a"))
		require.NoError(t, err)
		_, err = f.Write(make([]byte, 3<<16))
		require.NoError(t, err)
		m, err := f.Mmap(4 << 16)
		require.NoError(t, err)
		var sum byte
		touch := func(off int64) error {
			return fileutil.GuardFaults(func() error {
				b, err := m.At(off, 1<<16)
				for _, x := range b {
					sum += x
				}
				return err
			})
		}
		require.NoError(t, touch(2<<16))
		require.ErrorIs(t, touch(3<<16), fileutil.ErrMemoryFault)
		require.NoError(t, f.Truncate(1<<16))
		require.ErrorIs(t, touch(2<<16), fileutil.ErrMemoryFault)
		require.NoError(t, touch(0))
		require.Zero(t, sum)
		require.NoError(t, m.Close())
		require.NoError(t, f.Close())
	})
}

func TestLockDir_SecondHolderIsRefusedByName(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		first, err := fsys.LockDir(dir, "pid 17, demo")
		require.NoError(t, err)
		require.NoError(t, first.Check())
		_, err = fsys.LockDir(dir, "second")
		require.ErrorIs(t, err, fileutil.ErrLocked)
		require.ErrorContains(t, err, "pid 17, demo")
		require.NoError(t, first.Check())
		require.NoError(t, first.Release())

		_, err = fsys.Stat(filepath.Join(dir, fileutil.LockName))
		require.ErrorIs(t, err, fs.ErrNotExist, "a clean release removes the shared file")
		_, err = fsys.Stat(filepath.Join(dir, fileutil.OwnerName))
		require.NoError(t, err, "the private one stays")

		second, err := fsys.LockDir(dir, "second")
		require.NoError(t, err)
		require.NoError(t, second.Release())
	})
}

func TestLockDir_StaleFilesAreTaken(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		write(t, fsys, filepath.Join(dir, fileutil.LockName), "")
		write(t, fsys, filepath.Join(dir, fileutil.OwnerName), "somebody who died, with a long name\n")
		l, err := fsys.LockDir(dir, "me")
		require.NoError(t, err)
		_, err = fsys.LockDir(dir, "second")
		require.ErrorContains(t, err, `"me"`)
		require.NoError(t, l.Release())
	})
}

func TestLockDir_RemovedOrReplacedFileIsNoticed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the file cannot be removed while it is held")
	}
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		name := filepath.Join(dir, fileutil.LockName)
		l, err := fsys.LockDir(dir, "first")
		require.NoError(t, err)
		require.NoError(t, fsys.Remove(name))
		require.ErrorIs(t, l.Check(), fileutil.ErrLockLost)
		_, err = fsys.LockDir(dir, "second")
		require.ErrorIs(t, err, fileutil.ErrLocked, "the private lock still holds")
		require.ErrorContains(t, err, "first")

		write(t, fsys, name, "")
		require.ErrorIs(t, l.Check(), fileutil.ErrLockLost)
		require.NoError(t, l.Release())
		_, err = fsys.Stat(name)
		require.NoError(t, err, "somebody else's file is not removed")
	})
}

func TestFS_ParallelUseIsSafe(t *testing.T) {
	forEachFS(t, func(t *testing.T, fsys fileutil.FS, dir string) {
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				name := filepath.Join(dir, string(rune('a'+i)))
				for range 20 {
					if err := fileutil.WriteFileAtomic(fsys, name+".tmp", name, []byte(name)); err != nil {
						t.Error(err)
					}
					if got, err := fileutil.ReadFile(fsys, name, 100); err != nil || string(got) != name {
						t.Error(err, got)
					}
				}
			})
		}
		wg.Wait()
	})
}
