package compat

import (
	"encoding/binary"
	"hash/crc32"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	theirlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	reference "github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/tsdb/tombstones"
)

// indexV1 writes an index of the first version, which nobody writes any more: series are
// named by their place, not a sixteenth of it, and symbols by theirs.
type indexV1 struct {
	buf      []byte
	symbols  map[string]int // offsets
	postings map[[2]string][]uint32
	toc      []int
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// section appends a part with its length before it and its checksum behind it.
func (x *indexV1) section(body []byte) {
	x.buf = binary.BigEndian.AppendUint32(x.buf, uint32(len(body)))
	x.buf = append(x.buf, body...)
	x.buf = binary.BigEndian.AppendUint32(x.buf, crc32.Checksum(body, castagnoli))
}

func (x *indexV1) writeSymbols(all []string) {
	x.buf = []byte{0xba, 0xaa, 0xd7, 0, 1}
	x.toc = append(x.toc, len(x.buf))
	body := binary.BigEndian.AppendUint32(nil, uint32(len(all)))
	for _, s := range all {
		x.symbols[s] = len(x.buf) + 4 + len(body)
		body = append(binary.AppendUvarint(body, uint64(len(s))), s...)
	}
	x.section(body)
	x.toc = append(x.toc, len(x.buf))
}

// writeSeries returns the id of the series.
func (x *indexV1) writeSeries(ls theirlabels.Labels, chks []chunks.Meta) uint32 {
	id := uint32(len(x.buf))
	body := binary.AppendUvarint(nil, uint64(ls.Len()))
	x.postings[[2]string{}] = append(x.postings[[2]string{}], id)
	ls.Range(func(l theirlabels.Label) {
		body = binary.AppendUvarint(body, uint64(x.symbols[l.Name]))
		body = binary.AppendUvarint(body, uint64(x.symbols[l.Value]))
		x.postings[[2]string{l.Name, l.Value}] = append(x.postings[[2]string{l.Name, l.Value}], id)
	})
	body = binary.AppendUvarint(body, uint64(len(chks)))
	for i, c := range chks {
		if i == 0 {
			body = binary.AppendVarint(body, c.MinTime)
			body = binary.AppendUvarint(body, uint64(c.MaxTime-c.MinTime))
			body = binary.AppendUvarint(body, uint64(c.Ref))
			continue
		}
		body = binary.AppendUvarint(body, uint64(c.MinTime-chks[i-1].MaxTime))
		body = binary.AppendUvarint(body, uint64(c.MaxTime-c.MinTime))
		body = binary.AppendVarint(body, int64(c.Ref)-int64(chks[i-1].Ref))
	}
	x.buf = append(binary.AppendUvarint(x.buf, uint64(len(body))), body...)
	x.buf = binary.BigEndian.AppendUint32(x.buf, crc32.Checksum(body, castagnoli))
	return id
}

// finish writes the lists, in any order, the table, and where all that is.
func (x *indexV1) finish(rng *rand.Rand) []byte {
	labelIndices := len(x.buf)
	postings := len(x.buf)
	keys := slices.SortedFunc(maps.Keys(x.postings), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	table := binary.BigEndian.AppendUint32(nil, uint32(len(keys)))
	for _, key := range keys {
		for len(x.buf)%4 != 0 {
			x.buf = append(x.buf, 0)
		}
		table = append(table, 2)
		for _, s := range key {
			table = append(binary.AppendUvarint(table, uint64(len(s))), s...)
		}
		table = binary.AppendUvarint(table, uint64(len(x.buf)))
		list := binary.BigEndian.AppendUint32(nil, uint32(len(x.postings[key])))
		for _, id := range x.postings[key] {
			list = binary.BigEndian.AppendUint32(list, id)
		}
		x.section(list)
	}
	at := len(x.buf)
	x.section(table)
	toc := []byte(nil)
	for _, offset := range append(x.toc, labelIndices, at, postings, at) {
		toc = binary.BigEndian.AppendUint64(toc, uint64(offset))
	}
	toc = binary.BigEndian.AppendUint32(toc, crc32.Checksum(toc, castagnoli))
	return append(x.buf, toc...)
}

// toIndexV1 replaces the index of a block, and the tombstones, which name series.
func toIndexV1(t testing.TB, dir string, rng *rand.Rand) {
	t.Helper()
	block, err := reference.OpenBlock(slog.New(slog.DiscardHandler), dir, nil, nil)
	require.NoError(t, err)
	ir, err := block.Index()
	require.NoError(t, err)
	deleted, err := block.Tombstones()
	require.NoError(t, err)
	x := &indexV1{symbols: map[string]int{}, postings: map[[2]string][]uint32{}}
	var symbols []string
	for it := ir.Symbols(); it.Next(); {
		symbols = append(symbols, it.At())
	}
	x.writeSymbols(symbols)
	moved := tombstones.NewMemTombstones()
	builder := theirlabels.NewScratchBuilder(0)
	for ids := reference.AllSortedPostings(t.Context(), ir); ids.Next(); {
		var chks []chunks.Meta
		require.NoError(t, ir.Series(ids.At(), &builder, &chks))
		id := x.writeSeries(builder.Labels(), chks)
		intervals, err := deleted.Get(ids.At())
		require.NoError(t, err)
		moved.AddInterval(storage.SeriesRef(id), intervals...)
	}
	require.NoError(t, deleted.Close())
	require.NoError(t, ir.Close())
	require.NoError(t, block.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "index"), x.finish(rng), 0o666))
	_, err = tombstones.WriteFile(slog.New(slog.DiscardHandler), dir, moved)
	require.NoError(t, err)
}

// Blocks of Prometheus 2.0, with and without deleted samples, are read by all who read
// such, and make new blocks when they are merged.
func TestIndexV1_OfOldBlocks_ReadByAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t, openTheirBlocks, plan{Seed: seed(t, 3900), Series: 80})
	w.append(60, 13*hour)
	w.e.flush()
	w.append(5, hour)
	w.delete(worldStart+hour, worldStart+6*hour, matcher{"=~", "mod", "[2-5]"})
	w.e.close()
	rng := rand.New(rand.NewPCG(3900, 0))
	for name := range metasOf(t, w.dir) {
		toIndexV1(t, filepath.Join(w.dir, name), rng)
		file, err := os.ReadFile(filepath.Join(w.dir, name, "index"))
		require.NoError(t, err)
		require.EqualValues(t, 1, file[4])
	}
	requireAllRead(t, 0, left{dir: w.dir, want: w.want})
	for _, open := range []opener{openOurBlocks, openTheirBlocks} {
		merged := &world{t: t, open: open, dir: copyDir(t, w.dir), g: newGenerator(plan{Series: 80}), want: maps.Clone(w.want)}
		merged.e = open(t, merged.dir)
		merged.delete(worldStart+5*hour, worldStart+9*hour, matcher{"=~", "mod", "[4-9]"})
		merged.check("deleted")
		merged.e.compact()
		merged.reopen()
		merged.e.close()
		requireAllRead(t, 1, left{dir: merged.dir, want: merged.want})
	}
}
