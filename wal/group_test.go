package wal

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// writers commit until each has done n or the log refuses for good; they settle what fails. acked
// gets the bodies of what was written, by number. What is written has been applied once, anything
// else never.
func writers(t testing.TB, l *Log, count, n int) (acked map[uint64][]string, failed int64) {
	t.Helper()
	acked = map[uint64][]string{}
	var mu sync.Mutex
	var refused atomic.Int64
	var wg sync.WaitGroup
	for w := range count {
		wg.Go(func() {
			var c Commit
			applied := 0
			c.Apply = func() { applied++ }
			for i := range n {
				fill(&c)
				applied = 0
				if !enqueue(l, &c) {
					return
				}
				body := [][]byte{fmt.Appendf(nil, "\x02writer %d commit %d", w, i), noise(uint32(w*n+i), 10+i%300)}
				for _, rec := range body { // encoded after its place is taken
					c.End(append(c.Begin(), rec...))
				}
				err := l.Write(&c)
				if err == nil && applied != 1 || err != nil && applied != 0 {
					t.Errorf("commit %d was applied %d times, with error %v", c.Seq(), applied, err)
				}
				if err != nil {
					refused.Add(1)
					l.Settle(&c)
					continue
				}
				mu.Lock()
				acked[c.Seq()] = texts(body)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return acked, refused.Load()
}

// enqueue waits for earlier failures to be settled. False: the log refuses for good.
func enqueue(l *Log, c *Commit) bool {
	for {
		err := l.Enqueue(c)
		if !errors.Is(err, ErrRetry) {
			return err == nil
		}
		if l.WaitSettled(context.Background()) != nil {
			return false
		}
	}
}

func (l *Log) isClosed() bool {
	l.queue.mu.Lock()
	defer l.queue.mu.Unlock()
	return l.queue.mu.closed
}

func (l *Log) isPoisoned() bool { return l.queue.poison(nil) != nil }

func TestLog_ConcurrentCommitsAreAllThereInOrder(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncCommit(), SyncRotate(), SyncNever()} {
		t.Run(policy.String(), func(t *testing.T) {
			fsys := tsdbtest.NewMemFS()
			l := openLog(t, fsys, Options{SegmentSize: 2 * PageSize, Sync: policy, Compression: &Snappy}, Position{})
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() { // syncs and rotations of the owner go beside the commits
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					require.NoError(t, l.Sync())
					if i%16 == 0 {
						before := l.LastSeq()
						seg, err := l.Rotate()
						require.NoError(t, err)
						require.GreaterOrEqual(t, l.Segment(), seg)
						require.GreaterOrEqual(t, l.LastSeq(), before)
					}
				}
			})
			acked, failed := writers(t, l, 16, 200)
			close(stop)
			wg.Wait()
			require.Zero(t, failed)
			require.Len(t, acked, 16*200)
			require.NoError(t, l.Err())
			require.NoError(t, l.Close())
			require.ErrorIs(t, l.Close(), ErrClosed)
			require.Empty(t, fsys.OpenHandles())

			got := replay(t, fsys, 2)
			require.Equal(t, acked, got.commits)
			require.Empty(t, got.Damages)
			st := l.Stats()
			require.EqualValues(t, 16*200, st.Commits)
			require.LessOrEqual(t, st.Writes, st.Commits+st.Segments)
			require.Equal(t, st.Segment, l.Segment())
		})
	}
}

func TestLog_LeaderWritesReadyCommitsInOneWriteAndOneSync(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	l := openLog(t, fsys, Options{}, Position{})
	first := fill(new(Commit), []byte("\x02first"))
	require.NoError(t, l.Enqueue(first))
	var wg sync.WaitGroup
	rest := make([]Commit, 20)
	var applied []uint64 // by the leader alone
	first.Apply = func() { applied = append(applied, first.Seq()) }
	for i := range rest {
		require.NoError(t, l.Enqueue(fill(&rest[i], []byte("\x02rest"))))
		rest[i].Apply = func() { applied = append(applied, rest[i].Seq()) }
		wg.Go(func() { require.NoError(t, l.Write(&rest[i])) })
	}
	for l.queue.ready.Load() < int32(len(rest)) { // they wait for the first one
		runtime.Gosched()
	}
	require.Zero(t, l.Stats().Writes)
	require.NoError(t, l.Write(first))
	wg.Wait()
	require.EqualValues(t, 1, l.Stats().Writes)
	require.EqualValues(t, 1, l.Stats().Syncs)
	require.Equal(t, 21, l.Stats().MaxGroup)
	require.EqualValues(t, 21, l.Synced())
	require.Equal(t, upTo(21), applied, "in the order of the log")
}

// While a leader applies its group the next one is written, and may be applied, by another.
func TestLog_GroupsOverlapWhenTheyAreApplied(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncCommit(), SyncNever()} {
		l := openLog(t, tsdbtest.NewMemFS(), Options{Sync: policy}, Position{})
		var commits [6]Commit // two groups of three
		var applied [6]atomic.Int64
		var wg sync.WaitGroup
		write := func(i int) {
			require.NoError(t, l.Write(&commits[i]))
			require.EqualValues(t, 1, applied[i].Load(), i)
		}
		for i := range commits {
			require.NoError(t, l.Enqueue(fill(&commits[i], []byte("\x02one"))))
			commits[i].Apply = func() { applied[i].Add(1) }
		}
		commits[0].Apply = func() {
			for i := 3; i < 6; i++ {
				wg.Go(func() { write(i) })
			}
			for applied[3].Load()+applied[4].Load()+applied[5].Load() < 3 {
				runtime.Gosched()
			}
			applied[0].Add(1)
		}
		for i := 1; i < 3; i++ {
			wg.Go(func() { write(i) })
		}
		for l.queue.ready.Load() < 2 {
			runtime.Gosched()
		}
		write(0)
		wg.Wait()
		require.NoError(t, l.Close())
	}
}

