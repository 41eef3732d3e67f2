package blockdir

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// writeLarge writes a block of 20,000 series with ten labels and four chunks of 120 samples each:
// 9.6 million samples.
func writeLarge(tb testing.TB, dir string) Meta {
	tb.Helper()
	const series, labels, chunks = 20_000, 10, 4
	w, err := Create(fileutil.OS, dir, testID, WriterOptions{})
	require.NoError(tb, err)
	for i := range labels {
		require.NoError(tb, w.AddSymbol(fmt.Sprintf("label%02d", i)))
	}
	for i := range series {
		require.NoError(tb, w.AddSymbol(fmt.Sprintf("value%06d", i)))
	}
	var data [chunks]Chunk
	for i := range data {
		times := make([]int64, 120)
		for j := range times {
			times[j] = int64(i*120+j) * 15_000
		}
		data[i] = floats(times...)
	}
	ls := make([]index.SymbolPair, labels)
	for i := range series {
		for j := range labels {
			divisor := []int{1, 10, 100, 1000, 20, 50, 3, 7000, 2, 4}[labels-1-j]
			ls[j] = index.SymbolPair{Name: uint32(j), Value: uint32(labels + i/divisor)}
		}
		ls[0].Value = uint32(labels + i)
		for _, c := range data {
			if err := w.AddChunk(c); err != nil {
				tb.Fatal(err)
			}
		}
		if err := w.AddSeries(ls); err != nil {
			tb.Fatal(err)
		}
	}
	m, err := w.Commit(context.Background(), Meta{MaxTime: 1 << 40})
	require.NoError(tb, err)
	return m
}

func BenchmarkWriter(b *testing.B) {
	b.ReportAllocs()
	for range b.N {
		dir := b.TempDir()
		m := writeLarge(b, dir)
		b.ReportMetric(float64(m.Stats.NumSamples)*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
		require.NoError(b, Remove(fileutil.OS, dir, testID))
	}
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	writeLarge(b, dir)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		d, err := Open(fileutil.OS, Path(dir, testID))
		require.NoError(b, err)
		require.NoError(b, d.Close())
	}
}

func BenchmarkVerify(b *testing.B) {
	dir := b.TempDir()
	writeLarge(b, dir)
	d, err := Open(fileutil.OS, Path(dir, testID))
	require.NoError(b, err)
	b.ResetTimer()
	for range b.N {
		rep, err := Verify(context.Background(), d, nil)
		require.NoError(b, err)
		require.Empty(b, rep.Problems)
		b.ReportMetric(float64(rep.Stats.NumSamples)*float64(b.N)/b.Elapsed().Seconds(), "samples/s")
	}
	require.NoError(b, d.Close())
}
