package wal

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// keepOdd keeps records of odd commits, writes those of multiples of five anew, and keeps
// all others as they are.
func keepOdd(rec Record, dst []byte) ([]byte, bool) {
	var n int
	if _, err := fmt.Sscanf(string(rec.Data), "\x02commit %d", &n); err != nil {
		return rec.Data, true
	}
	if n%5 == 0 {
		return fmt.Appendf(dst, "\x03five times %d", n/5), true
	}
	return nil, n%2 == 1
}

// keptTexts is what keepOdd leaves of records, in order.
func keptTexts(recs ...string) (kept []string) {
	for _, r := range recs {
		if out, ok := keepOdd(Record{Data: []byte(r)}, nil); ok && len(out) > 0 {
			kept = append(kept, string(out))
		}
	}
	return kept
}

// allTexts returns the records of a replay in the order of the log.
func (r *replayed) allTexts() []string {
	all := slices.Clone(r.single)
	for _, seq := range r.order {
		all = append(all, r.commits[seq]...)
	}
	return all
}

// requireTexts compares without printing pages.
func requireTexts(t testing.TB, want, got []string, about string) {
	t.Helper()
	short := func(texts []string) (out []string) {
		for _, s := range texts {
			out = append(out, fmt.Sprintf("%.20q... %d bytes, %s", s, len(s), checksumHex([]byte(s))))
		}
		return out
	}
	require.Equal(t, short(want), short(got), about)
}

// checkpointLog is a log of n commits in several segments, the last of which is empty.
func checkpointLog(t testing.TB, fsys fileutil.FS, n int, comp Compression, policy SyncPolicy) *Log {
	l := openLog(t, fsys, Options{SegmentSize: 2 * PageSize, Compression: codecOf(comp), Sync: policy, NextRef: func() uint64 { return 77 }}, Position{})
	for from := 1; from <= n; from += 4 {
		writeCommits(t, l, from, min(n, from+3))
		_, err := l.Rotate()
		require.NoError(t, err)
	}
	return l
}

func checkpointTo(upTo int) CheckpointOptions {
	return CheckpointOptions{UpTo: upTo, TmpDir: testTmp, QuarantineDir: testQuarantine, Keep: keepOdd}
}

// requireReferenceOpens checks what the reference wants of a log's names: all segments in
// a row, from 0 or leading up to one right behind the checkpoint.
func requireReferenceOpens(t testing.TB, fsys fileutil.FS) {
	t.Helper()
	entries, err := fsys.ReadDir(testDir)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	require.NoError(t, err)
	var numbers []int
	checkpoint := -1
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			numbers = append(numbers, n)
		}
		if n, ok := checkpointNumber(e); ok {
			checkpoint = max(checkpoint, n)
		}
	}
	if len(numbers) == 0 {
		require.Negative(t, checkpoint)
		return
	}
	slices.Sort(numbers)
	for i, n := range numbers {
		require.Equal(t, numbers[0]+i, n, "segments %v", numbers)
	}
	require.LessOrEqual(t, numbers[0], checkpoint+1)
	require.Greater(t, numbers[len(numbers)-1], checkpoint)
}

func TestCheckpoint_ReplacesSegmentsByWhatIsKept(t *testing.T) {
	for _, comp := range []Compression{CompressionNone, CompressionSnappy, CompressionZstd} {
		t.Run(comp.String(), func(t *testing.T) {
			fsys := tsdbtest.NewMemFS()
			l := checkpointLog(t, fsys, 40, comp, SyncInterval(1))
			want := keptTexts(replay(t, fsys, 2).allTexts()...)
			upTo := l.Segment() - 1
			require.Greater(t, upTo, 2)

			written := 0
			opts := checkpointTo(upTo)
			opts.Written = func(n int) error { written += n; return nil }
			opts.Tail = func(emit func([]byte) error) error { return emit([]byte("\x06tail")) }
			rep, err := l.Checkpoint(context.Background(), opts)
			require.NoError(t, err)
			want = append(want, "\x06tail")
			require.Equal(t, upTo, rep.Number)
			require.Equal(t, upTo+1, rep.Segments)
			require.Equal(t, upTo+1, rep.Removed)
			require.Equal(t, len(want), rep.Records)
			require.Greater(t, rep.Read, rep.Records)
			require.EqualValues(t, written, rep.Bytes)
			require.Empty(t, rep.Damages)

			list, err := List(fsys, testDir)
			require.NoError(t, err)
			require.Equal(t, upTo, list.Checkpoint)
			require.Empty(t, list.Covered)
			require.Len(t, list.Segments, 1)
			if comp == CompressionNone {
				require.Greater(t, len(list.CheckpointSegments), 1)
				for _, seg := range list.CheckpointSegments {
					require.LessOrEqual(t, seg.Size, int64(2*PageSize))
				}
			}

			write(t, l, testBody(41)...)
			got := replay(t, fsys, 2)
			requireTexts(t, append(slices.Clone(want), texts(testBody(41))...), got.allTexts(), "")
			require.False(t, got.ForeignCheckpoint)
			require.Empty(t, got.Damages)
			require.EqualValues(t, 41, got.LastSeq)
			require.EqualValues(t, 77, got.NextRef)
			requireReferenceOpens(t, fsys)

			// The next one replaces this one.
			next, err := l.Rotate()
			require.NoError(t, err)
			rep, err = l.Checkpoint(context.Background(), checkpointTo(next-1))
			require.NoError(t, err)
			require.Equal(t, 1, rep.Removed)
			got = replay(t, fsys, 2)
			requireTexts(t, keptTexts(append(want, texts(testBody(41))...)...), got.allTexts(), "")
			require.EqualValues(t, 41, got.LastSeq)
			require.NoError(t, l.Close())

			entries, err := fsys.ReadDir(testDir)
			require.NoError(t, err)
			require.Len(t, entries, 2, "one checkpoint and one segment")
			require.Empty(t, fsys.OpenHandles())
		})
	}
}