func TestLog_SyncRunsBesideWrites(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	l := openLog(t, fsys, Options{Sync: SyncInterval(time.Second)}, Position{})
	write(t, l, []byte("\x02one"))
	fsys.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpSync {
			write(t, l, []byte("\x02two")) // while the sync runs
		}
		return nil
	})
	require.NoError(t, l.Sync())
	fsys.SetHook(nil)
	require.EqualValues(t, 2, l.LastSeq())
	require.EqualValues(t, 1, l.Synced(), "the second commit came after the sync began")
	require.NoError(t, l.SyncTo(1))
	require.EqualValues(t, 1, l.Synced())
	require.NoError(t, l.SyncTo(2))
	require.EqualValues(t, 2, l.Synced())
}

func TestLog_FaultAtAnyOperationIsReportedAndNoFailedCommitComesBack(t *testing.T) {
	injected := 0
	for _, policy := range []SyncPolicy{SyncCommit(), SyncInterval(1), SyncNever()} {
		for _, fault := range faultfs.Standard() {
			t.Run(policy.String()+"/"+fault.Name, func(t *testing.T) {
				places := sweep.Of(t, 1, 5)
				for fault.Nth = int64(1 + places.First); ; fault.Nth += int64(places.Step) {
					if !faultRun(t, policy, fault) {
						break
					}
					injected++
				}
			})
		}
	}
	t.Logf("%d faults", injected)
}

