package wal

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Only the leader of a group sees the disk. What it saw, each follower is told about its own
// commit: it is in the log, it is not, or nobody knows.

// groupOf commits so many at once, as one group whose leader is the first, and returns what
// each was told and how often each was applied.
func groupOf(t *testing.T, l *Log, n int) (commits []Commit, told []error, applied []int) {
	t.Helper()
	commits, told, applied = make([]Commit, n), make([]error, n), make([]int, n)
	var wg sync.WaitGroup
	for i := range commits {
		c := &commits[i]
		require.NoError(t, l.Enqueue(fill(c, fmt.Appendf(nil, "\x02commit %d", i), noise(uint32(i), 300))))
		c.Apply = func() { applied[i]++ }
	}
	for i := 1; i < n; i++ {
		wg.Go(func() { told[i] = l.Write(&commits[i]) })
	}
	for l.queue.ready.Load() < int32(n-1) { // they wait for the first one
		runtime.Gosched()
	}
	told[0] = l.Write(&commits[0])
	wg.Wait()
	return commits, told, applied
}

// groupTrouble is what the disk does to a group.
type groupTrouble struct {
	name        string
	bytes       int  // that the write puts out; negative: all of them
	syncs, cuts bool // fail
}

// meet makes the disk do it.
func (g groupTrouble) meet(disk *tsdbtest.MemFS) {
	disk.SetHook(func(op tsdbtest.Op) error {
		switch {
		case op.Kind == tsdbtest.OpWrite && g.bytes >= 0:
			return &tsdbtest.ShortWriteError{Written: min(g.bytes, int(op.Bytes)-1), Err: syscall.EIO}
		case op.Kind == tsdbtest.OpSync && g.syncs, op.Kind == tsdbtest.OpTruncate && g.cuts:
			return syscall.EIO
		}
		return nil
	})
}

func TestGroup_EachFollowerIsToldWhatBecameOfItsOwnCommit(t *testing.T) {
	const n = 6
	one := func(policy SyncPolicy, trouble groupTrouble) (stood int) {
		state := fmt.Sprintf("%v: %+v", policy, trouble)
		disk := tsdbtest.NewMemFS()
		l := openLog(t, disk, Options{Sync: policy}, Position{})
		trouble.meet(disk)
		commits, told, applied := groupOf(t, l, n)
		disk.SetHook(nil)
		lost := replay(t, disk.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll}), 1)
		killed := replay(t, disk.KillClone(), 1)
		for i, err := range told {
			seq := uint64(i + 1)
			switch {
			case err == nil:
				require.Equal(t, i, stood, "%s: those that stand are the first ones", state)
				stood++
				require.Equal(t, 1, applied[i], state)
				require.Contains(t, killed.commits, seq, state)
				if policy.Mode() == ModeCommit {
					require.Contains(t, lost.commits, seq, state)
				}
			case errors.Is(err, ErrIndeterminate):
				require.ErrorIs(t, err, ErrPoisoned, state)
				require.NotErrorIs(t, err, ErrNotCommitted, state)
				require.Zero(t, applied[i], state)
				require.True(t, trouble.syncs && policy.Mode() == ModeCommit, state)
				require.Contains(t, killed.commits, seq, "%s: it was written", state)
			default:
				require.ErrorIs(t, err, ErrNotCommitted, state)
				require.ErrorIs(t, err, syscall.EIO, state)
				require.Zero(t, applied[i], state)
				require.NotContains(t, killed.commits, seq, state)
			}
			l.Settle(&commits[i])
		}
		require.EqualValues(t, stood, l.Stats().Commits-indeterminateOf(told), state)
		return stood
	}
	borders := groupBorders(t, n)
	for _, policy := range []SyncPolicy{SyncCommit(), SyncRotate()} {
		require.Equal(t, n, one(policy, groupTrouble{name: "none", bytes: -1}))
		for _, cuts := range []bool{false, true} {
			for i, border := range borders {
				for d := -1; d <= 1; d++ {
					stood := i
					if d < 0 {
						stood = max(i-1, 0)
					}
					if bytes := border + d; 0 <= bytes && bytes < borders[n] {
						require.Equal(t, stood, one(policy, groupTrouble{name: "a short write", bytes: bytes, cuts: cuts}), "%d bytes", bytes)
						one(policy, groupTrouble{name: "a short write and no sync", bytes: bytes, cuts: cuts, syncs: true})
					}
				}
			}
		}
	}
	require.Zero(t, one(SyncCommit(), groupTrouble{name: "no sync", bytes: -1, syncs: true}))
}

// indeterminateOf counts the commits that nobody knows about.
func indeterminateOf(told []error) (n uint64) {
	for _, err := range told {
		if errors.Is(err, ErrIndeterminate) {
			n++
		}
	}
	return n
}

// groupBorders returns where the commits of a group begin in its write, and where it ends.
func groupBorders(t *testing.T, n int) (borders []int) {
	t.Helper()
	disk := tsdbtest.NewMemFS()
	l := openLog(t, disk, Options{Sync: SyncRotate()}, Position{})
	groupOf(t, l, n)
	require.EqualValues(t, 1, l.Stats().Writes, "one group")
	seg, err := disk.ReadFile(segmentPath(0))
	require.NoError(t, err)
	spans := commitSpans(t, seg)
	require.Len(t, spans, n)
	first := spans[1].off
	for i := range n {
		borders = append(borders, int(spans[uint64(i+1)].off-first))
	}
	return append(borders, int(spans[uint64(n)].end-first))
}
