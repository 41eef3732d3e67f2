package tsdb_test

import (
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// BenchmarkSizing measures what the formulas of docs/sizing.md are made of: the live heap with
// every open chunk as full as it gets, the log of that, and a block. The series of its last machine
// are a tenth of them, or it would take minutes.
func BenchmarkSizing(b *testing.B) {
	for _, m := range []struct {
		name   string
		series int
	}{{"edge", 10_000}, {"gateway", 500_000}, {"a tenth of the server", 1_000_000}} {
		b.Run(m.name, func(b *testing.B) {
			for range b.N {
				measureSize(b, m.series)
			}
		})
	}
}

func measureSize(b *testing.B, series int) {
	const samples = 119 // the next one may begin a chunk
	dir, opts := b.TempDir(), benchOptions()
	opts.Blocks.Manual = true
	before := heapBytes()
	db, err := tsdb.Open(dir, opts)
	require.NoError(b, err)
	empty := heapBytes() - before
	h := newHot(b, db, series)
	for h.k < samples {
		h.scrape(b, 1000)
	}
	n := float64(series * samples)
	h = nil
	b.ReportMetric(float64(empty), "empty-B")
	b.ReportMetric(float64(heapBytes()-before-empty)/float64(series), "heap-B/series")
	b.ReportMetric(float64(filesBytes(b, filepath.Join(dir, "wal")))/n, "log-B/sample")
	require.NoError(b, db.Flush(ctx))
	require.Len(b, db.Blocks(), 1)
	b.ReportMetric(float64(db.Blocks()[0].Stats.NumSamples), "samples")
	for _, m := range db.Blocks() {
		b.ReportMetric(float64(filesBytes(b, filepath.Join(dir, m.ULID.String(), "chunks")))/n, "chunks-B/sample")
		b.ReportMetric(float64(filesBytes(b, filepath.Join(dir, m.ULID.String())))/n, "block-B/sample")
		b.ReportMetric(float64(filesBytes(b, filepath.Join(dir, m.ULID.String(), "index")))/float64(series), "index-B/series")
	}
	require.NoError(b, db.Close())
}

// filesBytes returns how many bytes a file has, or all files of a directory.
func filesBytes(b *testing.B, path string) (n int64) {
	require.NoError(b, filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			n += info.Size()
		}
		return err
	}))
	return n
}