// faultRun commits with a fault on the way, then heals the disk, goes on, kills the
// process and compares what comes back with what was promised.
func faultRun(t *testing.T, policy SyncPolicy, fault faultfs.Fault) (hit bool) {
	disk := tsdbtest.NewMemFS()
	fsys := faultfs.New(disk)
	opts := Options{SegmentSize: PageSize, Sync: policy, FS: fsys, Dir: testDir}
	fsys.Inject(fault)
	must, may := map[uint64][]string{}, map[uint64][]string{}
	state := func() string { return fmt.Sprintf("%v\n%s", fsys.Hits(), fsys.TraceString()) }
	l, err := Open(opts, Position{})
	var seen []error
	note := func(err error) {
		if err != nil {
			seen = append(seen, err)
		}
	}
	note(err)
	for i := 1; err == nil && i <= 12; i++ {
		if i == 9 {
			fsys.Lift()
		}
		c := fill(new(Commit), noise(uint32(i), 7000), fmt.Appendf(nil, "\x02%d", i))
		if werr := l.Enqueue(c); werr != nil {
			require.ErrorIs(t, werr, ErrPoisoned, state())
			require.ErrorIs(t, l.Err(), ErrPoisoned)
			note(werr)
			continue
		}
		werr := l.Write(c)
		note(werr)
		body := texts(c.bodies[:c.n])
		switch {
		case werr == nil:
			must[c.Seq()] = body
		case errors.Is(werr, ErrIndeterminate):
			require.ErrorIs(t, werr, ErrPoisoned)
			require.NotErrorIs(t, werr, ErrNotCommitted)
			may[c.Seq()] = body
		default:
			require.ErrorIs(t, werr, ErrNotCommitted, state())
			require.Error(t, l.Err())
			if fault.Err == syscall.ENOSPC {
				require.ErrorIs(t, werr, ErrDiskFull, state())
				require.ErrorIs(t, l.Err(), ErrDiskFull)
			}
		}
		if werr != nil {
			l.Settle(c)
		}
		if i%4 == 0 {
			note(l.Sync())
		}
	}
	poisonable := fault.Kinds[0] == tsdbtest.OpSync || fault.Kinds[0] == tsdbtest.OpSyncDir || fault.Kinds[0] == tsdbtest.OpClose
	if l != nil {
		if !poisonable {
			require.False(t, l.isPoisoned(), state())
			require.NotEmpty(t, must, state())
		}
		note(l.Close())
	}
	hit = len(fsys.Hits()) > 0
	fsys.Lift()
	if hit {
		require.NotEmpty(t, seen, state())
	}
	require.Empty(t, disk.OpenHandles(), state())

	got := replay(t, disk.KillClone(), 1)
	for seq, body := range got.commits {
		if must[seq] == nil {
			require.Equal(t, may[seq], body, "commit %d came back: %s", seq, state())
		} else {
			require.Equal(t, must[seq], body, "commit %d: %s", seq, state())
		}
	}
	for seq := range must {
		require.Contains(t, got.commits, seq, state())
	}
	require.Equal(t, upTo(uint64(len(got.order))), got.order, "no hole in the numbers")
	if l != nil && policy.Mode() == ModeCommit {
		after := replay(t, disk.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll}), 1)
		for seq := range must {
			require.Contains(t, after.commits, seq, state())
		}
	}
	settle(t, disk.KillClone(), got)
	return hit
}

