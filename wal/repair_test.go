package wal

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// tornDisks are logs that need every kind of repair.
func tornDisks(t testing.TB) map[string]func() *tsdbtest.MemFS {
	damagedCheckpoint := checkpointFile(1, nil, "\x01c1", "\x02c2", "\x02c3")
	damagedCheckpoint[40] ^= 1
	return map[string]func() *tsdbtest.MemFS{
		"ended in the first of many segments": func() *tsdbtest.MemFS {
			return diskWith(t, ours(0, 1, 0).commits(1, 3, 1).commit(4, 1, true).commits(5, 6, 1).buf,
				ours(1, 7, 1).commits(7, 9, 1).buf, ours(2, 10, 1).commits(10, 12, 1).buf, ours(3, 13, 1).commits(13, 14, 1).buf)
		},
		"ended between segments": func() *tsdbtest.MemFS {
			return diskWith(t, ours(0, 1, 0).commits(1, 3, 1).buf,
				ours(1, 7, 1).commits(7, 9, 1).buf, ours(2, 10, 1).commits(10, 12, 1).buf)
		},
		"lost commits and a torn tail": func() *tsdbtest.MemFS {
			return diskWith(t, ours(0, 1, 0).commits(1, 3, 1).commit(4, 1, true).commits(5, 6, 1).buf,
				ours(1, 7, 6).commits(7, 9, 6).raw([]byte("\x02half")).buf)
		},
		"the loss is known from the frame that ends the log only": func() *tsdbtest.MemFS {
			return diskWith(t, ours(0, 1, 0).commits(1, 3, 1).commit(4, 1, true).commits(5, 6, 1).commit(7, 6, true).buf,
				ours(1, 8, 6).commits(8, 9, 6).buf)
		},
		"a damaged checkpoint": func() *tsdbtest.MemFS {
			fsys := tsdbtest.NewMemFS()
			putFile(t, fsys, testDir+"/checkpoint.00000001/00000000", damagedCheckpoint)
			putFile(t, fsys, segmentPath(2), ours(2, 3, 2).commits(3, 4, 2).raw([]byte("\x02half")).buf)
			return fsys
		},
		"damage in what others wrote": func() *tsdbtest.MemFS {
			seg := foreignSegment(CompressionSnappy, recs("\x01f1", "\x02f2", "\x02f3")...)
			seg[20] ^= 1
			return diskWith(t, seg, ours(1, 1, 0).commits(1, 2, 0).buf)
		},
	}
}

func TestRepair_CrashAtAnyOperationChangesNothing(t *testing.T) {
	for name, make := range tornDisks(t) {
		t.Run(name, func(t *testing.T) {
			want := replay(t, make(), 1)
			fsys, busy, states := make(), false, 0
			check := func() {
				for disk := range fsys.CrashStates(40) {
					states++
					got := replay(t, disk, 1)
					require.Equal(t, want.order, got.order, disk.FateString())
					require.Equal(t, want.commits, got.commits)
					require.Equal(t, want.single, got.single)
					require.Equal(t, want.LastSeq, got.LastSeq)
					settle(t, disk, got)
				}
			}
			fsys.SetHook(func(op tsdbtest.Op) error {
				if !busy && op.Kind.Mutates() {
					busy = true
					check()
					busy = false
				}
				return nil
			})
			repair(t, fsys, replay(t, fsys, 1))
			fsys.SetHook(nil)
			check()
			require.Greater(t, states, 5)
			for _, f := range fsys.Files() {
				require.NotContains(t, f, tmpPrefix)
			}
		})
	}
}

