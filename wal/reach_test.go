package wal

import (
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const testReach = "data/log_reach"

// reachedLog writes three segments of three commits each and returns what a kill leaves then, and
// what is there after Close. With SyncCommit nobody asks for a sync, or a note.
func reachedLog(t *testing.T, policy SyncPolicy) (killed, closed *tsdbtest.MemFS) {
	t.Helper()
	fsys := tsdbtest.NewMemFS()
	l := openLog(t, fsys, Options{Sync: policy, ReachFile: testReach, NextRef: func() uint64 { return 77 }}, Position{})
	for n := 1; n <= 7; n += 3 {
		if n > 1 {
			_, err := l.Rotate()
			require.NoError(t, err)
		}
		writeCommits(t, l, n, n+2)
	}
	if policy != SyncCommit() {
		require.NoError(t, l.Sync())
	}
	killed = fsys.KillClone()
	require.NoError(t, l.Close())
	return killed, fsys
}

// replayReached is replay with what was noted.
func replayReached(t *testing.T, fsys *tsdbtest.MemFS) *ReplayReport {
	t.Helper()
	r, found, err := ReadReach(fsys, testReach)
	require.NoError(t, err)
	require.True(t, found)
	rep, err := Replay(context.Background(), ReplayOptions{FS: fsys, Dir: testDir, Reached: &r})
	require.NoError(t, err)
	return rep
}

func cutFile(t *testing.T, fsys *tsdbtest.MemFS, name string, size int64) {
	t.Helper()
	data, err := fsys.ReadFile(name)
	require.NoError(t, err)
	putFile(t, fsys, name, data[:size])
}

func TestReplay_LogThatEndsTooEarly_IsDamageAndNotAgainAfterRepair(t *testing.T) {
	killed, closed := reachedLog(t, SyncNever())
	killedAtOnce, _ := reachedLog(t, SyncCommit())
	newest := segmentPath(2)
	data, err := killed.ReadFile(newest)
	require.NoError(t, err)
	spans := commitSpans(t, data)
	remove := func(names ...string) func(*tsdbtest.MemFS) {
		return func(fsys *tsdbtest.MemFS) {
			for _, name := range names {
				require.NoError(t, fsys.Remove(name))
			}
		}
	}
	cut := func(name string, size int64) func(*tsdbtest.MemFS) {
		return func(fsys *tsdbtest.MemFS) { cutFile(t, fsys, name, size) }
	}
	for _, c := range []struct {
		name    string
		damage  func(*tsdbtest.MemFS)
		left    uint64 // commits
		missing int
	}{
		{"nothing", func(*tsdbtest.MemFS) {}, 9, 0},
		{"newest empty", cut(newest, 0), 6, 3},
		{"newest gone", remove(newest), 6, 3},
		{"newest cut behind its header", cut(newest, spans[7].off), 6, 3},
		{"newest cut behind a commit", cut(newest, spans[8].off), 7, 2},
		{"newest cut within a commit", cut(newest, spans[9].off+5), 8, 1},
		{"two gone", remove(newest, segmentPath(1)), 3, 6},
		{"all gone", remove(newest, segmentPath(1), segmentPath(0)), 0, 9},
		{"one empty one left", func(fsys *tsdbtest.MemFS) {
			remove(newest, segmentPath(1))(fsys)
			cut(segmentPath(0), 0)(fsys)
		}, 0, 9},
	} {
		for how, from := range map[string]*tsdbtest.MemFS{"killed": killed, "closed": closed, "killed behind a commit": killedAtOnce} {
			t.Run(c.name+", "+how, func(t *testing.T) {
				fsys := from.KillClone()
				c.damage(fsys)
				rep := replayReached(t, fsys)
				require.EqualValues(t, 9, rep.LastSeq, "no number comes twice")
				require.EqualValues(t, c.left, rep.Commits)
				require.Equal(t, c.missing, rep.DroppedCommits)
				require.GreaterOrEqual(t, rep.NextRef, uint64(77))
				if c.missing == 0 {
					require.Empty(t, rep.Damages)
					return
				}
				require.Len(t, rep.Damages, 1)
				d := rep.Damages[0]
				require.False(t, d.Tail || d.Harmless, "%+v", d)
				require.Equal(t, [2]uint64{c.left + 1, 9}, [2]uint64{d.FirstSeq, d.LastSeq})

				at, err := Repair(context.Background(), fsys, testDir, testQuarantine, testTmp, rep)
				require.NoError(t, err)
				l := openLog(t, fsys, Options{ReachFile: testReach}, at)
				require.EqualValues(t, 10, write(t, l, testBody(10)...))
				again := replayReached(t, fsys.KillClone())
				require.Empty(t, again.Damages)
				require.EqualValues(t, 10, again.LastSeq)
				require.NoError(t, l.Close())
			})
		}
	}
}

func TestReplay_NoteOfTheLogsEnd_SaysNothingOfAnotherLog(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	for name, note := range map[string]Reach{
		"a segment of ours stands behind":       {Segment: 0, FirstSeq: 1, Synced: 100},
		"a checkpoint has replaced the segment": {Segment: 2, FirstSeq: 50, Synced: 100},
	} {
		t.Run(name, func(t *testing.T) {
			fsys = tsdbtest.NewMemFS()
			if note.Segment == 2 { // as another engine may leave it, which has dropped all frames
				require.NoError(t, fsys.MkdirAll(testDir+"/checkpoint.00000002"))
				putFile(t, fsys, testDir+"/checkpoint.00000002/00000000", foreignSegment(CompressionNone, []byte("\x01a")))
				putFile(t, fsys, segmentPath(3), foreignSegment(CompressionNone, []byte("\x02b")))
			} else {
				l := openLog(t, fsys, Options{}, Position{})
				writeCommits(t, l, 1, 3)
				_, err := l.Rotate()
				require.NoError(t, err)
				require.NoError(t, l.Close())
			}
			rep, err := Replay(context.Background(), ReplayOptions{FS: fsys, Dir: testDir, Reached: &note})
			require.NoError(t, err)
			require.Empty(t, rep.Damages)
			require.Zero(t, rep.DroppedCommits)
		})
	}
}

func TestReplay_CheckpointOfOursWithNothingBehind_IsDamage(t *testing.T) {
	for _, missing := range []bool{true, false} {
		fsys := tsdbtest.NewMemFS()
		l := openLog(t, fsys, Options{}, Position{})
		writeCommits(t, l, 1, 3)
		_, err := l.Rotate()
		require.NoError(t, err)
		_, err = l.Checkpoint(context.Background(), CheckpointOptions{UpTo: 0, TmpDir: testTmp, QuarantineDir: testQuarantine})
		require.NoError(t, err)
		require.Empty(t, replay(t, fsys.KillClone(), 1).Damages)
		writeCommits(t, l, 4, 6)
		fsys = fsys.KillClone()
		require.NoError(t, l.Close())
		if missing {
			require.NoError(t, fsys.Remove(segmentPath(1)))
		} else {
			cutFile(t, fsys, segmentPath(1), 0)
		}
		r := replay(t, fsys, 1)
		require.Len(t, r.Damages, 1)
		require.False(t, r.Damages[0].Tail || r.Damages[0].Harmless)
	}
}

// The segment right behind a checkpoint: its commits are missed by what the checkpoint knows,
// though no commit before them is left to count from.
func TestReplay_SegmentBehindACheckpointThatIsEmpty_IsDamage(t *testing.T) {
	for _, headed := range []bool{false, true} {
		fsys := tsdbtest.NewMemFS()
		l := openLog(t, fsys, Options{}, Position{})
		for n := 1; n <= 7; n += 3 {
			writeCommits(t, l, n, n+2)
			_, err := l.Rotate()
			require.NoError(t, err)
		}
		require.NoError(t, l.Sync())
		_, err := l.Checkpoint(context.Background(), CheckpointOptions{UpTo: 0, TmpDir: testTmp, QuarantineDir: testQuarantine})
		require.NoError(t, err)
		require.NoError(t, l.Close())
		require.Empty(t, replay(t, fsys, 1).Damages)
		left := 0
		if headed {
			bare, err := fsys.ReadFile(segmentPath(3)) // to which nothing was written
			require.NoError(t, err)
			left = len(bare)
		}
		cutFile(t, fsys, segmentPath(1), int64(left))
		r := replay(t, fsys, 1)
		require.Equal(t, 3, r.DroppedCommits)
		require.Len(t, r.Damages, 1)
		require.Equal(t, []uint64{4, 6}, []uint64{r.Damages[0].FirstSeq, r.Damages[0].LastSeq})
		require.False(t, r.Damages[0].Tail || r.Damages[0].Harmless)
		require.EqualValues(t, 9, r.LastSeq)
		repair(t, fsys, r)
		require.Empty(t, replay(t, fsys, 1).Damages, "it is told once")
	}
}

// A segment that another engine has written anew has no numbers any more: what a checkpoint of ours
// knows is not held against it.
func TestReplay_SegmentBehindACheckpointThatOthersWrote_MissesNothing(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	l := openLog(t, fsys, Options{}, Position{})
	for n := 1; n <= 7; n += 3 {
		writeCommits(t, l, n, n+2)
		_, err := l.Rotate()
		require.NoError(t, err)
	}
	_, err := l.Checkpoint(context.Background(), CheckpointOptions{UpTo: 0, TmpDir: testTmp, QuarantineDir: testQuarantine})
	require.NoError(t, err)
	require.NoError(t, l.Close())
	putFile(t, fsys, segmentPath(1), foreignSegment(CompressionNone, []byte("\x01a")))
	r := replay(t, fsys, 1)
	require.Zero(t, r.DroppedCommits)
	require.Empty(t, r.Damages)
	require.EqualValues(t, 9, r.LastSeq)
}

func TestReadReach_DamageLeavesTheNoteBefore(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	first := Reach{Segment: 3, FirstSeq: 10, NextRef: 4, Synced: 12, Mark: -5}
	last := Reach{Segment: 4, FirstSeq: 13, NextRef: 9, Synced: 20, Mark: 1 << 40}
	data := appendReach(appendReach(nil, first), last)
	require.Equal(t, "6c726331"+"0000000000000003"+"000000000000000a"+"0000000000000004"+"000000000000000c"+"fffffffffffffffb"+"363e3384",
		hex.EncodeToString(data[:reachBytes]), "a note of docs/format/log-reach.md")
	for bit := range 8 * len(data) {
		flipped := append([]byte(nil), data...)
		flipped[bit/8] ^= 1 << (bit % 8)
		putFile(t, fsys, testReach, flipped)
		r, found, err := ReadReach(fsys, testReach)
		require.NoError(t, err)
		require.True(t, found)
		want := last
		if bit >= 8*reachBytes {
			want = first
		}
		require.Equal(t, want, r, "bit %d", bit)
	}
	for size := range len(data) {
		putFile(t, fsys, testReach, data[:size])
		r, found, err := ReadReach(fsys, testReach)
		require.NoError(t, err)
		require.Equal(t, size >= reachBytes, found)
		if found {
			require.Equal(t, first, r)
		}
	}
	putFile(t, fsys, testReach, make([]byte, 1<<20))
	_, found, err := ReadReach(fsys, testReach)
	require.NoError(t, err)
	require.False(t, found, "it is none of ours")
}

func TestLog_NotesHowFarItReached(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	noted := func() Reach {
		r, found, err := ReadReach(fsys, testReach)
		require.NoError(t, err)
		require.True(t, found)
		return r
	}
	ref := uint64(1)
	l := openLog(t, fsys, Options{Sync: SyncNever(), ReachFile: testReach, Mark: 5, NextRef: func() uint64 { return ref }}, Position{})
	require.Equal(t, Reach{Segment: 0, FirstSeq: 1, NextRef: 1, Mark: 5}, noted())
	writeCommits(t, l, 1, 3)
	ref = 8
	require.NoError(t, l.SyncTo(2))
	require.Equal(t, Reach{Segment: 0, FirstSeq: 1, NextRef: 8, Synced: 3, Mark: 5}, noted())
	_, err := l.Rotate()
	require.NoError(t, err)
	require.Equal(t, Reach{Segment: 1, FirstSeq: 4, NextRef: 8, Synced: 3, Mark: 5}, noted())
	for n := 4; n < 4+2*maxReachNotes; n++ {
		writeCommits(t, l, n, n)
		require.NoError(t, l.Sync())
		require.EqualValues(t, n, noted().Synced)
	}
	info, err := fsys.Stat(testReach)
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(maxReachNotes*reachBytes))
	require.NoError(t, l.SetMark(6))
	lost, found, err := ReadReach(fsys.CrashClone(tsdbtest.CrashOptions{Choose: tsdbtest.LoseAll}), testReach)
	require.NoError(t, err)
	require.True(t, found)
	require.EqualValues(t, 6, lost.Mark, "a mark is on stable storage")
	last := write(t, l, testBody(1)...)
	require.NoError(t, l.Close())
	require.Equal(t, last, noted().Synced)
}