func TestLog_ShortWritesAtEveryByteKeepWholeCommitsOnly(t *testing.T) {
	total := 0
	for cut := 0; cut == 0 || cut < total; cut += 7 {
		disk := tsdbtest.NewMemFS()
		l := openLog(t, disk, Options{Sync: SyncRotate()}, Position{})
		first := fill(new(Commit), noise(1, 500))
		require.NoError(t, l.Enqueue(first))
		rest := make([]Commit, 4)
		errs := make([]error, len(rest))
		var wg sync.WaitGroup
		for i := range rest {
			require.NoError(t, l.Enqueue(fill(&rest[i], noise(uint32(i), 300), []byte("\x02x"))))
			wg.Go(func() { errs[i] = l.Write(&rest[i]) })
		}
		for l.queue.ready.Load() < int32(len(rest)) {
			runtime.Gosched()
		}
		disk.SetHook(func(op tsdbtest.Op) error {
			if op.Kind == tsdbtest.OpWrite {
				total = int(op.Bytes)
				return &tsdbtest.ShortWriteError{Written: cut, Err: syscall.ENOSPC}
			}
			return nil
		})
		all := []error{l.Write(first)}
		wg.Wait()
		all = append(all, errs...)
		disk.SetHook(nil)
		commits := append([]*Commit{first}, &rest[0], &rest[1], &rest[2], &rest[3])
		stood := uint64(0)
		for i, err := range all {
			if err == nil {
				require.EqualValues(t, i, stood, "a prefix stands")
				stood++
				continue
			}
			require.ErrorIs(t, err, ErrNotCommitted)
			require.ErrorIs(t, err, ErrDiskFull)
			require.ErrorIs(t, l.Enqueue(new(Commit)), ErrRetry)
			l.Settle(commits[i])
			l.Settle(commits[i]) // twice is once
		}
		require.NoError(t, l.WaitSettled(context.Background()))
		require.Equal(t, stood, l.LastSeq())
		require.Equal(t, stood+1, write(t, l, []byte("\x02after")))
		require.NoError(t, l.Err())
		got := replay(t, disk.KillClone(), 1)
		require.Equal(t, upTo(stood+1), got.order)
		require.Empty(t, got.Damages)
	}
	require.Greater(t, total, 1000)
}

func TestLog_FailureTakesAllThatIsQueuedWithIt(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	l := openLog(t, disk, Options{Sync: SyncRotate()}, Position{})
	var commits [4]Commit
	for i := range commits {
		require.NoError(t, l.Enqueue(fill(&commits[i], noise(uint32(i), 50))))
	}
	// The first one leads. The second is not ready, so the third waits behind it.
	third := make(chan error, 1)
	go func() { third <- l.Write(&commits[2]) }()
	for l.queue.ready.Load() < 1 {
		runtime.Gosched()
	}
	disk.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpWrite {
			return syscall.EIO
		}
		return nil
	})
	require.ErrorIs(t, l.Write(&commits[0]), syscall.EIO)
	require.ErrorIs(t, <-third, ErrNotCommitted)
	disk.SetHook(nil)
	require.Zero(t, l.queue.ready.Load())
	for i := range commits {
		require.ErrorIs(t, l.Enqueue(new(Commit)), ErrRetry)
		if i == 1 || i == 3 { // their owners come only now
			require.ErrorIs(t, l.Write(&commits[i]), ErrNotCommitted)
		}
		canceled, cancel := context.WithCancel(context.Background())
		cancel()
		require.ErrorIs(t, l.WaitSettled(canceled), context.Canceled)
		l.Settle(&commits[i])
	}
	require.NoError(t, l.WaitSettled(context.Background()))
	require.EqualValues(t, 1, write(t, l, []byte("\x02after")))
	require.NoError(t, l.Close())
	require.Equal(t, upTo(1), replay(t, disk, 1).order)
}

func TestLog_FailedSyncPoisonsForGood(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncCommit(), SyncInterval(time.Second)} {
		disk := tsdbtest.NewMemFS()
		l := openLog(t, disk, Options{Sync: policy}, Position{})
		write(t, l, []byte("\x02one"))
		require.NoError(t, l.Sync())
		syncs := 0
		disk.SetHook(func(op tsdbtest.Op) error {
			if op.Kind == tsdbtest.OpSync {
				syncs++
				return syscall.EIO
			}
			return nil
		})
		_, err := commit(l, []byte("\x02two"))
		if policy.Mode() == ModeCommit {
			require.ErrorIs(t, err, ErrIndeterminate)
			require.ErrorIs(t, err, syscall.EIO)
		} else {
			require.NoError(t, err)
			require.ErrorIs(t, l.Sync(), ErrPoisoned)
		}
		disk.SetHook(nil)
		for range 2 {
			require.ErrorIs(t, l.Sync(), ErrPoisoned)
			require.ErrorIs(t, l.Err(), ErrReadOnly)
			require.NoError(t, l.SyncTo(1), "that one is safe")
			require.ErrorIs(t, l.SyncTo(2), ErrPoisoned)
			_, err = commit(l, []byte("\x02three"))
			require.ErrorIs(t, err, ErrPoisoned)
			_, err = l.Rotate()
			require.ErrorIs(t, err, ErrPoisoned)
		}
		require.ErrorIs(t, l.Close(), ErrPoisoned)
		require.Equal(t, 1, syncs, "a failed sync is not tried again")
		require.Empty(t, disk.OpenHandles())
	}
}

