//go:build unix

package fileutil_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// holderEnv makes this test binary a process that holds the lock of a directory.
const holderEnv = "TSDB_TEST_LOCK_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holderEnv); dir != "" {
		holdLock(dir)
	}
	os.Exit(m.Run())
}

// holdLock says what became of the lock and keeps it until its standard input ends.
func holdLock(dir string) {
	l, err := fileutil.OS.LockDir(dir, fmt.Sprintf("pid %d, holder", os.Getpid()))
	if err != nil {
		fmt.Println("refused:", err)
		os.Exit(0)
	}
	fmt.Println("locked")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := l.Release(); err != nil {
		fmt.Println("release:", err)
	}
	os.Exit(0)
}

type holder struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	said  string
}

func startHolder(t *testing.T, dir string) *holder {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	h := &holder{cmd: exec.Command(exe)}
	h.cmd.Env = append(os.Environ(), holderEnv+"="+dir)
	h.stdin, err = h.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := h.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, h.cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	h.said = line
	return h
}

func (h *holder) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, h.stdin.Close())
	require.NoError(t, h.cmd.Wait())
}

func TestLockDir_AnotherProcessKeepsUsOut(t *testing.T) {
	dir := t.TempDir()
	h := startHolder(t, dir)
	require.Equal(t, "locked\n", h.said)
	_, err := fileutil.OS.LockDir(dir, "us")
	require.ErrorIs(t, err, fileutil.ErrLocked)
	require.ErrorContains(t, err, fmt.Sprintf("pid %d, holder", h.cmd.Process.Pid))
	h.stop(t)

	l, err := fileutil.OS.LockDir(dir, "us")
	require.NoError(t, err)
	second := startHolder(t, dir)
	require.Contains(t, second.said, "refused")
	require.Contains(t, second.said, `"us"`)
	second.stop(t)
	require.NoError(t, l.Release())
}

func TestLockDir_KilledHolderLeavesAFileThatWeTake(t *testing.T) {
	dir := t.TempDir()
	h := startHolder(t, dir)
	require.Equal(t, "locked\n", h.said)
	require.NoError(t, h.cmd.Process.Kill())
	require.Error(t, h.cmd.Wait())
	_, err := os.Stat(filepath.Join(dir, fileutil.LockName))
	require.NoError(t, err, "a killed process removes nothing")

	l, err := fileutil.OS.LockDir(dir, "us")
	require.NoError(t, err)
	require.NoError(t, l.Check())
	require.NoError(t, l.Release())
}

// The reference takes flock(2) on the same file, and nothing else.
// A process that is being started has our open files until it is on its feet. It must
// not keep us out of a directory that we have given up meanwhile.
func TestLockDir_AnInheritedFileDoesNotKeepTheLock(t *testing.T) {
	dir := t.TempDir()
	l, err := fileutil.OS.LockDir(dir, "first")
	require.NoError(t, err)
	dups := 0
	for _, name := range []string{fileutil.LockName, fileutil.OwnerName} {
		var file unix.Stat_t
		require.NoError(t, unix.Stat(filepath.Join(dir, name), &file))
		for fd := range 1000 {
			var st unix.Stat_t
			if unix.Fstat(fd, &st) != nil || st.Ino != file.Ino || st.Dev != file.Dev {
				continue
			}
			dup, err := unix.Dup(fd)
			require.NoError(t, err)
			defer unix.Close(dup)
			dups++
			break
		}
	}
	require.Equal(t, 2, dups)
	require.NoError(t, l.Release())
	again, err := fileutil.OS.LockDir(dir, "second")
	require.NoError(t, err)
	require.NoError(t, again.Release())
}

func TestLockDir_ExcludesAForeignFlock(t *testing.T) {
	dir := t.TempDir()
	before, err := fileutil.OS.LockDir(dir, "us, long ago")
	require.NoError(t, err)
	require.NoError(t, before.Release())
	foreign, err := os.OpenFile(filepath.Join(dir, fileutil.LockName), os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(foreign.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	_, err = fileutil.OS.LockDir(dir, "us")
	require.ErrorIs(t, err, fileutil.ErrLocked)
	require.ErrorContains(t, err, "another program")
	require.NoError(t, unix.Flock(int(foreign.Fd()), unix.LOCK_UN))

	l, err := fileutil.OS.LockDir(dir, "us")
	require.NoError(t, err)
	require.ErrorIs(t, unix.Flock(int(foreign.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
	require.NoError(t, l.Release())
	require.NoError(t, foreign.Close())
}

// The reference unlocks and then unlinks, so a file that was open meanwhile may be
// locked when it has no name any more.
func TestLockDir_UnlinkedFileLocksNothing(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, fileutil.LockName)
	gone, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(gone.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	require.NoError(t, os.Remove(name))

	l, err := fileutil.OS.LockDir(dir, "us")
	require.NoError(t, err, "the nameless file keeps nobody out")
	require.NoError(t, l.Check())
	held, err := os.Stat(name)
	require.NoError(t, err)
	other, err := gone.Stat()
	require.NoError(t, err)
	require.False(t, os.SameFile(held, other))
	require.NoError(t, l.Release())
	require.NoError(t, gone.Close())
}

// Whoever gets the lock has the file that the path names, and is alone, although
// every release removes the file under the feet of those who opened it before.
func TestLockDir_UnlinkRaceOfOurOwnHasOneWinner(t *testing.T) {
	dir := t.TempDir()
	raceForLock(t, dir, func(l fileutil.DirLock) error { return l.Check() }, nil)
}

// The same beside the reference, which unlocks before it unlinks, and so may remove
// a file that is locked by then. Only the private lock helps against a second one
// of us; Check tells.
func TestLockDir_UnlinkRaceWithTheReferenceHasOneWinner(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, fileutil.LockName)
	raceForLock(t, dir, func(fileutil.DirLock) error { return nil }, func() error {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
			_ = os.Remove(name)
		}
		return f.Close()
	})
	_, err := os.Stat(filepath.Join(dir, fileutil.OwnerName))
	require.NoError(t, err)
}

// raceForLock lets four goroutines take the lock 200 times each, and a stranger
// do as often what it does.
func raceForLock(t *testing.T, dir string, check func(fileutil.DirLock) error, stranger func() error) {
	const rounds = 200
	var inside, wins atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range rounds {
				l, err := fileutil.OS.LockDir(dir, "us")
				if err != nil {
					if !isLocked(err) {
						t.Error(err)
					}
					continue
				}
				wins.Add(1)
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d holders at once", n)
				}
				if err := check(l); err != nil {
					t.Error(err)
				}
				inside.Add(-1)
				if err := l.Release(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range rounds {
		if stranger != nil {
			if err := stranger(); err != nil {
				t.Error(err)
			}
		}
	}
	wg.Wait()
	require.Positive(t, wins.Load())
}

func isLocked(err error) bool { return errors.Is(err, fileutil.ErrLocked) }

func TestLockDir_ReadOnlyDirectoryIsAPlainError(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o555))
	_, err := fileutil.OS.LockDir(dir, "us")
	require.ErrorIs(t, err, fs.ErrPermission)
}
