package wal

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/tsdbtest"
)

// checkpointed has segments 0 to 3 of three commits each, a checkpoint of the first two of them,
// and beside it all that it replaced. older: there was one of the first segment before it.
func checkpointed(t *testing.T, older bool) (fsys *tsdbtest.MemFS, whole []byte) {
	t.Helper()
	fsys = tsdbtest.NewMemFS()
	l := openLog(t, fsys, Options{Sync: SyncCommit()}, Position{})
	replaced := map[string][]byte{}
	keep := func(name string) {
		data, err := fsys.ReadFile(name)
		require.NoError(t, err)
		replaced[name] = data
	}
	checkpoint := func(upTo int) {
		_, err := l.Checkpoint(context.Background(), CheckpointOptions{UpTo: upTo, TmpDir: testTmp, QuarantineDir: testQuarantine})
		require.NoError(t, err)
	}
	for n := 1; n <= 10; n += 3 {
		if n > 1 {
			_, err := l.Rotate()
			require.NoError(t, err)
		}
		writeCommits(t, l, n, n+2)
		if older && n == 4 {
			checkpoint(0)
			keep(checkpointFileOf(0))
		}
		if n == 7 {
			if !older {
				keep(segmentPath(0))
			}
			keep(segmentPath(1))
			checkpoint(1)
		}
	}
	fsys = fsys.KillClone()
	require.NoError(t, l.Close())
	for name, data := range replaced {
		require.NoError(t, fsys.MkdirAll(filepath.Dir(name)))
		putFile(t, fsys, name, data)
	}
	whole, err := fsys.ReadFile(checkpointFileOf(1))
	require.NoError(t, err)
	return fsys, whole
}

func checkpointFileOf(n int) string {
	return filepath.Join(testDir, checkpointName(n), segmentName(0))
}

// badCheckpoints are ways in which a checkpoint is not whole.
func badCheckpoints(whole []byte) map[string][]byte {
	flipped := append([]byte(nil), whole...)
	flipped[len(whole)/2] ^= 1
	items := 0
	for i := range whole {
		if whole[i] == typeCheckpointTrailer {
			items = i
		}
	}
	return map[string][]byte{
		"an empty directory": nil,
		"an empty file":      {},
		"a flipped bit":      flipped,
		"no trailer":         whole[:items-fragmentHeaderSize],
		"cut in the middle":  whole[:len(whole)/2],
		"zeros":              make([]byte, len(whole)),
	}
}

func putCheckpoint(t *testing.T, fsys *tsdbtest.MemFS, n int, data []byte) {
	t.Helper()
	if data == nil {
		if _, err := fsys.Stat(checkpointFileOf(n)); err == nil {
			require.NoError(t, fsys.Remove(checkpointFileOf(n)))
		}
		require.NoError(t, fsys.MkdirAll(filepath.Dir(checkpointFileOf(n))))
		return
	}
	require.NoError(t, fsys.MkdirAll(filepath.Dir(checkpointFileOf(n))))
	putFile(t, fsys, checkpointFileOf(n), data)
}

func inQuarantine(fsys *tsdbtest.MemFS) (names []string) {
	for _, name := range fsys.Files() {
		if strings.HasPrefix(name, testQuarantine+"/") && name != testQuarantine+"/" {
			names = append(names, strings.TrimPrefix(name, testQuarantine+"/"))
		}
	}
	return names
}