func TestLog_SyncThatFailsBetweenEnqueueAndWriteFailsTheCommit(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	l := openLog(t, disk, Options{Sync: SyncInterval(time.Second)}, Position{})
	write(t, l, []byte("\x02one"))
	c := fill(new(Commit), []byte("\x02two"))
	require.NoError(t, l.Enqueue(c))
	require.NoError(t, disk.FailSync(segmentPath(0)))
	disk.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpSync {
			return syscall.EIO
		}
		return nil
	})
	require.ErrorIs(t, l.Sync(), ErrPoisoned)
	err := l.Write(c)
	require.ErrorIs(t, err, ErrNotCommitted)
	require.ErrorIs(t, err, ErrPoisoned)
	l.Settle(c)
	require.EqualValues(t, 1, l.LastSeq())
}

func TestLog_GroupsBeyondAMegabyteAreSplit(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	l := openLog(t, disk, Options{Sync: SyncRotate()}, Position{})
	first := fill(new(Commit), noise(9, 6<<20))
	require.NoError(t, l.Enqueue(first))
	var wg sync.WaitGroup
	rest := make([]Commit, 6)
	for i := range rest {
		require.NoError(t, l.Enqueue(fill(&rest[i], noise(uint32(i), 400<<10))))
		wg.Go(func() { require.NoError(t, l.Write(&rest[i])) })
	}
	require.NoError(t, l.Write(first))
	wg.Wait()
	require.GreaterOrEqual(t, l.Stats().Writes, uint64(3))
	require.LessOrEqual(t, cap(l.lead.out.buf), 4*maxGroupBytes)
	require.NoError(t, l.Close())
	require.Equal(t, upTo(7), replay(t, disk, 2).order)
}

// Buffers of large commits are there for the next one, until there is a small one.
func TestCommit_Reset_KeepsWhatIsUsed(t *testing.T) {
	l := openLog(t, tsdbtest.NewMemFS(), Options{Sync: SyncRotate(), Compression: &Snappy}, Position{})
	c := new(Commit)
	for i, size := range []int{6 << 20, 3 << 20, 10} {
		require.NoError(t, l.Enqueue(fill(c, noise(uint32(i), size))))
		require.NoError(t, l.Write(c))
		c.Reset()
		for _, kept := range []int{cap(c.Begin()), cap(c.stored[0].buf)} {
			require.Equal(t, size > 10, kept >= 6<<20, "%d bytes after a commit of %d", kept, size)
		}
	}
	require.NoError(t, l.Close())
}

func TestCommit_MisuseIsABug(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	l := openLog(t, disk, Options{}, Position{})
	require.Panics(t, func() { _ = l.Write(new(Commit)) })
	c := fill(new(Commit), []byte("\x02x"))
	require.Equal(t, 1, c.Records())
	require.NoError(t, l.Enqueue(c))
	require.Panics(t, c.Reset)
	require.Panics(t, func() { _ = l.Enqueue(c) })
	require.NoError(t, l.Write(c))
	disk.SetHook(func(tsdbtest.Op) error { return syscall.ENOSPC })
	c.Reset()
	require.NoError(t, l.Enqueue(c))
	require.Error(t, l.Write(c))
	require.Panics(t, c.Reset, "not settled")
	l.Settle(c)
	c.Reset()
}

