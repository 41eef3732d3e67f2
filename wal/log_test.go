package wal

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// testLog opens a log in a directory of its own.
func testLog(t testing.TB, opts Options) *Log {
	t.Helper()
	if opts.FS == nil {
		opts.FS = fileutil.OS
	}
	if opts.Dir == "" {
		opts.Dir = filepath.Join(t.TempDir(), "wal")
	}
	l, err := Open(opts, Position{NextSeq: 1})
	require.NoError(t, err)
	return l
}

// fill makes c a commit of the given records.
func fill(c *Commit, recs ...[]byte) *Commit {
	c.Reset()
	for _, r := range recs {
		c.End(append(c.Begin(), r...))
	}
	return c
}

// write commits records and returns the sequence number.
func write(t testing.TB, l *Log, recs ...[]byte) uint64 {
	t.Helper()
	c := fill(new(Commit), recs...)
	require.NoError(t, l.Enqueue(c))
	require.NoError(t, l.Write(c))
	return c.Seq()
}

// dump returns all records of a log directory, private ones included.
func dump(t testing.TB, fsys fileutil.FS, dir string) (recs [][]byte) {
	t.Helper()
	list, err := List(fsys, dir)
	require.NoError(t, err)
	for _, seg := range list.Segments {
		r, err := OpenReader(fsys, seg)
		require.NoError(t, err)
		for r.Next() {
			recs = append(recs, bytes.Clone(r.Record()))
		}
		require.NoError(t, r.Err())
		require.NoError(t, r.Close())
	}
	return recs
}

func TestLog_CommitsAreReadBackWithTheirFrames(t *testing.T) {
	for _, comp := range []Compression{CompressionNone, CompressionSnappy, CompressionZstd} {
		t.Run(comp.String(), func(t *testing.T) {
			l := testLog(t, Options{SegmentSize: PageSize, Compression: comp})
			var want [][]byte
			for i := range 200 {
				rec := bytes.Repeat(fmt.Appendf(nil, "record %d ", i), 1+i*7%97)
				require.EqualValues(t, i+1, write(t, l, rec, []byte{1}))
				want = append(want, rec, []byte{1})
			}
			require.NoError(t, l.Close())
			require.EqualValues(t, 200, l.LastSeq())
			require.EqualValues(t, 200, l.Synced())

			var got [][]byte
			seq, n := uint64(0), uint64(0)
			for _, rec := range dump(t, fileutil.OS, l.opts.Dir) {
				switch rec[0] {
				case typeHeader:
					h, _, ok := parseHeader(rec)
					require.True(t, ok)
					require.Equal(t, seq+1, h.nextSeq)
				case typeFrame:
					f, ok := parseFrame(rec)
					require.True(t, ok)
					require.Equal(t, seq+1, f.seq)
					require.Equal(t, n, f.records)
					seq, n = f.seq, 0
				default:
					got = append(got, rec)
					n++
				}
			}
			require.Equal(t, want, got)
		})
	}
}
