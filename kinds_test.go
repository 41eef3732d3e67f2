package tsdb_test

import (
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/labels"
)

// Chunks of kinds that this version does not read, among floats. Nobody may take what is in them
// for floats.

// unreadChunks are bytes of chunks by encoding: of some that the format does not know.
var unreadChunks = map[chunkenc.Encoding]string{
	7:    "0001000014a50ffc00000000000000",
	0x7f: "0001000014a50ffc00000000000000",
}

// otherChunks are chunks of histograms as Prometheus writes them.
var otherChunks = map[chunkenc.Encoding]string{
	2: "0001000014a50ffc00000000000000",
	3: "0001000014401400000000000040140000000000003ff0000000000000",
	5: "800201749ca49c651b4a7fc0003179fcad001949201933333333333346318d656c2fc1d4c6263a43f18da378de7870",
	6: "800201749ca49c651b4a7fc0003179fcad0008072000000000000800800000000000",
}

// eachKind runs a test with a chunk of each encoding, which has the samples of [100, 130].
func eachKind(t *testing.T, of map[chunkenc.Encoding]string, test func(t *testing.T, c blockdir.Chunk)) {
	for enc, text := range of {
		t.Run(fmt.Sprint(enc), func(t *testing.T) {
			data, err := hex.DecodeString(text)
			require.NoError(t, err)
			test(t, blockdir.Chunk{MinT: 100, MaxT: 130, Num: 2, Encoding: enc, Data: data})
		})
	}
}

// kindReaders read all floats of an iterator in different ways, and fail when something else comes.
var kindReaders = map[string]func(t testing.TB, it chunkenc.Iterator) []point{
	"one by one": func(t testing.TB, it chunkenc.Iterator) (all []point) {
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			require.Equal(t, chunkenc.ValFloat, kind)
			ts, v := it.At()
			all = append(all, point{ts, math.Float64bits(v)})
		}
		return all
	},
	"seeking": func(t testing.TB, it chunkenc.Iterator) (all []point) {
		for at := int64(0); it.Seek(at) != chunkenc.ValNone; at++ {
			ts, v := it.At()
			all = append(all, point{ts, math.Float64bits(v)})
			at = ts
		}
		return all
	},
	"in batches": func(t testing.TB, it chunkenc.Iterator) (all []point) {
		for b := chunkenc.NewBatch(7); it.NextBatch(b) != chunkenc.ValNone; {
			require.NotZero(t, b.Len())
			for i, ts := range b.T {
				all = append(all, point{ts, math.Float64bits(b.V[i])})
			}
		}
		return all
	},
}

// requireUnread reads a series whose floats end where a chunk of another kind begins.
func requireUnread(t testing.TB, db *tsdb.DB, key string, before []point) {
	t.Helper()
	q, err := db.Querier(0, 1000)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	read := 0
	for s, err := range q.Select(ctx, nil).All() {
		require.NoError(t, err)
		if s.Labels().String() != key {
			continue
		}
		for how, reader := range kindReaders {
			it := s.Iterator(nil)
			require.Equal(t, before, reader(t, it), how)
			require.ErrorIs(t, it.Err(), chunkenc.ErrUnknownEncoding, how)
			require.Equal(t, chunkenc.ValNone, it.Next(), how)
			read++
		}
	}
	require.Equal(t, len(kindReaders), read)
	set := q.SelectChunks(ctx, nil)
	for set.Next() {
		it := set.At().Chunks(nil)
		for it.Next() {
			require.Equal(t, chunkenc.EncXOR, it.At().Chunk.Encoding())
		}
		if set.At().Labels().String() == key {
			require.ErrorIs(t, it.Err(), chunkenc.ErrUnknownEncoding)
		} else {
			require.NoError(t, it.Err())
		}
	}
	require.NoError(t, set.Err())
}

func TestKinds_OfABlockThatAreNotRead(t *testing.T) {
	eachKind(t, unreadChunks, func(t *testing.T, c blockdir.Chunk) {
		m := newMergeTest(t)
		mixed := only(m, `{a="mixed"}`, floats(10, 1, 20, 2), c, floats(200, 3))
		plain := only(m, `{a="plain"}`, floats(10, 1, 110, 2))
		m.block(0, 1000, mixed, plain)
		db, err := tsdb.Open("data", &tsdb.Options{FS: m.fs, Clock: m.clock, Blocks: tsdb.BlockOptions{Manual: true}})
		require.NoError(t, err)
		requireUnread(t, db, `{a="mixed"}`, points(10, 1, 20, 2))
		require.Equal(t, map[string][]point{`{a="plain"}`: points(10, 1, 110, 2)}, dump(t, db, 0, 1000, labels.Equal("a", "plain")))
		require.NoError(t, db.Close())
	})
}

// A merge passes chunks that it cannot read if nothing overlaps them, and is refused otherwise: its
// inputs stay.
func TestKinds_OfMergedBlocks(t *testing.T) {
	eachKind(t, unreadChunks, func(t *testing.T, c blockdir.Chunk) {
		m := newMergeTest(t)
		m.block(0, 150, only(m, `{a="b"}`, floats(10, 1), c))
		m.block(150, 300, only(m, `{a="b"}`, floats(200, 3)))
		d, _ := m.merge()
		got := blockChunks(t, d)[`{a="b"}`]
		require.Len(t, got, 3)
		require.Equal(t, c.Encoding, got[1].Encoding)
		require.Equal(t, c.Data, got[1].Data)

		m = newMergeTest(t)
		m.block(0, 300, only(m, `{a="b"}`, floats(10, 1), c))
		m.block(0, 300, only(m, `{a="b"}`, floats(110, 3)))
		_, err := m.c.Merge(ctx, m.inputs)
		require.ErrorIs(t, err, chunkenc.ErrUnknownEncoding)
		left, err := blockdir.List(m.fs, "data")
		require.NoError(t, err)
		require.Len(t, left, 2)
		require.Empty(t, leftovers(t, m.fs, "data"))
	})
}

// Full chunks of the head of a kind that is not read stay in their files, and nobody sees a float
// of them. So do those of histograms, as the log of the head is not read of these.
func TestKinds_OfHeadChunksThatAreNotRead(t *testing.T) {
	all := maps.Clone(unreadChunks)
	maps.Copy(all, otherChunks)
	eachKind(t, all, func(t *testing.T, c blockdir.Chunk) {
		f := withLog(t, [][]byte{seriesRecord(1, "a", "b"), samplesRecord(1, 10, 1, 1, 200, 2)})
		require.NoError(t, f.db.Close())
		head, err := chunks.OpenHead(f.fs, filepath.Join(fixtureDir, "chunks_head"), chunks.HeadOptions{})
		require.NoError(t, err)
		_, err = head.Load(func(chunks.HeadChunk) error { return nil })
		require.NoError(t, err)
		_, err = head.Write([]chunks.Full{{Series: 1, MinT: c.MinT, MaxT: c.MaxT, Encoding: c.Encoding, Data: c.Data}})
		require.NoError(t, err)
		require.NoError(t, head.Close())
		f.open()
		require.Equal(t, map[string][]point{`{a="b"}`: points(10, 1, 200, 2)}, f.all())
		f.commit(sample{`{a="b"}`, 300, 3})
		f.reopen()
		require.Equal(t, map[string][]point{`{a="b"}`: points(10, 1, 200, 2, 300, 3)}, f.all())
	})
}
