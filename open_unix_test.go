//go:build unix

// Permissions as Unix knows them, and processes of another user.

package tsdb_test

import (
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// rootTestsEnv makes a test that cannot have the privileges it needs fail, not skip.
const rootTestsEnv = "TSDB_REQUIRE_ROOT_TESTS"

// skipOrFail ends a test for want of something.
func skipOrFail(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv(rootTestsEnv) == "1" {
		t.Fatal(rootTestsEnv + " is set, but " + reason)
	}
	t.Skip(reason)
}

// insideEnv tells a test that it runs in a process that was made for it.
const insideEnv = "TSDB_TEST_INSIDE"

// runInside runs this test again in a process with attr, and fails if it fails there.
func runInside(t *testing.T, attr *syscall.SysProcAttr, env ...string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	if runtime.GOOS == "linux" {
		cmd.Path = "/proc/self/exe" // another user may not reach the path
	}
	cmd.Dir = "/"
	cmd.Env = append(append(os.Environ(), insideEnv+"=1"), env...)
	cmd.SysProcAttr = attr
	out, err := cmd.CombinedOutput()
	text := string(out)
	switch {
	case err != nil:
		require.NoError(t, err, text)
	case strings.Contains(text, "--- SKIP"):
		skipOrFail(t, text)
	default:
		require.Contains(t, text, "--- PASS: "+t.Name(), text)
	}
}

// nobody is a user without rights, on all systems that have root.
const nobody = 65534

func TestOpen_WithoutPermissionIsAnErrorAndHarmsNothing(t *testing.T) {
	if os.Getuid() == 0 {
		// Root may do everything, so somebody else must try.
		tmp := t.TempDir()
		for dir := tmp; dir != filepath.Clean(os.TempDir()) && len(dir) > 1; dir = filepath.Dir(dir) {
			require.NoError(t, os.Chmod(dir, 0o755))
		}
		require.NoError(t, os.Chown(tmp, nobody, nobody))
		runInside(t, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}, "TMPDIR="+tmp)
		return
	}
	dir := filepath.Join(t.TempDir(), "data")
	opts := &tsdb.Options{}
	opts.Head.SamplesPerChunk = 16
	db, err := tsdb.Open(dir, opts)
	require.NoError(t, err)
	for k := range 100 {
		commitRows(t, db, rows{{`{a="b"}`, int64(k), float64(k)}})
	}
	want := dump(t, db, math.MinInt64, math.MaxInt64)
	require.NoError(t, db.Close())
	before := diskFiles(t, dir)

	for _, c := range []struct {
		path string
		mode os.FileMode
	}{
		{".", 0}, {".", 0o500}, {"wal", 0}, {"wal", 0o500}, {"chunks_head", 0},
		{"wal/00000000", 0}, {"chunks_head/000001", 0}, {"lock.owner", 0},
	} {
		path := filepath.Join(dir, filepath.FromSlash(c.path))
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.NoError(t, os.Chmod(path, c.mode))
		_, err = tsdb.Open(dir, opts)
		require.NoError(t, os.Chmod(path, info.Mode()))
		require.ErrorIs(t, err, fs.ErrPermission, "%s with mode %o", c.path, c.mode)
		require.ErrorContains(t, err, dir)
		require.Equal(t, before, diskFiles(t, dir), "%s with mode %o", c.path, c.mode)
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "..", "closed"), 0o500))
	_, err = tsdb.Open(filepath.Join(dir, "..", "closed", "data"), opts)
	require.ErrorIs(t, err, fs.ErrPermission, "a directory that cannot be made")

	db, err = tsdb.Open(dir, opts)
	require.NoError(t, err)
	r := db.OpenReport()
	require.True(t, r.Clean())
	require.Equal(t, want, dump(t, db, math.MinInt64, math.MaxInt64))
	require.NoError(t, db.Close())
}

// diskFiles returns the content of all files below a directory but those of the lock.
func diskFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), "lock") {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	}))
	return files
}
