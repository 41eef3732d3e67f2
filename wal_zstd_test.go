package tsdb_test

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
	"github.com/seed347100a3/tsdb/wal/zstd"
)

// zstdSeries is how many series the logs below have, each with a sample a commit.
const zstdSeries = 50

// zstdLog makes a database whose log is compressed with zstd, closes it, and returns its options.
func zstdLog(t *testing.T, dir string, commits int) *tsdb.Options {
	t.Helper()
	opts := &tsdb.Options{
		WAL:    tsdb.WALOptions{Compression: tsdb.CompressionBy(zstd.Codec), Sync: tsdb.SyncNever()},
		Blocks: tsdb.BlockOptions{Manual: true},
	}
	db, err := tsdb.Open(dir, opts)
	require.NoError(t, err)
	for k := range commits {
		app := db.Appender()
		for s := range zstdSeries {
			ls := labels.FromStrings("__name__", "zstd", "n", string(rune('a'+s)))
			_, err := app.Append(0, ls, int64(1000+k), float64(k+s))
			require.NoError(t, err)
		}
		_, err := app.Commit(context.Background())
		require.NoError(t, err)
	}
	require.NoError(t, db.Close())
	return opts
}

// zstdFrames returns where the records of a segment are that are compressed with zstd.
func zstdFrames(t *testing.T, path string) (offsets []int64) {
	t.Helper()
	segment, err := os.Open(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, segment.Close()) }()
	info, err := segment.Stat()
	require.NoError(t, err)
	r := wal.NewReader(segment, info.Size(), path, 0)
	for r.Next() {
		if r.Compression() == wal.CompressionZstd {
			offsets = append(offsets, r.Offset())
		}
	}
	require.NoError(t, r.Err())
	return offsets
}

func firstSegment(t *testing.T, dir string) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "wal", "[0-9]*"))
	require.NoError(t, err)
	require.NotEmpty(t, list)
	return list[0]
}

// samplesOfZstd counts the samples of each series, all of which must be as they were appended.
func samplesOfZstd(t *testing.T, db *tsdb.DB) (counts []int) {
	t.Helper()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	for s, err := range q.Select(context.Background(), nil).All() {
		require.NoError(t, err)
		n := 0
		it := s.Iterator(nil)
		for ; it.Next() == chunkenc.ValFloat; n++ {
			at, v := it.At()
			number := []rune(s.Labels().Get("n"))[0] - 'a'
			require.Equal(t, float64(at-1000+int64(number)), v)
		}
		require.NoError(t, it.Err())
		counts = append(counts, n)
	}
	return counts
}

func TestZstdLog_IsReadAgain(t *testing.T) {
	const commits = 40
	dir := t.TempDir()
	opts := zstdLog(t, dir, commits)
	require.Greater(t, len(zstdFrames(t, firstSegment(t, dir))), commits/2)
	db, err := tsdb.Open(dir, opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.Empty(t, db.OpenReport().Damages)
	counts := samplesOfZstd(t, db)
	require.Len(t, counts, zstdSeries)
	for _, n := range counts {
		require.Equal(t, commits, n)
	}
}

// Damage of a compressed record is found and said, and costs what stands in it, not more.
func TestZstdLog_DamageIsReported(t *testing.T) {
	const commits = 40
	dir := t.TempDir()
	opts := zstdLog(t, dir, commits)
	path := firstSegment(t, dir)
	frames := zstdFrames(t, path)
	segment, err := os.ReadFile(path)
	require.NoError(t, err)
	segment[frames[len(frames)/2]+40] ^= 1
	require.NoError(t, os.WriteFile(path, segment, 0o666))
	db, err := tsdb.Open(dir, opts)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	require.Len(t, db.OpenReport().Damages, 1)
	counts := samplesOfZstd(t, db)
	require.Len(t, counts, zstdSeries)
	for _, n := range counts {
		require.Less(t, n, commits)
		require.GreaterOrEqual(t, n, commits/2-2)
	}
}
