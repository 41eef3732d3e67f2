package wal

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"testing"

	encoding "github.com/klauspost/compress/zstd"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const (
	testDir        = "data/wal"
	testQuarantine = "data/quarantine"
	testTmp        = "data"
)

// openLog opens a log in testDir.
func openLog(t testing.TB, fsys fileutil.FS, opts Options, at Position) *Log {
	t.Helper()
	opts.FS, opts.Dir = fsys, testDir
	l, err := Open(opts, at)
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

// commit writes records and settles when that fails.
func commit(l *Log, recs ...[]byte) (uint64, error) {
	c := fill(new(Commit), recs...)
	if err := l.Enqueue(c); err != nil {
		return 0, err
	}
	err := l.Write(c)
	if err != nil {
		l.Settle(c)
	}
	return c.Seq(), err
}

// write commits records that must get there.
func write(t testing.TB, l *Log, recs ...[]byte) uint64 {
	t.Helper()
	seq, err := commit(l, recs...)
	require.NoError(t, err)
	return seq
}

// testBody returns records for commit n whose content depends on n: some compress,
// one in eight is longer than a page.
func testBody(n int) [][]byte {
	recs := [][]byte{fmt.Appendf(nil, "\x02commit %d", n)}
	switch n % 8 {
	case 1:
		recs = append(recs, bytes.Repeat(fmt.Appendf(nil, "\x02text %d ", n), 40), []byte{})
	case 3:
		recs = append(recs, bytes.Repeat(fmt.Appendf(nil, "\x01page %d", n), 5000+n))
	case 5:
		recs = append(recs, noise(uint32(n), 300))
	}
	return recs
}

// lcg returns n bytes that do not compress.
func lcg(seed uint32, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		seed = seed*1664525 + 1013904223
		b[i] = byte(seed >> 24)
	}
	return b
}

// noise returns a record of n bytes that does not compress.
func noise(seed uint32, n int) []byte { return append([]byte{2}, lcg(seed, n-1)...) }

// replayed is what a replay gave.
type replayed struct {
	*ReplayReport
	commits map[uint64][]string // bodies by sequence number
	single  []string            // of records without one
	order   []uint64            // sequence numbers as they came
}

// replay reads a log, checking on the way that batches come in order and commits whole.
func replay(t testing.TB, fsys fileutil.FS, decoders int) *replayed {
	t.Helper()
	return replayFrom(t, fsys, decoders, nil)
}

// replayFrom is replay from a place on, or from the beginning.
func replayFrom(t testing.TB, fsys fileutil.FS, decoders int, from *Start) *replayed {
	t.Helper()
	got := &replayed{commits: map[uint64][]string{}}
	next := 0
	r, err := Replay(context.Background(), ReplayOptions{
		FS: fsys, Dir: testDir, Decoders: decoders, From: from,
		Decode: func(b *Batch) {
			var text []string
			for _, rec := range b.Records {
				text = append(text, string(rec.Data))
			}
			b.Scratch = text
		},
		Apply: func(b *Batch) error {
			require.GreaterOrEqual(t, b.Index, next)
			next = b.Index + 1
			text := b.Scratch.([]string)
			require.Len(t, text, len(b.Records))
			for i, rec := range b.Records {
				require.Equal(t, text[i], string(rec.Data))
				if rec.Seq == 0 {
					got.single = append(got.single, text[i])
					continue
				}
				if n := len(got.order); n == 0 || got.order[n-1] != rec.Seq {
					got.order = append(got.order, rec.Seq)
				}
				got.commits[rec.Seq] = append(got.commits[rec.Seq], text[i])
			}
			return nil
		},
	})
	require.NoError(t, err)
	got.ReplayReport = r
	require.True(t, slices.IsSorted(got.order), "commits come in order, and each at once")
	return got
}

// repair repairs and returns where to go on.
func repair(t testing.TB, fsys fileutil.FS, r *replayed) Position {
	t.Helper()
	at, err := Repair(context.Background(), fsys, testDir, testQuarantine, testTmp, r.ReplayReport)
	require.NoError(t, err)
	return at
}

// texts returns bodies as strings.
func texts(recs [][]byte) (out []string) {
	for _, r := range recs {
		out = append(out, string(r))
	}
	return out
}

