package faultfs_test

import (
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

func kinds(k ...tsdbtest.OpKind) []tsdbtest.OpKind { return k }

func newFS(t *testing.T) (*faultfs.FS, *tsdbtest.MemFS) {
	t.Helper()
	m := tsdbtest.NewMemFS()
	require.NoError(t, m.WriteFile("d/a", []byte("data")))
	return faultfs.New(m), m
}

func TestInject_HitsTheNthOnceOrFromThenOn(t *testing.T) {
	for _, sticky := range []bool{false, true} {
		f, _ := newFS(t)
		_, err := f.Stat("d")
		require.NoError(t, err)
		f.Inject(faultfs.Fault{Kinds: kinds(tsdbtest.OpStat), Nth: 2, Sticky: sticky})
		var failed []bool
		for range 4 {
			_, err := f.ReadDir("d")
			require.NoError(t, err, "another kind")
			_, err = f.Stat("d")
			failed = append(failed, err != nil)
		}
		require.Equal(t, []bool{false, true, sticky, sticky}, failed)
		f.Lift()
		_, err = f.Stat("d")
		require.NoError(t, err)
		require.EqualValues(t, 6, f.Ops(tsdbtest.OpStat))
		require.EqualValues(t, 10, f.Ops())
		require.EqualValues(t, 10, f.Ops(tsdbtest.OpStat, tsdbtest.OpReadDir))
		require.EqualValues(t, 5, f.Hits()[0].N)
	}
}

func TestInject_MatchChoosesByPath(t *testing.T) {
	f, _ := newFS(t)
	f.Inject(faultfs.Fault{
		Match: func(op tsdbtest.Op) bool { return strings.HasSuffix(op.Name, "/a") },
		Err:   syscall.ENOSPC,
	})
	_, err := f.Stat("d")
	require.NoError(t, err)
	_, err = f.Stat("d/a")
	require.True(t, fileutil.IsDiskFull(err))
	require.ErrorContains(t, err, "d/a")
	require.Equal(t, tsdbtest.OpStat, f.Hits()[0].Kind)
}

func TestInject_OfTwoTheFirstDecidesAndBothCount(t *testing.T) {
	f, _ := newFS(t)
	f.Inject(faultfs.Fault{Nth: 1, Err: syscall.EACCES})
	f.Inject(faultfs.Fault{Nth: 2, Err: syscall.ENOSPC})
	_, err := f.Stat("d")
	require.ErrorIs(t, err, syscall.EACCES)
	_, err = f.Stat("d")
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = f.Stat("d")
	require.NoError(t, err)
}

func TestWrite_FailsWithNothingOrHalf(t *testing.T) {
	for _, half := range []bool{false, true} {
		f, m := newFS(t)
		w, err := f.OpenWrite("d/a")
		require.NoError(t, err)
		f.Inject(faultfs.Fault{Kinds: kinds(tsdbtest.OpWrite), Half: half})
		n, err := w.Write([]byte("123456"))
		require.ErrorIs(t, err, syscall.EIO)
		data, readErr := m.ReadFile("d/a")
		require.NoError(t, readErr)
		if half {
			require.Equal(t, 3, n)
			require.Equal(t, "data123", string(data))
		} else {
			require.Zero(t, n)
			require.Equal(t, "data", string(data))
		}
		require.NoError(t, w.Close())
	}
}

// The trap that a failed fsync is: the next one succeeds, and the data is not there.
func TestSync_AfterAFailureLies(t *testing.T) {
	for _, kind := range kinds(tsdbtest.OpSync, tsdbtest.OpClose) {
		f, m := newFS(t)
		w, err := f.OpenWrite("d/a")
		require.NoError(t, err)
		_, err = w.Write([]byte(" lost"))
		require.NoError(t, err)
		f.Inject(faultfs.Fault{Kinds: kinds(kind)})
		if kind == tsdbtest.OpSync {
			require.ErrorIs(t, w.Sync(), syscall.EIO)
		} else {
			require.ErrorIs(t, w.Close(), syscall.EIO)
			require.Empty(t, m.OpenHandles(), "it is closed all the same")
			w, err = f.OpenWrite("d/a")
			require.NoError(t, err)
		}
		require.NoError(t, w.Sync())
		left := m.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
		data, err := left.ReadFile("d/a")
		require.NoError(t, err)
		require.Equal(t, "data\x00\x00\x00\x00\x00", string(data))
		require.NoError(t, w.Close())
	}
}

func TestSyncDir_AfterAFailureLies(t *testing.T) {
	f, m := newFS(t)
	require.NoError(t, f.Rename("d/a", "d/b"))
	f.Inject(faultfs.Fault{Kinds: kinds(tsdbtest.OpSyncDir)})
	require.ErrorIs(t, f.SyncDir("d"), syscall.EIO)
	require.NoError(t, f.SyncDir("d"))
	left := m.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll})
	require.Equal(t, []string{"d/a"}, left.Files())
}

