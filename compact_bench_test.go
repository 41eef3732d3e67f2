//go:build unix

package tsdb_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// BenchmarkCompact_Merge merges three blocks of two hours of the same series, scraped every
// 15 s, in chunks of 120 samples; overlapping: the same with three blocks of the same two hours
// that share no sample. B/op over ns/sample tells whether a merge leaves garbage.
func BenchmarkCompact_Merge(b *testing.B) {
	for _, series := range []int{5_000, 50_000} {
		b.Run(fmt.Sprintf("series=%d", series), func(b *testing.B) {
			if !sweep.Whole() && series > 5_000 {
				b.Skip("takes a while to prepare")
			}
			benchMerge(b, series, 2*hour, 0)
		})
	}
	b.Run("series=5000,overlapping", func(b *testing.B) { benchMerge(b, 5_000, 0, 5_000) })
}

// benchMerge merges blocks that start apart milliseconds after each other, and whose samples
// are shifted against each other.
func benchMerge(b *testing.B, series int, apart, shift int64) {
	const perChunk, chunksPerSeries, step = 120, 4, 15_000
	dir := b.TempDir()
	var inputs []*blockdir.Dir
	for n := range 3 {
		meta := bounded(n+1, int64(n)*apart, int64(n)*apart+2*hour)
		var all []blockSeries
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		for i := range series {
			s := blockSeries{Labels: benchLabels(i)}
			at := meta.MinTime + int64(n)*shift/3
			for c := range chunksPerSeries {
				var enc xorchunk.Encoder
				first := at
				for k := range perChunk {
					require.NoError(b, enc.Append(at, benchValue(i, c*perChunk+k)+rng.Float64()*float64(i%4/3)))
					at += step
				}
				s.Chunks = append(s.Chunks, blockdir.Chunk{
					MinT: first, MaxT: at - step, Num: perChunk, Encoding: chunkenc.EncXOR, Data: enc.AppendTo(nil),
				})
			}
			all = append(all, s)
		}
		inputs = append(inputs, makeBlock(b, fileutil.OS, dir, meta, all...))
	}
	samples := len(inputs) * series * chunksPerSeries * perChunk
	c := newCompactor(fileutil.OS, dir, clock.System, 0)
	b.ReportAllocs()
	var cpu time.Duration
	for b.Loop() {
		before := cpuTime(b)
		r, err := c.Merge(context.Background(), inputs)
		cpu += cpuTime(b) - before
		require.NoError(b, err)
		b.StopTimer()
		require.Equal(b, uint64(samples), r.Meta.Stats.NumSamples)
		require.NoError(b, blockdir.Remove(fileutil.OS, dir, r.Meta.ULID))
		b.StartTimer()
	}
	b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
	reportPerSample(b, b.N*samples)
	for _, d := range slices.Backward(inputs) {
		require.NoError(b, d.Close())
	}
}

// cpuTime is the processor time of this process: a merge waits for the disk most of its
// time, so the clock says little.
func cpuTime(b *testing.B) time.Duration {
	var r syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &r))
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkFlush makes a block of a head of 20,000 series with the samples of two hours, and
// truncates head and log. The head is filled outside of the clock.
func BenchmarkFlush(b *testing.B) { benchFlush(b, 20_000, 480) }

// BenchmarkFlush_ManySeries has more to do with series than with samples, and more of them
// than the processor's cache takes.
func BenchmarkFlush_ManySeries(b *testing.B) { benchFlush(b, 400_000, 3) }

func benchFlush(b *testing.B, series, samples int) {
	opts := benchOptions()
	opts.Blocks.Manual = true
	b.ReportAllocs()
	var cpu time.Duration
	for range b.N {
		b.StopTimer()
		db, err := tsdb.Open(b.TempDir(), opts)
		require.NoError(b, err)
		h := newHot(b, db, series)
		for h.k < samples {
			h.scrape(b, 1000)
		}
		runtime.GC()
		before := cpuTime(b)
		b.StartTimer()
		require.NoError(b, db.Flush(context.Background()))
		b.StopTimer()
		cpu += cpuTime(b) - before
		require.NoError(b, db.Close())
		b.StartTimer()
	}
	b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
	reportPerSample(b, b.N*series*samples)
}