func TestCheckpoint_TakesRecordsOfOthersAsTheyCome(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	putFile(t, fsys, testDir+"/checkpoint.2/00000000", foreignSegment(CompressionSnappy, recs("\x01c1", "\x02commit 2", "\x02commit 5")...))
	putFile(t, fsys, segmentPath(3), foreignSegment(CompressionZstd, append(recs("\x02commit 7", "\xc8unknown", "\x02commit 8"),
		bytes.Repeat([]byte{typeFrame}, 100), bytes.Repeat([]byte{typeShortFrame}, 100))...)) // stored as they are they would be taken for frames
	r := replay(t, fsys, 1)
	require.Len(t, r.allTexts(), 8)
	l := openLog(t, fsys, Options{Compression: &None}, repair(t, fsys, r))
	write(t, l, []byte("\x02ours"))
	_, err := l.Checkpoint(context.Background(), checkpointTo(3))
	require.NoError(t, err)
	got := replay(t, fsys, 1)
	require.Equal(t, append(keptTexts(r.allTexts()...), "\x02ours"), got.allTexts())
	require.Empty(t, got.Damages)
	_, err = fsys.Stat(testDir + "/checkpoint.2")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestCheckpoint_KeepsWhatIsGoodOfDamagedFilesAndACopy(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	l := checkpointLog(t, fsys, 40, CompressionSnappy, SyncCommit())
	upTo := l.Segment() - 1
	seg, err := fileutil.ReadFile(fsys, segmentPath(1), 1<<20)
	require.NoError(t, err)
	spans := commitSpans(t, seg)
	lost := uint64(0)
	for seq := range spans {
		if lost == 0 || seq < lost {
			lost = seq
		}
	}
	seg[spans[lost].off+fragmentHeaderSize] ^= 1
	putFile(t, fsys, segmentPath(1), seg)

	rep, err := l.Checkpoint(context.Background(), checkpointTo(upTo))
	require.NoError(t, err)
	require.Len(t, rep.Damages, 1)
	require.Equal(t, lost, rep.Damages[0].FirstSeq)
	require.Equal(t, lost, rep.Damages[0].LastSeq)
	require.False(t, rep.Damages[0].Tail)
	saved, err := fileutil.ReadFile(fsys, filepath.Join(testQuarantine, "wal-00000001"), 1<<20)
	require.NoError(t, err)
	require.Equal(t, seg, saved)

	var want []string
	for n := uint64(1); n <= 40; n++ {
		if n != lost {
			want = append(want, keptTexts(texts(testBody(int(n)))...)...)
		}
	}
	got := replay(t, fsys, 1)
	requireTexts(t, want, got.allTexts(), "")
	require.Empty(t, got.Damages, "it is reported once")
	require.EqualValues(t, 40, got.LastSeq)
}

// Bug 22: an empty directory in the place of a checkpoint is damage, and no reason to panic.
func TestCheckpoint_Bug22_ThatLostAllItsFilesIsDamage(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	l := checkpointLog(t, fsys, 12, CompressionNone, SyncCommit())
	_, err := l.Checkpoint(context.Background(), checkpointTo(1))
	require.NoError(t, err)
	list, err := List(fsys, testDir)
	require.NoError(t, err)
	for _, seg := range list.CheckpointSegments {
		require.NoError(t, fsys.Remove(seg.Path))
	}
	for range 2 {
		got := replay(t, fsys, 1)
		requireCommits(t, got, 9, 10, 11, 12)
		require.Len(t, got.Damages, 1)
		require.Equal(t, list.CheckpointDir, got.Damages[0].File)
		require.False(t, got.Damages[0].Tail)
		repair(t, fsys, got)
	}
	rep, err := l.Checkpoint(context.Background(), checkpointTo(2))
	require.NoError(t, err)
	require.Len(t, rep.Damages, 1)
	require.Empty(t, replay(t, fsys, 1).Damages)
}

func TestCheckpoint_MissesCommitsAtTheEndOfWhatItCovers(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	l := checkpointLog(t, fsys, 5, CompressionNone, SyncNever())
	last := l.Segment() - 1
	seg, err := fileutil.ReadFile(fsys, segmentPath(last), 1<<20)
	require.NoError(t, err)
	cut := commitSpans(t, seg)[5].off
	putFile(t, fsys, segmentPath(last), seg[:cut])
	rep, err := l.Checkpoint(context.Background(), checkpointTo(last))
	require.NoError(t, err)
	require.Len(t, rep.Damages, 1)
	require.EqualValues(t, 5, rep.Damages[0].LastSeq)
	require.Equal(t, 1, rep.Damages[0].Commits)
	require.EqualValues(t, 5, replay(t, fsys, 1).LastSeq)
}

func TestCheckpoint_ThatCannotBeMadeChangesNothing(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	l := checkpointLog(t, fsys, 20, CompressionNone, SyncCommit())
	upTo := l.Segment() - 1
	before := replay(t, fsys, 1).allTexts()
	failed := errors.New("enough")
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	with := func(change func(*CheckpointOptions)) CheckpointOptions {
		opts := checkpointTo(upTo)
		change(&opts)
		return opts
	}
	for name, tc := range map[string]struct {
		ctx  context.Context
		opts CheckpointOptions
		is   error
		text string
	}{
		"the segment being written": {opts: checkpointTo(upTo + 1), text: "being written"},
		"none":                      {opts: checkpointTo(-1), text: "covered"},
		"a context that ended":      {ctx: canceled, opts: checkpointTo(upTo), is: context.Canceled},
		"pacing that fails":         {opts: with(func(o *CheckpointOptions) { o.Written = func(int) error { return failed } }), is: failed},
		"a tail that fails":         {opts: with(func(o *CheckpointOptions) { o.Tail = func(func([]byte) error) error { return failed } }), is: failed},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := tc.ctx
			if ctx == nil {
				ctx = context.Background()
			}
			_, err := l.Checkpoint(ctx, tc.opts)
			require.Error(t, err)
			if tc.is != nil {
				require.ErrorIs(t, err, tc.is)
			}
			require.ErrorContains(t, err, tc.text)
			requireTexts(t, before, replay(t, fsys, 1).allTexts(), "")
			entries, err := fsys.ReadDir(testTmp)
			require.NoError(t, err)
			require.Len(t, entries, 1, "nothing but the log")
		})
	}
	_, err := l.Checkpoint(context.Background(), checkpointTo(upTo))
	require.NoError(t, err)
	_, err = l.Checkpoint(context.Background(), checkpointTo(upTo))
	require.ErrorContains(t, err, "covered")
	require.NoError(t, l.Close())
	_, err = l.Checkpoint(context.Background(), checkpointTo(upTo))
	require.ErrorIs(t, err, ErrClosed)
}

