package wal

import (
	"context"
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/faultfs"
)

func TestCodec_HasTheNameOfWhatItWrites(t *testing.T) {
	for text, kind := range map[string]Compression{"none": CompressionNone, "snappy": CompressionSnappy, "zstd": CompressionZstd} {
		require.Equal(t, text, kind.String())
		require.Equal(t, text, codecOf(kind).String())
	}
	require.Equal(t, "unknown", Compression(9).String())
	require.Equal(t, "none", (*Codec)(nil).String())
}

func TestSyncPolicy_SaysWhatItIs(t *testing.T) {
	for text, p := range map[string]SyncPolicy{
		"commit": SyncCommit(), "interval(2s)": SyncInterval(2 * time.Second), "rotate": SyncRotate(), "never": SyncNever(), "unset": {},
	} {
		require.Equal(t, text, p.String())
	}
	require.Equal(t, 2*time.Second, SyncInterval(2*time.Second).Interval())
	require.Zero(t, SyncRotate().Interval())
}

func TestErrors_SayWhatHappenedAndWhy(t *testing.T) {
	full := &fs.PathError{Op: "write", Path: "wal/00000001", Err: syscall.ENOSPC}
	err := NotCommitted(full)
	require.EqualError(t, err, "not committed: no space left on the disk: write wal/00000001: no space left on device")
	for _, target := range []error{ErrNotCommitted, ErrDiskFull, syscall.ENOSPC} {
		require.ErrorIs(t, err, target)
	}
	require.NotErrorIs(t, NotCommitted(syscall.EIO), ErrDiskFull)
	require.ErrorIs(t, NotWritable(full), ErrReadOnly)
	require.ErrorIs(t, NotWritable(full), ErrDiskFull)
	require.Equal(t, ErrReadOnly, NotWritable(nil))
	require.ErrorIs(t, Poisoned(errors.New("x")), ErrReadOnly)
	require.ErrorIs(t, Poisoned(errors.New("x")), ErrPoisoned)
	require.ErrorIs(t, indeterminate(Poisoned(syscall.EIO)), ErrIndeterminate)
}

func TestCompressor_DenseRecordsStayInsideTheReadersBounds(t *testing.T) {
	for _, kind := range []Compression{CompressionSnappy, CompressionZstd} {
		c, err := newCompressor(codecOf(kind), 1)
		require.NoError(t, err)
		zeros := make([]byte, 8<<20)
		out, got, _ := c.compress(nil, zeros)
		if kind == CompressionZstd {
			require.Equal(t, CompressionNone, got, "denser than readers trust")
			enc := c.enc.EncodeAll(zeros, nil)
			var d decompressor
			d.begin()
			text, err := d.appendDecoded(nil, CompressionZstd, enc) // by somebody else: within the slack
			require.NoError(t, err)
			require.Len(t, text, len(zeros))
			_, err = d.appendDecoded(nil, CompressionZstd, c.enc.EncodeAll(make([]byte, 2*zstdSlack), nil))
			require.ErrorIs(t, err, errTooDense)
			continue
		}
		var d decompressor
		d.begin()
		text, err := d.appendDecoded([]byte("x"), got, out)
		require.NoError(t, err)
		require.Len(t, text, len(zeros)+1)
	}
}

func TestDecompressor_HostileLengthsTakeNoMemory(t *testing.T) {
	var d decompressor
	d.begin()
	_, err := d.appendDecoded(nil, CompressionSnappy, []byte{0xff, 0xff, 0xff, 0x7f, 0})
	require.ErrorIs(t, err, errTooDense)
	_, err = d.appendDecoded(nil, CompressionZstd, []byte("not zstd"))
	require.ErrorIs(t, err, errNotZstd)
}

func TestReplay_ReadErrorsAreReturnedAndNothingStaysOpen(t *testing.T) {
	disk := diskWith(t, ours(0, 1, 0).commits(1, 3, 1).commit(4, 1, true).commits(5, 6, 1).buf,
		[]byte{1, 2, 3}, ours(2, 7, 1).commits(7, 9, 1).buf)
	putFile(t, disk, testDir+"/x", nil)
	hits := 0
	for _, fault := range faultfs.Standard() {
		for fault.Nth = 1; ; fault.Nth++ {
			fsys := faultfs.New(disk)
			fsys.Inject(fault)
			r, err := Replay(context.Background(), ReplayOptions{FS: fsys, Dir: testDir, Decoders: 2})
			if len(fsys.Hits()) == 0 {
				require.NoError(t, err)
				require.EqualValues(t, 3, r.LastSeq)
				break
			}
			hits++
			require.Error(t, err, fsys.TraceString())
			require.Empty(t, disk.OpenHandles(), fsys.TraceString())
		}
	}
	require.Greater(t, hits, 30)
}
