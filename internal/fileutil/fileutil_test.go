package fileutil_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	pkgerrors "github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

func TestGuardFaults_PassesResultsOn(t *testing.T) {
	require.NoError(t, fileutil.GuardFaults(func() error { return nil }))
	mine := errors.New("mine")
	require.Equal(t, mine, fileutil.GuardFaults(func() error { return mine }))
}

func TestGuardFaults_OtherPanicsGoOn(t *testing.T) {
	require.PanicsWithValue(t, "mine", func() {
		_ = fileutil.GuardFaults(func() error { panic("mine") })
	})
	var missing *struct{ n int }
	require.Panics(t, func() {
		_ = fileutil.GuardFaults(func() error { return fmt.Errorf("%d", missing.n) })
	}, "a nil pointer is a bug, not a fault")
	require.Panics(t, func() {
		var none []byte
		_ = fileutil.GuardFaults(func() error { return fmt.Errorf("%d", none[len(os.Args)]) })
	})
}

func TestGuardFaults_AllocatesNothingOnTheGoodPath(t *testing.T) {
	n := 0
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_ = fileutil.GuardFaults(func() error { n++; return nil })
	}))
}

func BenchmarkGuardFaults(b *testing.B) {
	n := 0
	for b.Loop() {
		_ = fileutil.GuardFaults(func() error { n++; return nil })
	}
}

func TestIsDiskFull_KnowsFullDisksQuotasAndLimits(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		err := pkgerrors.Wrap(&os.PathError{Op: "write", Path: "a", Err: errno}, "append")
		require.True(t, fileutil.IsDiskFull(err), errno)
	}
	require.False(t, fileutil.IsDiskFull(nil))
	require.False(t, fileutil.IsDiskFull(syscall.EIO))
	require.False(t, fileutil.IsDiskFull(errors.New("no space left on device")))
}

func TestDiskSpace_OfTheRealDiskIsPlausible(t *testing.T) {
	free, total, err := fileutil.DiskSpace(fileutil.OS, t.TempDir())
	if errors.Is(err, fileutil.ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	require.Positive(t, total)
	require.LessOrEqual(t, free, total)
	_, _, err = fileutil.DiskSpace(tsdbtest.NewMemFS(), "/")
	require.ErrorIs(t, err, fileutil.ErrUnsupported)
}

// Wherever the power goes, final has one content or the other; and once the call
// returned, the new one.
func TestWriteFileAtomic_PowerCutAnywhereLeavesOldOrNew(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("d/final", []byte("old")))
	require.NoError(t, m.WriteFile("d/tmp", []byte("leftover of a crash")))
	fresh := strings.Repeat("new ", 300)
	states := 0
	check := func(allowed ...string) {
		for disk := range m.CrashStates(2000) {
			states++
			data, err := disk.ReadFile("d/final")
			require.NoError(t, err)
			require.Contains(t, allowed, string(data), disk.FateString())
		}
	}
	m.SetHook(func(op tsdbtest.Op) error {
		if op.Kind.Mutates() {
			check("old", fresh)
		}
		return nil
	})
	require.NoError(t, fileutil.WriteFileAtomic(m, "d/tmp", "d/final", []byte(fresh)))
	check(fresh)
	require.Greater(t, states, 90)
	require.Equal(t, []string{"d/final"}, m.Files())
}

func TestWriteFileAtomic_AnyFaultIsReturnedAndLeavesNoDebris(t *testing.T) {
	for _, fault := range faultfs.Standard() {
		for fault.Nth = 1; ; fault.Nth++ {
			m := tsdbtest.NewMemFS()
			require.NoError(t, m.WriteFile("d/final", []byte("old")))
			f := faultfs.New(m)
			f.Inject(fault)
			err := fileutil.WriteFileAtomic(f, "d/tmp", "d/final", []byte("new"))
			if len(f.Hits()) == 0 {
				require.NoError(t, err)
				break
			}
			require.Error(t, err, f.TraceString())
			data, readErr := m.ReadFile("d/final")
			require.NoError(t, readErr)
			if f.Hits()[0].Kind == tsdbtest.OpSyncDir {
				require.Equal(t, "new", string(data))
			} else {
				require.Equal(t, "old", string(data), f.TraceString())
			}
			if !fault.Sticky {
				require.Equal(t, []string{"d/final"}, m.Files(), f.TraceString())
			}
			require.Empty(t, m.OpenHandles())
		}
	}
}

func TestReadFile_RefusesMoreThanItsLimit(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("a", []byte("12345")))
	data, err := fileutil.ReadFile(m, "a", 5)
	require.NoError(t, err)
	require.Equal(t, "12345", string(data))
	_, err = fileutil.ReadFile(m, "a", 4)
	require.ErrorContains(t, err, "limit")
	require.Empty(t, m.OpenHandles())
}