func TestCheckpoint_BesideCommits(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	l := openLog(t, fsys, Options{SegmentSize: 2 * PageSize, Compression: &Snappy, Sync: SyncInterval(1)}, Position{})
	const writers, each = 4, 300
	first := make(chan struct{}) // closed when there is a checkpoint
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if i == each/2 {
					<-first // fast writers could end before
				}
				if _, err := commit(l, fmt.Appendf(nil, "\x02w%d %d", w, i), noise(uint32(w*each+i), 200)); err != nil {
					panic(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	made := 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		next, err := l.Rotate()
		require.NoError(t, err)
		opts := checkpointTo(next - 1)
		opts.Keep = nil
		rep, err := l.Checkpoint(context.Background(), opts)
		require.NoError(t, err)
		require.Empty(t, rep.Damages)
		if made++; made == 1 {
			close(first)
		}
	}
	require.Greater(t, made, 1)
	seen := map[string]bool{}
	got := replay(t, fsys, 2)
	for _, text := range got.allTexts() {
		require.False(t, seen[text], "twice")
		seen[text] = true
	}
	require.Len(t, seen, writers*each*2)
	require.EqualValues(t, writers*each, got.LastSeq)
}

// Every state in which a power cut may leave the disk while a checkpoint is made replays
// the same, after repair as well, and the reference opens it.
func TestCheckpoint_PowerLossAtEveryStepLosesNothing(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncCommit(), SyncRotate(), SyncNever()} {
		t.Run(policy.String(), func(t *testing.T) {
			fsys := tsdbtest.NewMemFS()
			l := checkpointLog(t, fsys, 12, CompressionNone, policy)
			_, err := l.Checkpoint(context.Background(), checkpointTo(0)) // one to be replaced
			require.NoError(t, err)
			require.NoError(t, l.Sync())
			upTo := l.Segment() - 1
			require.Greater(t, upTo, 1)
			want := keptTexts(replay(t, fsys, 1).allTexts()...)
			states := 0
			check := func() {
				for disk := range fsys.CrashStates(200) {
					states++
					requireReferenceOpens(t, disk)
					got := replay(t, disk, 1)
					requireTexts(t, want, keptTexts(got.allTexts()...), disk.FateString())
					require.EqualValues(t, 12, got.LastSeq)
					require.Empty(t, got.Damages)
					if states%20 == 0 {
						repair(t, disk, got)
						requireReferenceOpens(t, disk)
						requireTexts(t, want, keptTexts(replay(t, disk, 1).allTexts()...), disk.FateString())
					}
				}
			}
			fsys.SetHook(func(op tsdbtest.Op) error {
				if op.Kind.Mutates() {
					check()
				}
				return nil
			})
			rep, err := l.Checkpoint(context.Background(), checkpointTo(upTo))
			fsys.SetHook(nil)
			require.NoError(t, err)
			require.Greater(t, rep.Removed, 1)
			check()
			t.Logf("%d states of the disk", states)
			require.Greater(t, states, 50)
		})
	}
}

