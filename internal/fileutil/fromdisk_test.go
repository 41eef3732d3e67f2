package fileutil_test

import (
	"bytes"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// withoutDirect is the real file system, but for direct I/O.
type withoutDirect struct{ fileutil.FS }

// fileSystems has those that read differently, with a directory of theirs.
func fileSystems(t *testing.T) map[string]fileutil.FS {
	return map[string]fileutil.FS{
		t.TempDir():                 fileutil.OS,
		t.TempDir() + "/undirected": withoutDirect{fileutil.OS},
		"/mem":                      tsdbtest.NewMemFS(),
	}
}

// writeSynced makes a file of this many random bytes.
func writeSynced(t *testing.T, fsys fileutil.FS, path string, size int) []byte {
	t.Helper()
	rng := rand.NewChaCha8([32]byte{1})
	b := make([]byte, size)
	_, _ = rng.Read(b)
	require.NoError(t, fsys.MkdirAll(filepath.Dir(path)))
	f, err := fsys.Create(path)
	require.NoError(t, err)
	_, err = f.Write(b)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	return b
}

func TestOpenFromDisk_ReadsEveryByte_OfEverySize(t *testing.T) {
	for dir, fsys := range fileSystems(t) {
		for i, size := range []int{0, 1, 4095, 4096, 4097, 1<<20 - 1, 1 << 20, 1<<20 + 1, 9<<20 + 513} {
			path := filepath.Join(dir, string(rune('a'+i)))
			want := writeSynced(t, fsys, path, size)
			for _, keep := range []bool{true, false} {
				f, n, err := fileutil.OpenFromDisk(fsys, path, keep)
				require.NoError(t, err)
				require.EqualValues(t, size, n)
				got, err := io.ReadAll(f)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got), "%s: %d bytes", path, size)
				last, err := f.Read(make([]byte, 1))
				require.Zero(t, last)
				require.Equal(t, io.EOF, err)
				require.NoError(t, f.Close())
			}
		}
	}
}

func TestOpenFromDisk_OfAFileThatIsCutMeanwhile_EndsEarly(t *testing.T) {
	for dir, fsys := range fileSystems(t) {
		path := filepath.Join(dir, "a")
		want := writeSynced(t, fsys, path, 3<<20)
		f, _, err := fileutil.OpenFromDisk(fsys, path, true)
		require.NoError(t, err)
		w, err := fsys.OpenWrite(path)
		require.NoError(t, err)
		require.NoError(t, w.Truncate(2<<20+7))
		require.NoError(t, w.Close())
		got, err := io.ReadAll(f)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want[:2<<20+7], got), dir)
		require.NoError(t, f.Close())
	}
}

func TestOpenFromDisk_Errors(t *testing.T) {
	for dir, fsys := range fileSystems(t) {
		_, _, err := fileutil.OpenFromDisk(fsys, filepath.Join(dir, "none"), true)
		require.ErrorIs(t, err, fs.ErrNotExist)

		path := filepath.Join(dir, "a")
		writeSynced(t, fsys, path, 3<<20)
		f, _, err := fileutil.OpenFromDisk(fsys, path, true)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		_, err = f.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrClosed, dir)
		require.ErrorIs(t, f.Close(), os.ErrClosed, dir)
	}
}

// refuses is a file system whose direct I/O fails in a way of its own.
type refuses struct {
	fileutil.FS
	err error
}

func (r refuses) OpenDirect(string) (io.ReadCloser, int64, error) { return nil, 0, r.err }

func TestOpenFromDisk_FallsBackOnUnsupportedOnly(t *testing.T) {
	m := tsdbtest.NewMemFS()
	writeSynced(t, m, "a", 10)
	f, _, err := fileutil.OpenFromDisk(refuses{m, fileutil.ErrUnsupported}, "a", true)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	mine := errors.New("mine")
	_, _, err = fileutil.OpenFromDisk(refuses{m, mine}, "a", true)
	require.ErrorIs(t, err, mine)
	_, _, err = fileutil.OpenDirect(m, "a")
	require.ErrorIs(t, err, fileutil.ErrUnsupported)
}

func TestOpenFromDisk_ThroughThePageCache_DropsWhatWasThereBefore_AndUnlessKeptWhatWasRead(t *testing.T) {
	for _, keep := range []bool{true, false} {
		fsys := &faultfs.Advised{FS: tsdbtest.NewMemFS()}
		writeSynced(t, fsys, "a", 20<<20)
		f, _, err := fileutil.OpenFromDisk(fsys, "a", keep)
		require.NoError(t, err)
		opened := fsys.Files[len(fsys.Files)-1]
		require.Equal(t, 1, opened.Dropped)
		_, err = io.CopyBuffer(io.Discard, struct{ io.Reader }{f}, make([]byte, 1<<20))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		if keep {
			require.Equal(t, 1, opened.Dropped)
		} else {
			require.Equal(t, 4, opened.Dropped, "before, after 8 and 16 MiB, at the end")
		}
	}
}