// requireCommits checks that exactly the test commits given are there, each whole.
func requireCommits(t testing.TB, got *replayed, seqs ...uint64) {
	t.Helper()
	require.Equal(t, seqs, got.order)
	for _, seq := range seqs {
		require.Equal(t, texts(testBody(int(seq))), got.commits[seq], "commit %d", seq)
	}
}

// upTo returns 1 to n, without some.
func upTo(n uint64, but ...uint64) (seqs []uint64) {
	for i := uint64(1); i <= n; i++ {
		if !slices.Contains(but, i) {
			seqs = append(seqs, i)
		}
	}
	return seqs
}

// writeCommits writes the test commits from to to.
func writeCommits(t testing.TB, l *Log, from, to int) {
	t.Helper()
	for n := from; n <= to; n++ {
		require.EqualValues(t, n, write(t, l, testBody(n)...))
	}
}

// codecOf returns what writes records stored like this.
func codecOf(c Compression) *Codec {
	zstd := NewZstdCodec(func(int) (Encoder, error) { return encoding.NewWriter(nil, encoding.WithEncoderCRC(false)) })
	return []*Codec{&None, &Snappy, zstd}[c]
}

// foreignSegment is a segment as somebody else writes it: records only.
func foreignSegment(comp Compression, recs ...[]byte) (seg []byte) {
	c, err := newCompressor(codecOf(comp), 1)
	if err != nil {
		panic(err)
	}
	for _, r := range recs {
		data, kind, _ := c.compress(nil, r)
		seg = appendRecord(seg, int64(len(seg)), kind, data)
	}
	return seg
}

// putFile makes a durable file.
func putFile(t testing.TB, fsys *tsdbtest.MemFS, name string, data []byte) {
	t.Helper()
	require.NoError(t, fsys.WriteFile(name, data))
}

// cleanSegments checks that every segment reads to its end without damage, as the
// reference would, and returns the number of records that are not private.
func cleanSegments(t testing.TB, fsys fileutil.FS) (records int) {
	t.Helper()
	list, err := List(fsys, testDir)
	require.NoError(t, err)
	for _, seg := range slices.Concat(list.CheckpointSegments, list.Segments) {
		r, err := OpenReader(fsys, seg)
		require.NoError(t, err)
		for r.Next() {
			if !isPrivate(r.item, r.stored) {
				records++
			}
		}
		require.NoError(t, r.Err())
		require.NoError(t, r.Close())
	}
	return records
}

// segmentPath returns the path of segment n.
func segmentPath(n int) string { return filepath.Join(testDir, segmentName(n)) }

// item is what a segment has at some place, for tests that damage it.
type placed struct {
	off, end int64
	rec      []byte
}

// readItems returns the records of a segment with their places.
func readItems(t testing.TB, seg []byte) (items []placed) {
	t.Helper()
	r := NewReader(bytes.NewReader(seg), int64(len(seg)), "segment", 0)
	for r.Next() {
		items = append(items, placed{off: r.Offset(), end: r.End(), rec: bytes.Clone(r.Record())})
	}
	require.NoError(t, r.Err())
	return items
}

// commitSpans returns where each commit of a segment begins and ends.
func commitSpans(t testing.TB, seg []byte) map[uint64]placed {
	t.Helper()
	spans := map[uint64]placed{}
	from := int64(-1)
	for _, it := range readItems(t, seg) {
		if len(it.rec) > 0 && it.rec[0] == typeHeader {
			continue
		}
		if from < 0 {
			from = it.off
		}
		if len(it.rec) > 0 && isFrame(it.rec) {
			f, ok := parseFrame(it.rec)
			require.True(t, ok)
			spans[f.seq] = placed{off: from, end: it.end}
			from = -1
		}
	}
	return spans
}

// fileAt is an in-memory segment as io.ReaderAt.
var _ io.ReaderAt = (*bytes.Reader)(nil)

// checksumHex is how vectors name contents.
func checksumHex(b []byte) string { return fmt.Sprintf("%08x", encbuf.Checksum(b)) }

// appendChecksum closes a record that ends with a checksum over all before it.
func appendChecksum(rec []byte) []byte { return encbuf.AppendBE32(rec, encbuf.Checksum(rec)) }