func TestSync_OnTheRealDiskJustFails(t *testing.T) {
	f := faultfs.New(fileutil.OS)
	dir := t.TempDir()
	f.Inject(faultfs.Fault{Kinds: kinds(tsdbtest.OpSync, tsdbtest.OpSyncDir), Sticky: true})
	w, err := f.Create(dir + "/a")
	require.NoError(t, err)
	require.ErrorIs(t, w.Sync(), syscall.EIO)
	require.NoError(t, w.Close())
	require.ErrorIs(t, f.SyncDir(dir), syscall.EIO)
	_, _, err = fileutil.DiskSpace(f, dir)
	require.True(t, err == nil || err == fileutil.ErrUnsupported)
}

func TestRelease_FailsAndReleases(t *testing.T) {
	f, _ := newFS(t)
	l, err := f.LockDir("d", "me")
	require.NoError(t, err)
	f.Inject(faultfs.Fault{Kinds: kinds(tsdbtest.OpUnlockDir)})
	require.ErrorIs(t, l.Release(), syscall.EIO)
	l, err = f.LockDir("d", "me")
	require.NoError(t, err)
	require.NoError(t, l.Check())
	require.NoError(t, l.Release())
}

// workload uses every kind of operation once at least.
func workload(f fileutil.FS) error {
	l, err := f.LockDir("d", "me")
	if err != nil {
		return err
	}
	err = firstError(
		func() error { return f.MkdirAll("d/e") },
		func() error { return fileutil.WriteFileAtomic(f, "d/tmp", "d/e/b", []byte("data")) },
		func() error { return f.Link("d/e/b", "d/e/c") },
		func() error { return cutAndMap(f, "d/e/c") },
		func() error { _, err := fileutil.ReadFile(f, "d/e/c", 100); return err },
		func() error { return fileutil.RemoveAll(f, "d/e") },
	)
	if releaseErr := l.Release(); err == nil {
		err = releaseErr
	}
	return err
}

func cutAndMap(f fileutil.FS, name string) error {
	w, err := f.OpenWrite(name)
	if err != nil {
		return err
	}
	m, err := w.Mmap(4)
	if err == nil {
		err = firstError(
			func() error { _, err := m.At(0, 1); return err },
			func() error { return w.Truncate(2) },
			m.Close,
		)
	}
	if closeErr := w.Close(); err == nil {
		err = closeErr
	}
	return err
}

func firstError(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func TestStandard_ReachesEveryKindExceptTheLock(t *testing.T) {
	reached := map[tsdbtest.OpKind]bool{}
	for _, fault := range faultfs.Standard() {
		hits := 0
		for fault.Nth = 1; ; fault.Nth++ {
			f, _ := newFS(t)
			f.Inject(fault)
			err := workload(f)
			if len(f.Hits()) == 0 {
				require.NoError(t, err)
				break
			}
			hits++
			for _, op := range f.Hits() {
				reached[op.Kind] = true
			}
			require.Contains(t, f.TraceString(), "FAILED")
		}
		require.Positive(t, hits, fault.Name)
	}
	for k := tsdbtest.OpCreate; k <= tsdbtest.OpClose; k++ {
		lock := k == tsdbtest.OpLockDir || k == tsdbtest.OpUnlockDir
		require.Equal(t, !lock, reached[k], k)
	}
}

func TestTrace_KeepsTheNewest(t *testing.T) {
	f, _ := newFS(t)
	for range 20_000 {
		_, err := f.Stat("d")
		require.NoError(t, err)
	}
	trace := f.Trace()
	require.Len(t, trace, 4096)
	require.EqualValues(t, 20_000, trace[4095].Op.N)
	require.EqualValues(t, 20_000-4095, trace[0].Op.N)
}

func TestFS_ParallelUseIsSafe(t *testing.T) {
	f, _ := newFS(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				f.Inject(faultfs.Fault{Kinds: kinds(tsdbtest.OpStat)})
				_, _ = f.Stat("d")
				_ = f.TraceString()[:1]
				f.Hits()
				f.Lift()
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 400, f.Ops())
}