func TestRepair_FaultAtAnyOperationIsReportedAndTheNextTryDoes(t *testing.T) {
	injected := 0
	for name, make := range tornDisks(t) {
		for _, fault := range faultfs.Standard() {
			t.Run(name+"/"+fault.Name, func(t *testing.T) {
				for fault.Nth = 1; ; fault.Nth++ {
					disk := make()
					want := replay(t, disk, 1)
					fsys := faultfs.New(disk)
					fsys.Inject(fault)
					_, err := Repair(context.Background(), fsys, testDir, testQuarantine, testTmp, want.ReplayReport)
					if len(fsys.Hits()) == 0 {
						require.NoError(t, err)
						break
					}
					injected++
					if err == nil { // a link that is refused is copied instead
						require.Contains(t, fsys.TraceString(), "link", fsys.TraceString())
					}
					if fault.Err == syscall.ENOSPC && err != nil {
						require.ErrorIs(t, err, ErrDiskFull)
					}
					if strings.HasPrefix(fault.Name, "sync-") && err != nil {
						require.ErrorIs(t, err, ErrPoisoned)
					}
					require.Empty(t, disk.OpenHandles())
					fsys.Lift()
					if fault.Nth%2 == 0 {
						want2 := replay(t, fsys, 1)
						require.Equal(t, want.order, want2.order)
						want = want2
					}
					settle(t, disk, want)
				}
			})
		}
	}
	t.Logf("%d faults", injected)
}

func TestRepair_WritesAgainWhatNobodyKnowsToBeOnDisk(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	l := openLog(t, fsys, Options{SegmentSize: PageSize, Sync: SyncNever()}, Position{})
	writeCommits(t, l, 1, 40)
	// Syncs fail, the kernel forgets that the data is dirty, the process dies.
	for _, f := range fsys.Files() {
		require.NoError(t, fsys.FailSync(f))
	}
	killed := fsys.KillClone()
	got := replay(t, killed, 1)
	requireCommits(t, got, upTo(40)...)
	repair(t, killed, got)
	for disk := range killed.CrashStates(50) {
		requireCommits(t, replay(t, disk, 1), upTo(40)...)
	}
}

func TestRepair_SyncsWhatOthersLeft(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	putFile(t, fsys, testTmp+"/x", nil)
	require.NoError(t, fsys.MkdirAll(testDir))
	f, err := fsys.Create(segmentPath(0))
	require.NoError(t, err)
	_, err = f.Write(foreignSegment(CompressionNone, recs("\x01f1", "\x02f2")...))
	require.NoError(t, err)
	killed := fsys.KillClone()
	repair(t, killed, replay(t, killed, 1))
	got := replay(t, killed.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll}), 1)
	require.Equal(t, []string{"\x01f1", "\x02f2"}, got.single)
}

func TestRepair_KeepsEveryDamagedStateInQuarantine(t *testing.T) {
	damaged := ours(0, 1, 0).commits(1, 3, 1).raw([]byte("\x02half")).buf
	fsys := diskWith(t, damaged)
	repair(t, fsys, replay(t, fsys, 1))
	// The same number is damaged again in another way: another copy under another name.
	again := append(bytes.Clone(damaged), 1, 2, 3)
	putFile(t, fsys, segmentPath(0), again)
	repair(t, fsys, replay(t, fsys, 1))
	// And in the same way: the copy is there already.
	putFile(t, fsys, segmentPath(0), again)
	repair(t, fsys, replay(t, fsys, 1))
	for name, want := range map[string][]byte{"wal-00000000": damaged, "wal-00000000.00000001": again} {
		got, err := fsys.ReadFile(testQuarantine + "/" + name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	n := 0
	for _, f := range fsys.Files() {
		if strings.Contains(f, "quarantine") {
			n++
		}
	}
	require.Equal(t, 2, n, fmt.Sprint(fsys.Files()))
}

func TestRepair_OfAnEmptyDirectoryMakesIt(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	require.NoError(t, fsys.MkdirAll(testTmp))
	require.Equal(t, Position{Segment: 0, NextSeq: 1}, repair(t, fsys, replay(t, fsys, 1)))
	require.NoError(t, openLog(t, fsys, Options{}, Position{NextSeq: 1}).Close())
}
