package index_test

import (
	"cmp"
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/labels"
)

// blockContent is what a block index is written from: symbols and the series as pairs
// of their numbers, in order.
type blockContent struct {
	symbols []string
	series  [][]index.SymbolPair
}

// newContent sorts label sets and numbers their strings.
func newContent(sets []labels.Labels) blockContent {
	slices.SortFunc(sets, labels.Compare)
	seen := make(map[string]uint32)
	for _, set := range sets {
		for l := range set.All() {
			seen[l.Name], seen[l.Value] = 0, 0
		}
	}
	var c blockContent
	for s := range seen {
		c.symbols = append(c.symbols, s)
	}
	slices.Sort(c.symbols)
	for n, s := range c.symbols {
		seen[s] = uint32(n)
	}
	for _, set := range sets {
		var ls []index.SymbolPair
		for l := range set.All() {
			ls = append(ls, index.SymbolPair{Name: seen[l.Name], Value: seen[l.Value]})
		}
		c.series = append(c.series, ls)
	}
	return c
}

// write writes the content; series n has two chunks.
func (c blockContent) write(t testing.TB, fsys fileutil.FS, name string, opts index.WriterOptions) {
	w, err := index.NewWriter(fsys, name, opts)
	require.NoError(t, err)
	c.fill(t, w)
	require.NoError(t, w.Finish())
}

func (c blockContent) fill(t testing.TB, w *index.Writer) {
	for _, s := range c.symbols {
		require.NoError(t, w.AddSymbol(s))
	}
	for n, ls := range c.series {
		if _, err := w.AddSeries(ls, contentChunks(n)); err != nil {
			t.Fatal(err)
		}
	}
}

func contentChunks(n int) []index.ChunkMeta {
	ref := chunks.BlockRef(8 + 200*n)
	return []index.ChunkMeta{{MinT: 1000, MaxT: 2000, Ref: ref}, {MinT: 3000, MaxT: 4000, Ref: ref + 100}}
}

// fleetContent is the content of a fleet of 100,000 series.
var fleetContent = sync.OnceValue(func() blockContent {
	sets := make([]labels.Labels, 100_000)
	for i := range sets {
		sets[i] = labels.FromStrings(fleet(i)...)
	}
	return newContent(sets)
})

func fleetFile(t testing.TB) string {
	name := filepath.Join(t.TempDir(), "index")
	fleetContent().write(t, fileutil.OS, name, index.WriterOptions{})
	return name
}

func openFleet(t testing.TB) *index.Reader {
	r, err := index.OpenReader(fileutil.OS, fleetFile(t))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func TestReader_TakesHardlyAnyHeap(t *testing.T) {
	name := fleetFile(t)
	before := heapBytes()
	r, err := index.OpenReader(fileutil.OS, name)
	require.NoError(t, err)
	heap := int64(heapBytes() - before)
	t.Logf("%d bytes of heap for a file of %d, %d symbols", heap, r.Size(), r.NumSymbols())
	require.Less(t, heap, int64(32<<10))
	runtime.KeepAlive(r)
	require.NoError(t, r.Close())
}

// One operation is an index of 100,000 series of ten labels.
func BenchmarkWriter(b *testing.B) {
	c := fleetContent()
	dir := b.TempDir()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		name := filepath.Join(dir, "index")
		w, err := index.NewWriter(fileutil.OS, name, index.WriterOptions{})
		require.NoError(b, err)
		c.fill(b, w)
		require.NoError(b, w.Finish())
		require.NoError(b, w.Abort()) // removes the file
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(c.series)), "ns/series")
}

func BenchmarkOpenReader(b *testing.B) {
	name := fleetFile(b)
	b.ReportAllocs()
	for b.Loop() {
		r, err := index.OpenReader(fileutil.OS, name)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		require.NoError(b, r.Close())
		b.StartTimer()
	}
}

func BenchmarkReader_Series(b *testing.B) {
	r := openFleet(b)
	ids, err := r.Select(context.Background())
	require.NoError(b, err)
	var ls []index.SymbolPair
	var cs []index.ChunkMeta
	read := func(b *testing.B, read func(id uint64) error) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if err := read(ids[i%len(ids)]); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("whole", func(b *testing.B) {
		read(b, func(id uint64) (err error) {
			ls, cs, err = r.Series(id, ls[:0], cs[:0])
			return err
		})
	})
	b.Run("labels", func(b *testing.B) {
		read(b, func(id uint64) (err error) {
			ls, err = r.SeriesLabels(id, ls[:0])
			return err
		})
	})
}

func BenchmarkReader_Symbol(b *testing.B) {
	r := openFleet(b)
	b.ReportAllocs()
	for i := uint32(0); b.Loop(); i = (i + 7919) % uint32(r.NumSymbols()) {
		if _, err := r.Symbol(i); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReader_Verify(b *testing.B) {
	r := openFleet(b)
	for b.Loop() {
		require.NoError(b, r.Verify(context.Background(), nil))
	}
}

func BenchmarkReader_Select(b *testing.B) {
	r := openFleet(b)
	type query struct {
		name string
		ms   []*labels.Matcher
	}
	var queries []query
	for name, ms := range fleetQueries(b) {
		queries = append(queries, query{name, ms})
	}
	slices.SortFunc(queries, func(a, b query) int { return cmp.Compare(a.name, b.name) })
	for _, q := range queries {
		b.Run(q.name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				ids, err := r.Select(context.Background(), q.ms...)
				if err != nil || len(ids) == 0 {
					b.Fatal(err)
				}
				n = len(ids)
			}
			b.ReportMetric(float64(n), "refs")
		})
	}
}
