package blockmerge_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blockmerge"
	"github.com/seed347100a3/tsdb/internal/blocktest"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// BenchmarkWrite merges three blocks of the same 1,000 series in memory: one behind the other, and
// of the same time, where samples take turns, or chunks do. BenchmarkCompact_Merge of the root has
// the disk in it, and the thread that merges run on.
func BenchmarkWrite(b *testing.B) {
	b.Run("neighbours", func(b *testing.B) { benchWrite(b, 7_200_000, 0) })
	b.Run("samples by turns", func(b *testing.B) { benchWrite(b, 0, 5_000) })
	b.Run("chunks by halves", func(b *testing.B) { benchWrite(b, 0, 900_000+1) })
}

// benchWrite merges blocks that start apart milliseconds after each other, and whose samples are
// shifted against each other.
func benchWrite(b *testing.B, apart, shift int64) {
	const series, perChunk, chunksPerSeries, step = 1_000, 120, 4, 15_000
	m := newMergeTest(b)
	for n := range int64(3) {
		var all []blocktest.Series
		rng := rand.New(rand.NewPCG(uint64(n), 1))
		for i := range series {
			s := only(b, fmt.Sprintf(`{__name__="m",i="%d"}`, i))
			at := n*apart + n*shift
			for range chunksPerSeries {
				var enc xorchunk.Encoder
				first := at
				for range perChunk {
					require.NoError(b, enc.Append(at, float64(at/step)+rng.Float64()*float64(i%4/3)))
					at += step
				}
				s.Chunks = append(s.Chunks, blockdir.Chunk{MinT: first, MaxT: at - step, Num: perChunk, Encoding: chunkenc.EncXOR, Data: enc.AppendTo(nil)})
			}
			all = append(all, s)
		}
		m.block(n*apart, n*apart+10_000_000, all...)
	}
	meta := blocktest.Meta(9, 0, 100_000_000)
	b.ReportAllocs()
	for b.Loop() {
		blocks, err := blockmerge.Write(context.Background(), blockmerge.Target{FS: m.fs, Dir: "data", SamplesPerChunk: 120}, blockmerge.Whole(m.inputs), meta)
		require.NoError(b, err)
		require.Equal(b, uint64(3*series*chunksPerSeries*perChunk), blocks[0].Meta.Stats.NumSamples)
		require.NoError(b, blockmerge.Abort(blocks))
	}
}