func TestLog_WritesAreRefusedUntilTheCutSucceeds(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	fsys := faultfs.New(disk)
	l := openLog(t, fsys, Options{Sync: SyncRotate()}, Position{})
	write(t, l, []byte("\x02one"))
	fsys.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpWrite}, Half: true, Err: syscall.EIO})
	fsys.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpTruncate}, Sticky: true, Err: syscall.EIO})
	for range 3 {
		_, err := commit(l, noise(1, 3000))
		require.ErrorIs(t, err, ErrNotCommitted)
		require.ErrorIs(t, err, syscall.EIO)
		require.ErrorIs(t, l.Err(), ErrNotCommitted)
		require.NotErrorIs(t, l.Err(), ErrPoisoned)
	}
	fsys.Lift()
	require.EqualValues(t, 2, write(t, l, []byte("\x02two")))
	require.NoError(t, l.Close())
	got := replay(t, disk, 1)
	require.Equal(t, upTo(2), got.order)
	require.Empty(t, got.Damages)
}

func TestLog_FullDiskHealsByItself(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	l := openLog(t, disk, Options{SegmentSize: PageSize}, Position{})
	disk.SetCapacity(100_000)
	acked := []uint64{}
	for i := range 40 {
		if i == 25 {
			disk.SetCapacity(0)
		}
		seq, err := commit(l, noise(uint32(i), 9000))
		if err != nil {
			require.Less(t, i, 25)
			require.ErrorIs(t, err, ErrDiskFull)
			continue
		}
		acked = append(acked, seq)
	}
	require.Greater(t, len(acked), 15)
	require.NoError(t, l.Err())
	require.NoError(t, l.Close())
	require.Equal(t, acked, replay(t, disk, 1).order)
}

func TestLog_ManyWritersOnAFailingDiskLoseNothingAcknowledged(t *testing.T) {
	for _, sticky := range []bool{false, true} {
		disk := tsdbtest.NewMemFS()
		var ops atomic.Int64
		disk.SetHook(func(op tsdbtest.Op) error {
			if op.Kind == tsdbtest.OpWrite && ops.Add(1)%7 == 0 && op.Bytes > 60 {
				return &tsdbtest.ShortWriteError{Written: int(op.Bytes / 2), Err: syscall.ENOSPC}
			}
			if sticky && op.Kind == tsdbtest.OpSync && ops.Load() > 60 {
				return syscall.EIO
			}
			return nil
		})
		l := openLog(t, disk, Options{SegmentSize: PageSize}, Position{})
		acked, failed := writers(t, l, 8, 150)
		require.Positive(t, failed)
		require.Equal(t, sticky, l.isPoisoned())
		if err := l.Close(); sticky {
			require.ErrorIs(t, err, ErrPoisoned)
		} else {
			require.NoError(t, err)
			require.Len(t, acked, 8*150-int(failed))
		}
		disk.SetHook(nil)
		got := replay(t, disk.KillClone(), 1)
		for seq, body := range acked {
			require.Equal(t, body, got.commits[seq])
		}
		if !sticky {
			require.Equal(t, acked, got.commits)
		}
	}
}

func TestLog_OversizedCommitGetsASegmentOfItsOwn(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	l := openLog(t, disk, Options{SegmentSize: PageSize}, Position{})
	write(t, l, []byte("\x02small"))
	write(t, l, noise(1, 3*PageSize))
	write(t, l, []byte("\x02small"))
	require.NoError(t, l.Close())
	list, err := List(disk, testDir)
	require.NoError(t, err)
	require.Len(t, list.Segments, 3)
	require.Less(t, list.Segments[0].Size, int64(PageSize))
	require.Greater(t, list.Segments[1].Size, int64(3*PageSize))
	require.Less(t, list.Segments[2].Size, int64(PageSize))
	require.Equal(t, upTo(3), replay(t, disk, 1).order)
}

