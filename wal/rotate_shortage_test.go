package wal

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// A directory that cannot be opened to be synced fails the commit that needs a new segment, and
// no other: one that finds room in the old segment goes there, also behind it.
func TestRotate_WithoutADescriptorForTheDirectory_FailsThatCommitOnly(t *testing.T) {
	for _, errno := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		disk := tsdbtest.NewMemFS()
		faulty := faultfs.New(disk)
		l, err := Open(Options{FS: faulty, Dir: testDir, Sync: SyncCommit()}, Position{})
		require.NoError(t, err)
		writeCommits(t, l, 1, 3)
		faulty.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpSyncDir}, Sticky: true, Err: errno})
		for range 3 {
			_, err = l.Rotate()
			require.ErrorIs(t, err, ErrNotCommitted)
			require.ErrorIs(t, err, errno)
			require.NotErrorIs(t, err, ErrPoisoned)
		}
		writeCommits(t, l, 4, 5)
		require.NoError(t, l.Err())
		for _, opts := range []tsdbtest.CrashOptions{{Choose: tsdbtest.LoseAll}, {Seed: 1}, {Seed: 2}, {Seed: 3}} {
			got := replay(t, disk.CrashClone(opts), 1)
			requireCommits(t, got, upTo(5)...)
			require.Empty(t, got.Damages)
		}
		faulty.Lift()
		n, err := l.Rotate()
		require.NoError(t, err)
		require.Equal(t, 1, n)
		writeCommits(t, l, 6, 6)
		require.NoError(t, l.Close())
		requireCommits(t, replay(t, disk, 1), upTo(6)...)
	}
}

// Any other failure of that sync leaves names in doubt, and stops the log as before.
func TestRotate_ASyncOfTheDirectoryThatFails_StopsTheLog(t *testing.T) {
	faulty := faultfs.New(tsdbtest.NewMemFS())
	l, err := Open(Options{FS: faulty, Dir: testDir}, Position{})
	require.NoError(t, err)
	writeCommits(t, l, 1, 3)
	faulty.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpSyncDir}, Err: syscall.EIO})
	_, err = l.Rotate()
	require.ErrorIs(t, err, ErrPoisoned)
	require.ErrorIs(t, l.Close(), ErrPoisoned)
}

// A mark that cannot be made durable for want of a descriptor is no failed sync: it is set later.
func TestSetMark_WithoutADescriptorForTheDirectory_IsTriedAgain(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	faulty := faultfs.New(disk)
	l, err := Open(Options{FS: faulty, Dir: testDir, ReachFile: testReach}, Position{})
	require.NoError(t, err)
	writeCommits(t, l, 1, 3)
	faulty.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpSyncDir}, Sticky: true, Err: syscall.EMFILE})
	for range 2 {
		err = l.SetMark(7)
		require.ErrorIs(t, err, syscall.EMFILE)
		require.NotErrorIs(t, err, ErrPoisoned)
	}
	writeCommits(t, l, 4, 5)
	faulty.Lift()
	require.NoError(t, l.SetMark(7))
	r, found, err := ReadReach(disk.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll}), testReach)
	require.NoError(t, err)
	require.True(t, found)
	require.EqualValues(t, 7, r.Mark)
	require.NoError(t, l.Close())
}

// Nor is a checkpoint that is not believed, and cannot be moved away for good.
func TestCheckpoint_WithoutADescriptorForTheQuarantine_DoesNotStopTheLog(t *testing.T) {
	for nth := int64(1); ; nth++ {
		faulty := faultfs.New(tsdbtest.NewMemFS())
		l, err := Open(Options{FS: faulty, Dir: testDir}, Position{})
		require.NoError(t, err)
		writeCommits(t, l, 1, 3)
		_, err = l.Rotate()
		require.NoError(t, err)
		require.NoError(t, faulty.Inner().MkdirAll(testDir+"/checkpoint.00000000"))
		_, err = l.Rotate()
		require.NoError(t, err)
		faulty.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpSyncDir}, Nth: nth, Err: syscall.EMFILE})
		opts := CheckpointOptions{UpTo: 1, TmpDir: testTmp, QuarantineDir: testQuarantine}
		_, err = l.Checkpoint(t.Context(), opts)
		hit := len(faulty.Hits()) > 0
		if hit {
			require.ErrorIs(t, err, syscall.EMFILE, "%v", faulty.Hits())
		}
		require.NotErrorIs(t, err, ErrPoisoned, "%v", faulty.Hits())
		faulty.Lift()
		writeCommits(t, l, 4, 5)
		opts.UpTo, err = l.Rotate()
		require.NoError(t, err)
		opts.UpTo-- // the one before may stand
		_, err = l.Checkpoint(t.Context(), opts)
		require.NoError(t, err, "%d: %v", nth, faulty.Hits())
		require.NoError(t, l.Close())
		if !hit {
			require.Greater(t, nth, int64(3), "the directories of log and quarantine are synced")
			return
		}
	}
}
