// Package blocktest makes blocks for tests, and reads what is in them without the code that they
// test. It knows package blockdir and what is below it.
//
// Its functions end the test when something goes wrong. They are called by the test's own
// goroutine.
package blocktest

import (
	"bytes"
	"context"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
	"github.com/seed347100a3/tsdb/labels"
)

// Series is one series of a block that a test makes.
type Series struct {
	Labels labels.Labels
	Chunks []blockdir.Chunk
}

// Floats makes a chunk of pairs of times and values.
func Floats(tv ...float64) blockdir.Chunk {
	var enc xorchunk.Encoder
	c := blockdir.Chunk{MinT: int64(tv[0]), MaxT: int64(tv[len(tv)-2]), Num: len(tv) / 2, Encoding: chunkenc.EncXOR}
	for _, p := range Samples(tv...) {
		if err := enc.Append(p.T, math.Float64frombits(p.V)); err != nil {
			panic(err)
		}
	}
	c.Data = enc.AppendTo(nil)
	return c
}

// Ramp makes a chunk of n samples from t on, step apart, whose values are their times.
func Ramp(t int64, n int, step int64) blockdir.Chunk {
	var tv []float64
	for range n {
		tv = append(tv, float64(t), float64(t))
		t += step
	}
	return Floats(tv...)
}

// Make writes a block and opens it. Series may come in any order.
func Make(t testing.TB, fsys fileutil.FS, dir string, meta blockdir.Meta, series ...Series) *blockdir.Dir {
	t.Helper()
	w, err := blockdir.Create(fsys, dir, meta.ULID, blockdir.WriterOptions{})
	must(t, err)
	numbers := map[string]uint32{"": 0}
	for _, s := range series {
		for l := range s.Labels.All() {
			numbers[l.Name], numbers[l.Value] = 0, 0
		}
	}
	for i, s := range slices.Sorted(maps.Keys(numbers)) {
		must(t, w.AddSymbol(s))
		numbers[s] = uint32(i)
	}
	slices.SortFunc(series, func(a, b Series) int { return labels.Compare(a.Labels, b.Labels) })
	var ls []index.SymbolPair
	for _, s := range series {
		for _, c := range s.Chunks {
			must(t, w.AddChunk(c))
		}
		ls = ls[:0]
		for l := range s.Labels.All() {
			ls = append(ls, index.SymbolPair{Name: numbers[l.Name], Value: numbers[l.Value]})
		}
		must(t, w.AddSeries(ls))
	}
	_, err = w.Commit(context.Background(), meta)
	must(t, err)
	return Open(t, fsys, dir, meta.ULID)
}

// Open opens a block until the test ends.
func Open(t testing.TB, fsys fileutil.FS, dir string, id ulid.ULID) *blockdir.Dir {
	t.Helper()
	d, err := blockdir.Open(fsys, blockdir.Path(dir, id))
	must(t, err)
	t.Cleanup(func() { _ = d.Close() }) // it was only read
	return d
}

// ID is a name that sorts by its number.
func ID(n int) (id ulid.ULID) {
	id[14], id[15] = byte(n>>8), byte(n)
	return id
}

// Meta is the meta file of block n with these half-open bounds.
func Meta(n int, mint, maxt int64) blockdir.Meta {
	return blockdir.Meta{ULID: ID(n), MinTime: mint, MaxTime: maxt}
}

// Delete deletes a closed interval of the series that a selector of equalities names.
func Delete(t testing.TB, d *blockdir.Dir, selector string, mint, maxt int64) {
	t.Helper()
	ms, err := labels.ParseSelector(selector)
	must(t, err)
	ids, err := d.Index().Select(context.Background(), ms...)
	must(t, err)
	if len(ids) == 0 {
		t.Fatalf("no series has %s", selector)
	}
	var set tombstones.Set
	for _, id := range d.Tombstones().Refs() {
		for _, iv := range d.Tombstones().Of(id) {
			set.Add(id, iv)
		}
	}
	for _, id := range ids {
		set.Add(id, tombstones.Interval{Mint: mint, Maxt: maxt})
	}
	must(t, d.SetTombstones(&set))
}

// Chunks returns all chunks of a block by series.
func Chunks(t testing.TB, d *blockdir.Dir) map[string][]blockdir.Chunk {
	t.Helper()
	all := map[string][]blockdir.Chunk{}
	ids := d.Index().AllSeries()
	for ids.Next() {
		ls, cs, err := d.Index().Series(ids.At(), nil, nil)
		must(t, err)
		var b labels.Builder
		for _, l := range ls {
			name, err := d.Index().Symbol(l.Name)
			must(t, err)
			value, err := d.Index().Symbol(l.Value)
			must(t, err)
			b.Set(name, value)
		}
		key := b.Labels().String()
		for _, c := range cs {
			enc, data, err := d.Chunks().Read(c.Ref, nil)
			must(t, err)
			all[key] = append(all[key], blockdir.Chunk{
				MinT: c.MinT, MaxT: c.MaxT, Num: int(data[0])<<8 | int(data[1]), Encoding: enc, Data: bytes.Clone(data),
			})
		}
	}
	must(t, ids.Err())
	return all
}

// Points returns all samples of a block by series, what is deleted left out.
func Points(t testing.TB, d *blockdir.Dir) map[string][]Point {
	t.Helper()
	all := map[string][]Point{}
	for key, cs := range Chunks(t, d) {
		ms, err := labels.ParseSelector(key)
		must(t, err)
		ids, err := d.Index().Select(context.Background(), ms...)
		must(t, err)
		for _, c := range cs {
			chunk, err := chunkenc.FromData(c.Encoding, c.Data)
			must(t, err)
			it := chunk.Iterator(nil)
			for it.Next() != chunkenc.ValNone {
				ts, v := it.At()
				if !d.Tombstones().Of(ids[0]).Covers(ts) {
					all[key] = append(all[key], Point{ts, math.Float64bits(v)})
				}
			}
			must(t, it.Err())
		}
	}
	return all
}

// Leftovers returns what is in a data directory but blocks.
func Leftovers(t testing.TB, fsys fileutil.FS, dir string) (names []string) {
	t.Helper()
	entries, err := fsys.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		if _, ok := blockdir.ParseName(e.Name()); !ok {
			names = append(names, filepath.Join(dir, e.Name()))
		}
	}
	return names
}

// Labels makes labels of a selector.
func Labels(t testing.TB, selector string) labels.Labels {
	t.Helper()
	ms, err := labels.ParseSelector(selector)
	must(t, err)
	var b labels.Builder
	for _, m := range ms {
		b.Set(m.Name(), m.Value())
	}
	return b.Labels()
}

// Point is a sample as it was read; values are compared by bits.
type Point struct {
	T int64
	V uint64
}

// Samples makes samples of pairs of times and values.
func Samples(tv ...float64) []Point {
	var ps []Point
	for i := 0; i < len(tv); i += 2 {
		ps = append(ps, Point{int64(tv[i]), math.Float64bits(tv[i+1])})
	}
	return ps
}

// Only is a series of one label set, given as a selector of equalities, with chunks.
func Only(t testing.TB, selector string, chunks ...blockdir.Chunk) Series {
	return Series{Labels: Labels(t, selector), Chunks: chunks}
}

func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}
