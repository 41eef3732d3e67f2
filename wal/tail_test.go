package wal

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// readTail reads all commits up to one, which must be those from first on.
func readTail(t require.TestingT, tail *Tail, first, upTo int) (places []Place) {
	for n := first; n <= upTo; n++ {
		records, ok, err := tail.Next(uint64(upTo))
		require.NoError(t, err, n)
		require.True(t, ok, n)
		requireBody(t, records, n)
		require.EqualValues(t, n, tail.Place().Seq)
		places = append(places, tail.Place())
	}
	_, ok, err := tail.Next(uint64(upTo))
	require.NoError(t, err)
	require.False(t, ok)
	return places
}

func requireBody(t require.TestingT, records [][]byte, n int) {
	want := testBody(n)
	require.Len(t, records, len(want), n)
	for i := range want {
		require.Equal(t, string(want[i]), string(records[i]), n)
	}
}

func TestTail_ReadsWhatIsWritten(t *testing.T) {
	for _, comp := range []Compression{CompressionNone, CompressionSnappy, CompressionZstd} {
		t.Run(comp.String(), func(t *testing.T) {
			disk := tsdbtest.NewMemFS()
			l := openLog(t, disk, Options{SegmentSize: 2 * PageSize, Compression: codecOf(comp), Sync: SyncNever()}, Position{})
			tail, err := NewTail(l, 0)
			require.NoError(t, err)
			var written atomic.Uint64
			go func() {
				for n := 1; n <= 300; n++ {
					if _, err := commit(l, testBody(n)...); err != nil {
						t.Error(err)
						return
					}
					written.Store(uint64(n))
				}
			}()
			for n := 1; n <= 300; {
				records, ok, err := tail.Next(written.Load())
				require.NoError(t, err)
				if !ok {
					runtime.Gosched()
					continue
				}
				requireBody(t, records, n)
				n++
			}
			require.Positive(t, l.Segment())
			require.NoError(t, tail.Close())
			require.NoError(t, l.Close())
			require.Empty(t, disk.OpenHandles())
		})
	}
}

// Wherever a Tail stopped, another one goes on there, also when the log was opened anew.
func TestTail_ResumesAtEachPlace(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	l := openLog(t, disk, Options{SegmentSize: 2 * PageSize}, Position{})
	writeCommits(t, l, 1, 60)
	tail, err := NewTail(l, 0)
	require.NoError(t, err)
	places := readTail(t, tail, 1, 60)
	require.NoError(t, tail.Close())
	for range 2 {
		for n := range 60 {
			behind, err := NewTail(l, uint64(n))
			require.NoError(t, err)
			readTail(t, behind, n+1, 60)
			if n > 0 {
				require.NoError(t, tail.Resume(places[n-1]))
				readTail(t, tail, n+1, 60)
				require.NoError(t, behind.Behind(uint64(n)))
				require.NoError(t, tail.Resume(behind.Place()), "it may be the begin of a segment")
				readTail(t, tail, n+1, 60)
				moved := places[n-1]
				moved.Offset = 0 // a repair moved it
				require.NoError(t, tail.Resume(moved))
				readTail(t, tail, n+1, 60)
			}
			require.NoError(t, behind.Close())
		}
		require.NoError(t, tail.Close())
		require.NoError(t, l.Close())
		l = openLog(t, disk, Options{SegmentSize: 2 * PageSize}, repair(t, disk, replay(t, disk, 1)))
		tail, err = NewTail(l, 60)
		require.NoError(t, err)
	}
	require.NoError(t, tail.Close())
	require.NoError(t, l.Close())
}

