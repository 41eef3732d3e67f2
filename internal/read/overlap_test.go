package read_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocktest"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/itertest"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// overBlocks is a Query over blocks of one series each, that are made of chunks.
func overBlocks(t testing.TB, mint, maxt int64, deleted []tombstones.Interval, blocks ...[]blockdir.Chunk) *read.Query {
	fsys := tsdbtest.NewMemFS()
	require.NoError(t, fsys.MkdirAll("data"))
	var all []read.Block
	for n, chunks := range blocks {
		meta := blocktest.Meta(n, chunks[0].MinT, chunks[len(chunks)-1].MaxT+1)
		dir := blocktest.Make(t, fsys, "data", meta, blocktest.Series{Labels: blocktest.Labels(t, `{a="b"}`), Chunks: chunks})
		gone := &tombstones.Set{}
		if deleted != nil {
			ids, err := dir.Index().Select(ctx)
			require.NoError(t, err)
			gone.Add(ids[0], deleted[n])
		}
		all = append(all, read.Block{Dir: dir, Place: read.NewPlaceID(), Deleted: gone, Reach: read.Reach{Early: meta.MinTime, Late: meta.MaxTime}})
	}
	q := &read.Query{}
	q.Open(mint, maxt, all, &read.LabelMemory{})
	return q
}

// drawStored draws a chunk of XOR or XOR2 that begins behind a time, whose values tell the block.
func drawStored(t *rapid.T, block int, behind int64) (c blockdir.Chunk, all []itertest.Sample) {
	var enc chunkenc.Encoder
	started := rapid.IntRange(0, 2).Draw(t, "started") == 0
	at := behind
	for i := range rapid.SampledFrom([]int{1, 2, 30, 130, 300}).Draw(t, "samples") {
		at += rapid.SampledFrom([]int64{1, 1, 2, 9}).Draw(t, "step")
		s := itertest.Sample{T: at, V: float64(block)}
		if started && i%2 == 0 {
			s.ST = at - 1
		}
		require.NoError(t, enc.Append(s.T, s.V, s.ST))
		all = append(all, s)
	}
	c = blockdir.Chunk{MinT: all[0].T, MaxT: at, Num: enc.Len(), Encoding: enc.Encoding(), Data: enc.AppendTo(nil)}
	return c, all
}

// Blocks that overlap, of any encoding, with deletes, in any range: who reads samples by whatever
// calls, and who reads chunks, gets a sort of all, of which the first block counts at each time.
func TestOverlap_BlocksReadAsASortOfTheirSamples(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var blocks [][]blockdir.Chunk
		var deleted []tombstones.Interval
		var all []itertest.Sample
		mint := rapid.SampledFrom([]int64{math.MinInt64, 0, 150}).Draw(rt, "mint")
		maxt := rapid.SampledFrom([]int64{math.MaxInt64, 400, 151}).Draw(rt, "maxt")
		for n := range rapid.IntRange(1, 4).Draw(rt, "blocks") {
			behind := rapid.Int64Range(-50, 300).Draw(rt, "behind")
			gone := tombstones.Interval{Mint: rapid.Int64Range(-50, 900).Draw(rt, "from")}
			gone.Maxt = gone.Mint + rapid.Int64Range(-1, 200).Draw(rt, "length")
			var chunks []blockdir.Chunk
			for range rapid.IntRange(1, 3).Draw(rt, "chunks") {
				c, samples := drawStored(rt, n, behind)
				chunks, behind = append(chunks, c), c.MaxT+rapid.SampledFrom([]int64{0, 70}).Draw(rt, "gap")
				for _, s := range samples {
					if s.T >= mint && s.T <= maxt && !gone.Contains(s.T) {
						all = append(all, s)
					}
				}
			}
			blocks, deleted = append(blocks, chunks), append(deleted, gone)
		}
		slices.SortStableFunc(all, func(a, b itertest.Sample) int { return cmp.Compare(a.T, b.T) })
		all = slices.CompactFunc(all, func(a, b itertest.Sample) bool { return a.T == b.T })
		q := overBlocks(t, mint, maxt, deleted, blocks...)
		set, chunks := selected(q, everything()), selectedChunks(q, everything())
		require.Equal(t, len(all) > 0, set.Next())
		require.Equal(t, len(all) > 0, chunks.Next())
		if len(all) == 0 {
			return
		}
		moves := itertest.Moves(all)
		var it chunkenc.Iterator
		for range 4 {
			sequence := rapid.SliceOfN(rapid.SampledFrom(moves), 0, 12).Draw(rt, "moves")
			it = set.At().Iterator(it)
			require.NoError(t, itertest.Check(all, it, sequence))
		}
		require.Equal(t, all, samplesOfChunks(t, chunks.At()))
	})
}

// samplesOfChunks reads chunks, each of which is as long as it says.
func samplesOfChunks(t testing.TB, s *read.Series) (all []itertest.Sample) {
	it := s.Chunks(nil)
	for it.Next() {
		c, begin := it.At(), len(all)
		for samples := c.Chunk.Iterator(nil); samples.Next() != chunkenc.ValNone; {
			at, v := samples.At()
			all = append(all, itertest.Sample{T: at, V: v, ST: samples.AtST()})
		}
		require.Equal(t, []int64{all[begin].T, all[len(all)-1].T}, []int64{c.MinT, c.MaxT})
	}
	require.NoError(t, it.Err())
	return all
}

// A chunk whose checksum is right, and that cannot be decoded all the same, is damage with its
// place: if it passes as it is, is cut, or is merged.
func TestOverlap_WhatCannotBeDecoded_IsDamageWithItsFile(t *testing.T) {
	bad := blocktest.Ramp(0, 100, 10)
	bad.Data = bad.Data[:len(bad.Data)/2]
	for name, blocks := range map[string][][]blockdir.Chunk{
		"alone":         {{bad}},
		"beside others": {{bad}, {blocktest.Ramp(2000, 3, 1)}},
		"overlapping":   {{bad}, {blocktest.Ramp(5, 3, 1)}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mint := range []int64{math.MinInt64, 1} {
				q := overBlocks(t, mint, math.MaxInt64, nil, blocks...)
				set := selected(q, everything())
				require.True(t, set.Next())
				it := set.At().Iterator(nil)
				for it.Next() != chunkenc.ValNone {
				}
				requireDamage(t, it.Err())
				if name != "overlapping" && mint == math.MinInt64 {
					continue // chunks pass
				}
				chunks := selectedChunks(q, everything())
				require.True(t, chunks.Next())
				encoded := chunks.At().Chunks(nil)
				for encoded.Next() {
				}
				requireDamage(t, encoded.Err())
			}
		})
	}
}

func requireDamage(t testing.TB, err error) {
	var damage *encbuf.CorruptError
	require.ErrorAs(t, err, &damage)
	require.Contains(t, damage.File, fmt.Sprint(blocktest.ID(0))+"/chunks/000001")
}