func TestCopyFile_CopiesAndSyncs(t *testing.T) {
	m := tsdbtest.NewMemFS()
	big := make([]byte, 600_000)
	for i := range big {
		big[i] = byte(i * 7 >> 3)
	}
	require.NoError(t, m.WriteFile("src", big))
	require.NoError(t, fileutil.CopyFile(m, "src", "dst"))
	require.NoError(t, m.SyncDir("/"))
	left := m.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
	data, err := left.ReadFile("dst")
	require.NoError(t, err)
	require.Equal(t, big, data)

	require.ErrorIs(t, fileutil.CopyFile(m, "src", "dst"), os.ErrExist)
	require.ErrorIs(t, fileutil.CopyFile(m, "missing", "other"), os.ErrNotExist)
	require.Empty(t, m.OpenHandles())
}

func TestCopyFile_AnyFaultIsReturnedAndLeavesNoCopy(t *testing.T) {
	for _, fault := range faultfs.Standard() {
		for fault.Nth = 1; ; fault.Nth++ {
			m := tsdbtest.NewMemFS()
			require.NoError(t, m.WriteFile("src", []byte("data")))
			f := faultfs.New(m)
			f.Inject(fault)
			err := fileutil.CopyFile(f, "src", "dst")
			if len(f.Hits()) == 0 {
				require.NoError(t, err)
				break
			}
			require.Error(t, err, f.TraceString())
			if !fault.Sticky {
				require.Equal(t, []string{"src"}, m.Files())
			}
			require.Empty(t, m.OpenHandles())
		}
	}
}

func TestRemoveAll_TakesTreesFilesAndNothing(t *testing.T) {
	m := tsdbtest.NewMemFS()
	for _, name := range []string{"d/a", "d/e/f/b", "d/e/c", "keep", "file"} {
		require.NoError(t, m.WriteFile(name, nil))
	}
	require.NoError(t, fileutil.RemoveAll(m, "d"))
	require.NoError(t, fileutil.RemoveAll(m, "file"))
	require.NoError(t, fileutil.RemoveAll(m, "missing"))
	require.Equal(t, []string{"keep"}, m.Files())
}

func TestRemoveAll_GoesOnAfterAnError(t *testing.T) {
	m := tsdbtest.NewMemFS()
	for _, name := range []string{"d/a", "d/b", "d/c"} {
		require.NoError(t, m.WriteFile(name, nil))
	}
	f := faultfs.New(m)
	f.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpRemove}})
	require.ErrorIs(t, fileutil.RemoveAll(f, "d"), syscall.EIO)
	require.Equal(t, []string{"d/a"}, m.Files())
}

func TestMkdirSync_MakesEveryLevelDurable(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("a/file", nil))
	require.NoError(t, fileutil.MkdirSync(m, "a/b/c"))
	require.NoError(t, fileutil.MkdirSync(m, "a/b/c"), "again is fine")
	left := m.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
	require.Equal(t, []string{"a/b/c/", "a/file"}, left.Files())
	require.NoError(t, fileutil.MkdirSync(fileutil.OS, filepath.Join(t.TempDir(), "x", "y")))
}

// Whenever the first attempt ends, the second one makes good what it left.
func TestMkdirSync_FinishesWhatWasCutShort(t *testing.T) {
	done := false
	for n := int64(1); !done; n++ {
		m := tsdbtest.NewMemFS()
		var left *tsdbtest.MemFS
		m.SetHook(func(op tsdbtest.Op) error {
			if op.N == n {
				left = m.KillClone()
			}
			return nil
		})
		require.NoError(t, fileutil.MkdirSync(m, "a/b/c"))
		if done = left == nil; done {
			left = m
		}
		require.NoError(t, fileutil.MkdirSync(left, "a/b/c"))
		require.Equal(t, []string{"a/b/c/"}, left.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll}).Files())
	}
}

func TestMkdirSync_NeedsNoRightToReadTheParent(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("a/file", nil))
	m.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpSyncDir {
			return &fs.PathError{Op: "open", Path: op.Name, Err: syscall.EACCES}
		}
		return nil
	})
	require.NoError(t, fileutil.MkdirSync(m, "a"))
	require.ErrorIs(t, fileutil.MkdirSync(m, "a/b"), fs.ErrPermission, "but a new name is durable, or it is an error")
}