func TestTail_SaysWhatTheLogLacks(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	l := openLog(t, disk, Options{SegmentSize: 2 * PageSize}, Position{})
	writeCommits(t, l, 1, 60)
	tail, err := NewTail(l, 0)
	require.NoError(t, err)
	first := readTail(t, tail, 1, 60)[0]
	require.NoError(t, tail.Behind(0))
	require.NoError(t, RemoveBefore(disk, testDir, 3))
	_, err = NewTail(l, 0)
	require.ErrorIs(t, err, ErrGone)
	for range 60 {
		if _, _, err = tail.Next(60); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, ErrGone, "it had only the segment that was open")
	require.ErrorIs(t, tail.Resume(first), ErrGone)

	require.NoError(t, tail.Behind(59))
	readTail(t, tail, 60, 60)
	other := tail.Place()
	other.Sum++
	require.ErrorIs(t, tail.Resume(other), ErrGone, "another commit has its number")
	require.ErrorIs(t, tail.Resume(Place{Segment: 1 << 30, Seq: 60}), ErrGone)
	require.NoError(t, tail.Close())
	require.NoError(t, l.Close())
	require.Empty(t, disk.OpenHandles())
}

// An error of the disk that goes away leaves nothing behind.
func TestTail_GoesOnAfterAnError(t *testing.T) {
	disk := faultfs.New(tsdbtest.NewMemFS())
	l, err := Open(Options{FS: disk, Dir: testDir, SegmentSize: 2 * PageSize}, Position{})
	require.NoError(t, err)
	tail, err := NewTail(l, 0)
	require.NoError(t, err)
	for n := 1; n <= 60; n++ {
		_, err := commit(l, testBody(n)...)
		require.NoError(t, err)
	}
	for n := 1; n <= 60; n++ {
		disk.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpReadAt, tsdbtest.OpOpen, tsdbtest.OpSize}, Err: syscall.EIO})
		records, ok, err := tail.Next(60)
		if err != nil {
			require.ErrorIs(t, err, syscall.EIO)
			records, ok, err = tail.Next(60)
		}
		disk.Lift()
		require.NoError(t, err, n)
		require.True(t, ok)
		requireBody(t, records, n)
	}
	require.NoError(t, tail.Close())
	require.NoError(t, l.Close())
}

// Behind damage a Tail goes on that is sent there.
func TestTail_Behind_PassesOverDamage(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	l := openLog(t, disk, Options{}, Position{})
	writeCommits(t, l, 1, 20)
	tail, err := NewTail(l, 0)
	require.NoError(t, err)
	places := readTail(t, tail, 1, 20)
	content, err := disk.ReadFile(segmentPath(0))
	require.NoError(t, err)
	content[places[8].Offset-3] ^= 1 // of the ninth
	f, err := disk.OpenWrite(segmentPath(0))
	require.NoError(t, err)
	require.NoError(t, f.Truncate(0))
	_, err = f.Write(content)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, tail.Behind(0))
	for range 8 {
		_, _, err := tail.Next(20)
		require.NoError(t, err)
	}
	_, _, err = tail.Next(20)
	require.ErrorIs(t, err, ErrGone)
	for n := 9; n <= 20; n++ {
		require.NoError(t, tail.Behind(uint64(n)))
		readTail(t, tail, n+1, 20)
	}
	require.ErrorIs(t, tail.Behind(21), ErrGone)
	require.NoError(t, tail.Close())
	require.NoError(t, l.Close())
}

// What a failed write left is cut, and something else comes in its place.
func TestTail_PassesOverWritesThatFailed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		disk := faultfs.New(tsdbtest.NewMemFS())
		l, err := Open(Options{FS: disk, Dir: testDir, SegmentSize: 2 * PageSize}, Position{})
		require.NoError(t, err)
		tail, err := NewTail(l, 0)
		require.NoError(t, err)
		next, read := 1, 1
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				disk.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpWrite}, Half: true, Err: syscall.EIO})
				_, err := commit(l, []byte(fmt.Sprint("\x02lost ", next)), lcg(1, rapid.IntRange(1, 2*PageSize-1000).Draw(t, "size")))
				require.Error(t, err)
			case 1: // what is torn may be in the file still
				upTo := next - 1
				readTail(t, tail, read, upTo)
				read = next
			default:
				_, err := commit(l, testBody(next)...)
				require.NoError(t, err)
				next++
			}
		}
		readTail(t, tail, read, next-1)
		require.NoError(t, tail.Close())
		require.NoError(t, l.Close())
	})
}