// With SyncCommit a commit is noted before its owner is told, without a wait for who sets a mark;
// what was left out for that is noted later.
func TestLog_NotesEachCommitThatIsSyncedAtOnce(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	synced := func() uint64 {
		r, found, err := ReadReach(fsys, testReach)
		require.NoError(t, err)
		require.True(t, found)
		return r.Synced
	}
	l := openLog(t, fsys, Options{Sync: SyncCommit(), ReachFile: testReach}, Position{})
	for n := uint64(1); n <= 2*maxReachNotes; n++ {
		require.Equal(t, n, write(t, l, testBody(1)...))
		require.Equal(t, n, synced())
	}
	l.reach.Lock()
	last := write(t, l, testBody(1)...)
	require.Equal(t, last-1, synced())
	l.reach.Unlock()
	l.Rest()
	require.Equal(t, last, synced())
	require.NoError(t, l.Close())
}

// openNotes counts how often the file of notes was opened, and whether it is open.
type openNotes struct {
	fileutil.FS
	path        string
	opens, open int
}

type notesFile struct {
	fileutil.File
	o *openNotes
}

func (f notesFile) Close() error {
	f.o.open--
	return f.File.Close()
}

func (o *openNotes) OpenWrite(name string) (fileutil.File, error) {
	return o.counted(name, o.FS.OpenWrite)
}

