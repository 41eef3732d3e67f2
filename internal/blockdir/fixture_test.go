package blockdir

import (
	"context"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const dataDir = "data"

var testID = ulid.MustParseStrict("01HF7Q8ZK0000000000000TEST")

// floats is a chunk of samples at the given times; their values are the times.
func floats(times ...int64) Chunk {
	var e xorchunk.Encoder
	for _, t := range times {
		if err := e.Append(t, float64(t)); err != nil {
			panic(err)
		}
	}
	return Chunk{MinT: times[0], MaxT: times[len(times)-1], Num: len(times), Encoding: chunkenc.EncXOR, Data: e.AppendTo(nil)}
}

// testSeries is a series of a block that a test writes: labels as name, value, name, ...
type testSeries struct {
	labels []string
	chunks []Chunk
}

// testBlock has four series, one of them without chunks, and 11 samples from 0 to 99.
func testBlock() []testSeries {
	return []testSeries{
		{[]string{"a", "1"}, []Chunk{floats(0, 10, 20), floats(21, 30)}},
		{[]string{"a", "1", "b", "x"}, []Chunk{floats(5, 15, 99)}},
		{[]string{"a", "2"}, nil},
		{[]string{"b", "y"}, []Chunk{floats(50, 60), floats(90)}},
	}
}

func testMeta() Meta { return Meta{MinTime: 0, MaxTime: 100} }

// fill writes series through w.
func fill(w *Writer, series []testSeries) error {
	numbers := map[string]uint32{}
	for _, s := range series {
		for _, l := range s.labels {
			numbers[l] = 0
		}
	}
	for i, sym := range slices.Sorted(maps.Keys(numbers)) {
		numbers[sym] = uint32(i)
		if err := w.AddSymbol(sym); err != nil {
			return err
		}
	}
	for _, s := range series {
		for _, c := range s.chunks {
			if err := w.AddChunk(c); err != nil {
				return err
			}
		}
		var ls []index.SymbolPair
		for i := 0; i < len(s.labels); i += 2 {
			ls = append(ls, index.SymbolPair{Name: numbers[s.labels[i]], Value: numbers[s.labels[i+1]]})
		}
		if err := w.AddSeries(ls); err != nil {
			return err
		}
	}
	return nil
}

// create writes a block.
func create(fsys fileutil.FS, id ulid.ULID, series []testSeries, m Meta, opts WriterOptions) (Meta, error) {
	w, err := Create(fsys, dataDir, id, opts)
	if err != nil {
		return Meta{}, err
	}
	if err := fill(w, series); err != nil {
		return Meta{}, fileutil.JoinErrors(err, w.Abort())
	}
	return w.Commit(context.Background(), m)
}

// newDisk is an empty data directory.
func newDisk(tb testing.TB) *tsdbtest.MemFS {
	tb.Helper()
	m := tsdbtest.NewMemFS()
	require.NoError(tb, fileutil.MkdirSync(m, dataDir))
	return m
}

// newBlock is a data directory with testBlock.
func newBlock(tb testing.TB) *tsdbtest.MemFS {
	tb.Helper()
	m := newDisk(tb)
	_, err := create(m, testID, testBlock(), testMeta(), WriterOptions{})
	require.NoError(tb, err)
	return m
}

func openTest(tb testing.TB, fsys fileutil.FS) *Dir {
	tb.Helper()
	d, err := Open(fsys, Path(dataDir, testID))
	require.NoError(tb, err)
	return d
}

// dump returns every sample of a block that is not deleted, a line each.
func dump(d *Dir) (string, error) {
	var b strings.Builder
	err := d.Index().Verify(context.Background(), func(id uint64, ls []index.SymbolPair, cs []index.ChunkMeta) error {
		var name strings.Builder
		for _, l := range ls {
			for _, n := range []uint32{l.Name, l.Value} {
				s, err := d.Index().Symbol(n)
				if err != nil {
					return err
				}
				fmt.Fprintf(&name, "%s,", s)
			}
		}
		for _, c := range cs {
			enc, data, err := d.Chunks().Read(c.Ref, nil)
			if err != nil {
				return err
			}
			chunk, err := chunkenc.FromData(enc, data)
			if err != nil {
				return err
			}
			it := chunk.Iterator(nil)
			for it.Next() != chunkenc.ValNone {
				if t, v := it.At(); !d.Tombstones().Of(id).Covers(t) {
					fmt.Fprintf(&b, "%s %d %x\n", name.String(), t, math.Float64bits(v))
				}
			}
			if it.Err() != nil {
				return it.Err()
			}
		}
		return nil
	})
	return b.String(), err
}

// content opens the test block and returns its dump, and nothing if there is no block.
func content(tb testing.TB, fsys fileutil.FS) string {
	tb.Helper()
	ids, err := List(fsys, dataDir)
	require.NoError(tb, err)
	if !slices.Contains(ids, testID) {
		return ""
	}
	d := openTest(tb, fsys)
	s, err := dump(d)
	require.NoError(tb, err)
	require.NotEmpty(tb, s)
	require.NoError(tb, d.Close())
	return s
}

// deleted is a set that deletes the closed interval of the series with these ids.
func deleted(mint, maxt int64, ids ...uint64) *tombstones.Set {
	s := &tombstones.Set{}
	for _, id := range ids {
		s.Add(id, tombstones.Interval{Mint: mint, Maxt: maxt})
	}
	return s
}

// seriesIDs returns the ids of all series.
func seriesIDs(tb testing.TB, d *Dir) []uint64 {
	tb.Helper()
	ids, err := d.Index().Select(context.Background())
	require.NoError(tb, err)
	return ids
}

// tree returns all files of the data directory by path.
func tree(tb testing.TB, m *tsdbtest.MemFS) map[string]string {
	tb.Helper()
	files := map[string]string{}
	for _, name := range m.Files() {
		b, err := m.ReadFile(name)
		require.NoError(tb, err)
		files[filepath.ToSlash(name)] = string(b)
	}
	return files
}
