package tsdb_test

import (
	"bytes"
	"context"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/labels"
)

// blockSeries is one series of a block that a test makes.
type blockSeries struct {
	labels labels.Labels
	chunks []blockdir.Chunk
}

// floats makes a chunk of pairs of times and values.
func floats(tv ...float64) blockdir.Chunk {
	var enc chunkenc.XOREncoder
	c := blockdir.Chunk{MinT: int64(tv[0]), MaxT: int64(tv[len(tv)-2]), Num: len(tv) / 2, Encoding: chunkenc.EncXOR}
	for _, p := range points(tv...) {
		if err := enc.Append(p.T, math.Float64frombits(p.V)); err != nil {
			panic(err)
		}
	}
	c.Data = enc.AppendTo(nil)
	return c
}

// ramp makes a chunk of n samples from t on, step apart, whose values are their times.
func ramp(t int64, n int, step int64) blockdir.Chunk {
	var tv []float64
	for range n {
		tv = append(tv, float64(t), float64(t))
		t += step
	}
	return floats(tv...)
}

// makeBlock writes a block and opens it. Series may come in any order.
func makeBlock(t testing.TB, fsys tsdb.FS, dir string, meta tsdb.BlockMeta, series ...blockSeries) *blockdir.Dir {
	t.Helper()
	w, err := blockdir.Create(fsys, dir, meta.ULID, blockdir.WriterOptions{})
	require.NoError(t, err)
	numbers := map[string]uint32{"": 0}
	for _, s := range series {
		for l := range s.labels.All() {
			numbers[l.Name], numbers[l.Value] = 0, 0
		}
	}
	for i, s := range slices.Sorted(maps.Keys(numbers)) {
		require.NoError(t, w.AddSymbol(s))
		numbers[s] = uint32(i)
	}
	slices.SortFunc(series, func(a, b blockSeries) int { return labels.Compare(a.labels, b.labels) })
	var ls []index.SymbolPair
	for _, s := range series {
		for _, c := range s.chunks {
			require.NoError(t, w.AddChunk(c))
		}
		ls = ls[:0]
		for l := range s.labels.All() {
			ls = append(ls, index.SymbolPair{Name: numbers[l.Name], Value: numbers[l.Value]})
		}
		require.NoError(t, w.AddSeries(ls))
	}
	_, err = w.Commit(context.Background(), meta)
	require.NoError(t, err)
	return openBlock(t, fsys, dir, meta.ULID)
}

func openBlock(t testing.TB, fsys tsdb.FS, dir string, id ulid.ULID) *blockdir.Dir {
	t.Helper()
	d, err := blockdir.Open(fsys, blockdir.Path(dir, id))
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// bounded is the meta file of block n with these half-open bounds.
func bounded(n int, mint, maxt int64) tsdb.BlockMeta {
	return tsdb.BlockMeta{ULID: numberedULID(n), MinTime: mint, MaxTime: maxt}
}

// remove deletes a closed interval of the series that a selector of equalities names.
func remove(t testing.TB, d *blockdir.Dir, selector string, mint, maxt int64) {
	t.Helper()
	ms, err := labels.ParseSelector(selector)
	require.NoError(t, err)
	ids, err := d.Index().Select(context.Background(), ms...)
	require.NoError(t, err)
	require.NotEmpty(t, ids)
	var set tombstones.Set
	for _, id := range d.Tombstones().Refs() {
		for _, iv := range d.Tombstones().Of(id) {
			set.Add(id, iv)
		}
	}
	for _, id := range ids {
		set.Add(id, tombstones.Interval{Mint: mint, Maxt: maxt})
	}
	require.NoError(t, d.SetTombstones(&set))
}

// blockChunks returns all chunks of a block by series.
func blockChunks(t testing.TB, d *blockdir.Dir) map[string][]blockdir.Chunk {
	t.Helper()
	all := map[string][]blockdir.Chunk{}
	ids := d.Index().AllSeries()
	for ids.Next() {
		ls, cs, err := d.Index().Series(ids.At(), nil, nil)
		require.NoError(t, err)
		var b labels.Builder
		for _, l := range ls {
			name, err := d.Index().Symbol(l.Name)
			require.NoError(t, err)
			value, err := d.Index().Symbol(l.Value)
			require.NoError(t, err)
			b.Set(name, value)
		}
		key := b.Labels().String()
		for _, c := range cs {
			enc, data, err := d.Chunks().Read(c.Ref, nil)
			require.NoError(t, err)
			all[key] = append(all[key], blockdir.Chunk{
				MinT: c.MinT, MaxT: c.MaxT, Num: int(data[0])<<8 | int(data[1]), Encoding: enc, Data: bytes.Clone(data),
			})
		}
	}
	require.NoError(t, ids.Err())
	return all
}

// blockPoints returns all samples of a block by series, what is deleted left out.
func blockPoints(t testing.TB, d *blockdir.Dir) map[string][]point {
	t.Helper()
	all := map[string][]point{}
	for key, cs := range blockChunks(t, d) {
		ms, err := labels.ParseSelector(key)
		require.NoError(t, err)
		ids, err := d.Index().Select(context.Background(), ms...)
		require.NoError(t, err)
		for _, c := range cs {
			chunk, err := chunkenc.FromData(c.Encoding, c.Data)
			require.NoError(t, err)
			it := chunk.Iterator(nil)
			for it.Next() != chunkenc.ValNone {
				ts, v := it.At()
				if !d.Tombstones().Of(ids[0]).Covers(ts) {
					all[key] = append(all[key], point{ts, math.Float64bits(v)})
				}
			}
			require.NoError(t, it.Err())
		}
	}
	return all
}

// leftovers returns what is in a data directory but blocks.
func leftovers(t testing.TB, fsys tsdb.FS, dir string) (names []string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		if _, ok := blockdir.ParseName(e.Name()); !ok {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names
}