func (o *openNotes) Create(name string) (fileutil.File, error) { return o.counted(name, o.FS.Create) }

func (o *openNotes) counted(name string, open func(string) (fileutil.File, error)) (fileutil.File, error) {
	f, err := open(name)
	if err != nil || name != o.path {
		return f, err
	}
	o.opens++
	o.open++
	return notesFile{f, o}, nil
}

// The file of notes is open while there is a note behind each commit, else for a note only; what
// it has stays.
func TestRest_ClosesTheFileOfNotes(t *testing.T) {
	const path = "log_reach"
	for name, policy := range map[string]SyncPolicy{"each commit": SyncCommit(), "now and then": SyncInterval(time.Second)} {
		t.Run(name, func(t *testing.T) {
			o := &openNotes{FS: tsdbtest.NewMemFS(), path: path}
			l, err := Open(Options{FS: o, Dir: "wal", ReachFile: path, Sync: policy}, Position{})
			require.NoError(t, err)
			synced := func() uint64 {
				r, found, err := ReadReach(o.FS, path)
				require.NoError(t, err)
				require.True(t, found)
				return r.Synced
			}
			for n := range uint64(5) {
				var c Commit
				c.End(append(c.Begin(), 1))
				require.NoError(t, l.Enqueue(&c))
				require.NoError(t, l.Write(&c))
				require.NoError(t, l.Sync())
				l.Rest()
				require.Equal(t, n+1, synced())
			}
			if policy.Mode() == ModeCommit {
				require.Equal(t, 1, o.open)
				require.Equal(t, 1, o.opens)
			}
			l.Rest()
			l.Rest()
			require.Zero(t, o.open)
			require.NoError(t, l.SetMark(7))
			_, err = l.Rotate()
			require.NoError(t, err)
			r, _, err := ReadReach(o.FS, path)
			require.NoError(t, err)
			require.Equal(t, Reach{Segment: 1, FirstSeq: 6, NextRef: 1, Synced: 5, Mark: 7}, r)
			info, err := o.FS.Stat(path)
			require.NoError(t, err)
			require.EqualValues(t, 8*reachBytes, info.Size(), "of the start, of five commits, of the mark, of the segment")
			require.NoError(t, l.Close())
			require.Zero(t, o.open)
		})
	}
}