func TestOwnerText_NamesTheProcess(t *testing.T) {
	text := fileutil.OwnerText(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	require.Equal(t, fmt.Sprintf("pid %d, %s, 2026-01-02T03:04:05Z", os.Getpid(), filepath.Base(os.Args[0])), text)
}

func TestForget_WhatIsForgottenReadsAsBefore(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	want := make([]byte, 5*os.Getpagesize()+17)
	for i := range want {
		want[i] = byte(i * 7)
	}
	require.NoError(t, os.WriteFile(name, want, 0o666))
	f, err := fileutil.OS.Open(name)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	m, err := f.Mmap(int64(len(want)))
	require.NoError(t, err)
	size := int64(len(want))
	for _, r := range [][2]int64{{0, size}, {1, 3}, {100, 3 * int64(os.Getpagesize())}, {size - 1, 1}, {size, 0}, {-5, 10}, {size + 100, 5}, {0, size + 100}} {
		fileutil.Forget(m, r[0], r[1])
		got, err := m.At(0, len(want))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.NoError(t, m.Close())
	fileutil.Forget(m, 0, size)
}

// A link is a name, and what it leads to is somebody's.
func TestRemoveAll_OfALinkTakesTheLinkOnly(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept", "below")
	require.NoError(t, os.MkdirAll(kept, 0o777))
	for _, link := range []string{"link", filepath.Join("tree", "link")} {
		link = filepath.Join(dir, link)
		require.NoError(t, os.MkdirAll(filepath.Dir(link), 0o777))
		if err := os.Symlink(filepath.Join(dir, "kept"), link); err != nil {
			t.Skip("no links here:", err)
		}
	}
	require.NoError(t, fileutil.RemoveAll(fileutil.OS, filepath.Join(dir, "link")))
	require.NoError(t, fileutil.RemoveAll(fileutil.OS, filepath.Join(dir, "tree")))
	require.NoError(t, fileutil.RemoveAll(fileutil.OS, filepath.Join(dir, "link")))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.DirExists(t, kept)
}

func TestHeld_AsksBeforeEveryNameAndNotForOpenFiles(t *testing.T) {
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("d/old", []byte("old")))
	asked, lost := 0, errors.New("lost")
	var answer error
	held := fileutil.Held(m, func() error { asked++; return answer })
	f, err := held.Create("d/new")
	require.NoError(t, err)
	require.Equal(t, 1, asked)
	answer = lost
	before := m.Files()
	_, err = held.Create("d/other")
	require.ErrorIs(t, err, lost)
	_, err = held.Open("d/old")
	require.ErrorIs(t, err, lost)
	_, err = held.OpenWrite("d/old")
	require.ErrorIs(t, err, lost)
	_, err = held.ReadDir("d")
	require.ErrorIs(t, err, lost)
	_, err = held.Stat("d/old")
	require.ErrorIs(t, err, lost)
	require.ErrorIs(t, held.Rename("d/old", "d/older"), lost)
	require.ErrorIs(t, held.Link("d/old", "d/older"), lost)
	require.ErrorIs(t, held.Remove("d/old"), lost)
	require.ErrorIs(t, held.MkdirAll("e"), lost)
	require.ErrorIs(t, held.SyncDir("d"), lost)
	_, err = fileutil.IsLink(held, "d/old")
	require.ErrorIs(t, err, lost)
	require.Equal(t, before, m.Files())
	require.Equal(t, 12, asked)
	_, err = f.Write([]byte("x"))
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	require.Equal(t, 12, asked)
}

func TestAbs_OutlivesAChangeOfTheWorkingDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	abs, err := fileutil.Abs(fileutil.OS, "data")
	require.NoError(t, err)
	require.True(t, filepath.IsAbs(abs))
	require.Equal(t, "data", filepath.Base(abs))
	abs, err = fileutil.Abs(tsdbtest.NewMemFS(), "data")
	require.NoError(t, err)
	require.Equal(t, "data", abs)
	for _, around := range []fileutil.FS{
		faultfs.New(fileutil.OS),
		fileutil.Held(fileutil.OS, func() error { return nil }),
	} {
		abs, err = fileutil.Abs(around, "data")
		require.NoError(t, err)
		require.True(t, filepath.IsAbs(abs), "%T", around)
	}
}

// A check that cannot be made, for want of memory for example, has nothing to do with the names in
// a directory: nothing was synced, and no sync has failed.
func TestHeld_ACheckThatFailsIsNoFailedSync(t *testing.T) {
	dir := t.TempDir()
	var why error
	held := fileutil.Held(fileutil.OS, func() error { return why })
	require.NoError(t, held.SyncDir(dir))
	why = syscall.ENOMEM
	require.ErrorIs(t, held.SyncDir(dir), fileutil.ErrNotTried)
	require.ErrorIs(t, held.SyncDir(dir), syscall.ENOMEM)
	require.NotErrorIs(t, held.MkdirAll(dir), fileutil.ErrNotTried)
}
