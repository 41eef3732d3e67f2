package wal

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// expiringLog has a segment for each of times, with two commits that expire then and a
// lasting one between them. Commits are named by their segments.
func expiringLog(t *testing.T, fsys fileutil.FS, times ...int64) *Log {
	l := openLog(t, fsys, Options{SegmentSize: 2 * PageSize, Compression: &Snappy, Sync: SyncCommit()}, Position{})
	for i, at := range times {
		for k := range 3 {
			c := fill(new(Commit), fmt.Appendf(nil, "\x02segment %d commit %d", i, k))
			if k != 1 {
				c.Expires(at - int64(k))
			}
			require.NoError(t, l.Enqueue(c))
			require.NoError(t, l.Write(c))
		}
		_, err := l.Rotate()
		require.NoError(t, err)
	}
	return l
}

// expire makes a checkpoint of all that is finished, for which everything up to t has expired,
// and returns the records that were asked for.
func expire(t *testing.T, l *Log, at int64) (asked []string, rep CheckpointReport) {
	opts := checkpointTo(l.Segment() - 1)
	opts.Expired = func(newest int64) bool { return newest <= at }
	opts.Keep = func(rec Record, _ []byte) ([]byte, bool) {
		asked = append(asked, string(rec.Data))
		return rec.Data, true
	}
	rep, err := l.Checkpoint(context.Background(), opts)
	require.NoError(t, err)
	return asked, rep
}

func TestCheckpoint_PassesOverCommitsThatExpired(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	l := expiringLog(t, fsys, 10, 20, -5)
	asked, rep := expire(t, l, 19)
	want := []string{"\x02segment 0 commit 1", "\x02segment 1 commit 0", "\x02segment 1 commit 1", "\x02segment 1 commit 2", "\x02segment 2 commit 1"}
	require.Equal(t, want, asked, "those of a segment expire together; others never")
	require.Empty(t, rep.Damages)
	require.Equal(t, len(want), rep.Read)

	got := replay(t, fsys, 1)
	require.Equal(t, want, got.allTexts())
	require.Empty(t, got.Damages, "numbers that are gone are no loss")
	require.EqualValues(t, 9, got.LastSeq)

	// The checkpoint itself is taken apart the next time, what another Log wrote as well.
	write(t, l, []byte("\x02last"))
	require.NoError(t, l.Close())
	l = openLog(t, fsys, Options{SegmentSize: 2 * PageSize}, Position{Segment: l.Segment() + 1, NextSeq: 11, Synced: 10})
	asked, _ = expire(t, l, 1<<40)
	require.Equal(t, append(want, "\x02last"), asked)
	require.NoError(t, l.Close())
}

// Damage in what has expired is found and copied as anywhere else.
func TestCheckpoint_FindsDamageInWhatExpired(t *testing.T) {
	fsys := tsdbtest.NewMemFS()
	l := expiringLog(t, fsys, 10, 20)
	seg, err := fileutil.ReadFile(fsys, segmentPath(0), 1<<20)
	require.NoError(t, err)
	seg[commitSpans(t, seg)[3].off+fragmentHeaderSize] ^= 1
	putFile(t, fsys, segmentPath(0), seg)

	asked, rep := expire(t, l, 100)
	require.Equal(t, []string{"\x02segment 0 commit 1", "\x02segment 1 commit 1"}, asked)
	require.Len(t, rep.Damages, 1)
	require.EqualValues(t, 3, rep.Damages[0].FirstSeq)
	_, err = fileutil.ReadFile(fsys, filepath.Join(testQuarantine, "wal-00000000"), 1<<20)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// The number of a commit that failed comes again, and the later one counts.
func TestCheckpoint_ANumberThatComesAgainExpiresAsItsCommitDoes(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	fsys := faultfs.New(disk)
	l := openLog(t, fsys, Options{SegmentSize: 2 * PageSize, Sync: SyncCommit()}, Position{})
	fsys.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpWrite}, Half: true, Err: syscall.EIO})
	failed := fill(new(Commit), []byte("\x02failed"))
	failed.Expires(5)
	require.NoError(t, l.Enqueue(failed))
	require.Error(t, l.Write(failed))
	l.Settle(failed)
	require.Equal(t, failed.Seq(), write(t, l, []byte("\x02lasting")))
	_, err := l.Rotate()
	require.NoError(t, err)

	asked, _ := expire(t, l, 100)
	require.Equal(t, []string{"\x02lasting"}, asked)
	require.NoError(t, l.Close())
}