func TestLog_EmptyCommitsTakeANumber(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	l := openLog(t, disk, Options{}, Position{})
	write(t, l)
	write(t, l, []byte("\x02one"))
	write(t, l)
	require.NoError(t, l.Close())
	got := replay(t, disk, 1)
	require.Equal(t, []uint64{2}, got.order)
	require.Equal(t, 1, got.Commits, "a bare frame is none")
	require.EqualValues(t, 3, got.LastSeq)
}

func TestLog_ClosedLogRefuses(t *testing.T) {
	l := openLog(t, tsdbtest.NewMemFS(), Options{}, Position{})
	require.NoError(t, l.Close())
	require.ErrorIs(t, l.Enqueue(new(Commit)), ErrClosed)
	_, err := l.Rotate()
	require.ErrorIs(t, err, ErrClosed)
}

func TestLog_CloseWaitsForEnqueuedCommits(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	l := openLog(t, disk, Options{}, Position{})
	c := fill(new(Commit), []byte("\x02late"))
	require.NoError(t, l.Enqueue(c))
	closed := make(chan error, 1)
	go func() { closed <- l.Close() }()
	for !l.isClosed() {
		runtime.Gosched()
	}
	require.ErrorIs(t, l.Enqueue(new(Commit)), ErrClosed)
	require.NoError(t, l.Write(c))
	require.NoError(t, <-closed)
	require.Equal(t, upTo(1), replay(t, disk, 1).order)
}

func TestOpen_GoesOnAtThePosition(t *testing.T) {
	for synced, want := range map[uint64]uint64{2: 2, 9: 4} {
		fsys := tsdbtest.NewMemFS()
		l := openLog(t, fsys, Options{Sync: SyncNever()}, Position{Segment: 7, NextSeq: 5, Synced: synced})
		require.Equal(t, want, l.Synced())
		require.EqualValues(t, 4, l.LastSeq())
		require.Equal(t, 7, l.Segment())
		require.EqualValues(t, 5, write(t, l, []byte("\x02x")))
		require.NoError(t, l.Close())
	}
}

func TestOpen_RefusesBadOptionsAndExistingSegments(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	for _, opts := range []Options{
		{FS: fsys, Dir: testDir, SegmentSize: 1000},
		{FS: fsys, Dir: testDir, SegmentSize: PageSize + 1},
		{FS: fsys, Dir: testDir, SegmentSize: -PageSize},
		{FS: fsys},
		{Dir: testDir},
	} {
		_, err := Open(opts, Position{})
		require.Error(t, err, "%+v", opts)
	}
	putFile(t, fsys, segmentPath(0), []byte("x"))
	_, err := Open(Options{FS: fsys, Dir: testDir}, Position{})
	require.ErrorIs(t, err, syscall.EEXIST)
	data, err := fsys.ReadFile(segmentPath(0))
	require.NoError(t, err)
	require.Equal(t, "x", string(data))
}

func TestLog_RecordsOfTheLogItselfAreRefused(t *testing.T) {
	l := openLog(t, tsdbtest.NewMemFS(), Options{}, Position{})
	for b := typeHeader; b <= typeShortFrame; b++ {
		_, err := commit(l, []byte{b, 1})
		require.ErrorIs(t, err, ErrReservedRecord)
		require.ErrorIs(t, err, ErrNotCommitted)
	}
	require.EqualValues(t, 1, write(t, l, []byte{typeShortFrame + 1}))
}

func TestLog_RecordThatIsTooLargeFailsAlone(t *testing.T) {
	l := openLog(t, tsdbtest.NewMemFS(), Options{}, Position{})
	c := fill(new(Commit), []byte("\x02x"))
	require.NoError(t, l.Enqueue(c))
	c.err = ErrRecordTooLarge // as encode says for more than MaxRecordSize bytes
	err := l.Write(c)
	require.ErrorIs(t, err, ErrNotCommitted)
	require.ErrorIs(t, err, ErrRecordTooLarge)
	l.Settle(c)
	require.EqualValues(t, 1, write(t, l, []byte("\x02x")))
}