// Whatever fails while a checkpoint is made is returned, and costs nothing.
func TestCheckpoint_EveryFaultIsReturnedAndLosesNothing(t *testing.T) {
	faults := 0
	for _, fault := range faultfs.Standard() {
		for fault.Nth = 1; ; fault.Nth++ {
			mem := tsdbtest.NewMemFS()
			fsys := faultfs.New(mem)
			l := checkpointLog(t, fsys, 12, CompressionNone, SyncInterval(1))
			_, err := l.Checkpoint(context.Background(), checkpointTo(0))
			require.NoError(t, err)
			require.NoError(t, l.Sync())
			want := keptTexts(replay(t, mem, 1).allTexts()...)
			upTo := l.Segment() - 1

			fsys.Inject(fault)
			_, err = l.Checkpoint(context.Background(), checkpointTo(upTo))
			hits := fsys.Hits()
			fsys.Lift()
			if len(hits) == 0 {
				require.NoError(t, err)
				break
			}
			faults++
			name := fmt.Sprintf("%s, %d: %v", fault.Name, fault.Nth, hits[0])
			require.Error(t, err, name)
			for _, hit := range hits {
				if hit.Kind == tsdbtest.OpSync || hit.Kind == tsdbtest.OpSyncDir {
					require.ErrorIs(t, err, ErrPoisoned, name)
					require.ErrorIs(t, l.Err(), ErrPoisoned, name)
				}
			}
			if !errors.Is(err, ErrPoisoned) {
				require.NoError(t, l.Err(), name)
			}
			for _, lose := range []func(tsdbtest.Pending) tsdbtest.Outcome{tsdbtest.LoseAll, tsdbtest.KeepAll} {
				disk := mem.CrashClone(tsdbtest.CrashOptions{Choose: lose})
				requireReferenceOpens(t, disk)
				got := replay(t, disk, 1)
				requireTexts(t, want, keptTexts(got.allTexts()...), name)
				require.Empty(t, got.Damages, name)
			}
			if l.Err() != nil {
				continue
			}
			// Another attempt works and leaves nothing behind.
			next, err := l.Rotate()
			require.NoError(t, err, name)
			_, err = l.Checkpoint(context.Background(), checkpointTo(next-1))
			require.NoError(t, err, name)
			requireTexts(t, want, keptTexts(replay(t, mem, 1).allTexts()...), name)
			entries, err := mem.ReadDir(testDir)
			require.NoError(t, err)
			require.Len(t, entries, 2, name)
			entries, err = mem.ReadDir(testTmp)
			require.NoError(t, err)
			for _, e := range entries {
				require.False(t, e.Name() == checkpointTmp, name)
			}
			require.NoError(t, l.Close(), name)
			require.Empty(t, mem.OpenHandles(), name)
		}
	}
	t.Logf("%d faults", faults)
	require.Greater(t, faults, 100)
}

func TestCheckpoint_FullDiskIsErrDiskFull(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	l := checkpointLog(t, fsys, 40, CompressionNone, SyncInterval(1))
	upTo := l.Segment() - 1
	fsys.SetCapacity(fsys.Used() + 4096)
	_, err := l.Checkpoint(context.Background(), checkpointTo(upTo))
	require.ErrorIs(t, err, ErrDiskFull)
	require.NoError(t, l.Err())
	write(t, l, []byte("\x02it goes on"))
	fsys.SetCapacity(0)
	_, err = l.Checkpoint(context.Background(), checkpointTo(upTo))
	require.NoError(t, err)
}