func TestRepair_CheckpointThatIsNotWhole_IsNotBelievedWhereWhatItReplacedIsThere(t *testing.T) {
	for _, older := range []bool{false, true} {
		_, whole := checkpointed(t, older)
		for name, data := range badCheckpoints(whole) {
			for _, number := range []int{1, 3, 9} { // what should be covered: some, all, more than there is
				t.Run(name, func(t *testing.T) {
					fsys, _ := checkpointed(t, older)
					if number != 1 {
						require.NoError(t, fsys.Remove(checkpointFileOf(1)))
						require.NoError(t, fsys.Remove(filepath.Dir(checkpointFileOf(1))))
					}
					putCheckpoint(t, fsys, number, data)
					for round := range 2 {
						r := replay(t, fsys, 1)
						require.EqualValues(t, 12, r.LastSeq)
						require.Zero(t, r.DroppedCommits+r.DroppedRecords)
						var want []string
						for n := 1; n <= 12; n++ {
							want = append(want, texts(testBody(n))...)
						}
						none := func(s string) bool { return s == "" } // a checkpoint leaves these out
						requireTexts(t, slices.DeleteFunc(want, none), slices.DeleteFunc(r.allTexts(), none), "all is read")
						if round == 1 {
							require.Empty(t, r.Damages)
							continue
						}
						require.Len(t, r.Damages, 1)
						require.True(t, r.Damages[0].Harmless && r.Damages[0].Checkpoint)
						repair(t, fsys, r)
						require.NotEmpty(t, inQuarantine(fsys))
						for _, name := range inQuarantine(fsys) {
							require.True(t, strings.HasPrefix(name, "wal-"+checkpointName(number)), name)
						}
					}
				})
			}
		}
	}
}

func TestRepair_WholeCheckpoint_IsBelievedBesideWhatItReplaced(t *testing.T) {
	for _, older := range []bool{false, true} {
		fsys, _ := checkpointed(t, older)
		r := replay(t, fsys, 1)
		require.Empty(t, r.Damages)
		require.Equal(t, 1, r.Checkpoint)
	}
}

func TestRepair_WhatADamagedCheckpointCovers_GoesToQuarantine(t *testing.T) {
	_, whole := checkpointed(t, false)
	for name, data := range badCheckpoints(whole) {
		t.Run(name, func(t *testing.T) {
			fsys, _ := checkpointed(t, false)
			require.NoError(t, fsys.Remove(segmentPath(1))) // so what it replaced is not all there
			putCheckpoint(t, fsys, 1, data)
			r := replay(t, fsys, 1)
			require.NotEmpty(t, r.Damages)
			repair(t, fsys, r)
			require.Contains(t, inQuarantine(fsys), "wal-00000000")
			require.NotContains(t, fsys.Files(), segmentPath(0))
		})
	}
}

func TestStaleReason_LogBehindACheckpointThatIsNotBelieved(t *testing.T) {
	fsys, _ := checkpointed(t, false)
	putCheckpoint(t, fsys, 9, nil)
	data, err := fsys.ReadFile(segmentPath(2))
	require.NoError(t, err)
	spans := commitSpans(t, data)
	require.Contains(t, spans, uint64(9))
	sum, err := lastFrame(context.Background(), fsys, SegmentFile{Number: 2, Path: segmentPath(2), Size: int64(len(data))})
	require.NoError(t, err)
	reason, err := StaleReason(context.Background(), fsys, testDir, Start{Segment: 3, NextSeq: 10, LastFrame: sum})
	require.NoError(t, err)
	require.Empty(t, reason)
}

func TestCheckpoint_OneThatIsNotBelieved_GoesToQuarantine(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	l := openLog(t, fsys, Options{}, Position{})
	writeCommits(t, l, 1, 3)
	_, err := l.Rotate()
	require.NoError(t, err)
	writeCommits(t, l, 4, 6)
	_, err = l.Rotate()
	require.NoError(t, err)
	putCheckpoint(t, fsys, 0, []byte("nothing"))
	_, err = l.Checkpoint(context.Background(), CheckpointOptions{UpTo: 1, TmpDir: testTmp, QuarantineDir: testQuarantine})
	require.NoError(t, err)
	require.Equal(t, []string{"wal-" + checkpointName(0) + "/" + segmentName(0)}, inQuarantine(fsys))
	fsys = fsys.KillClone()
	require.NoError(t, l.Close())
	var want []string
	for n := 1; n <= 6; n++ {
		want = append(want, texts(testBody(n))...)
	}
	none := func(s string) bool { return s == "" }
	requireTexts(t, slices.DeleteFunc(want, none), replay(t, fsys, 1).allTexts(), "all is kept")
}
