package index_test

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/labels"
)

// blockVector is an index file with what is in it.
type blockVector struct {
	Name     string
	Version  int
	Symbols  []string
	Series   []vectorSeries
	Postings []vectorList
	raw      []byte
}

type vectorSeries struct {
	ID     uint64
	Labels [][2]string
	Chunks []struct {
		MinT, MaxT int64
		Ref        chunks.BlockRef
	}
}

type vectorList struct {
	Name, Value string
	SeriesIDs   []uint64 `json:"series_ids"`
}

func readJSON(t testing.TB, name string, into any) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, into))
}

// blockVectors returns all index files of the reference, of versions 1 and 2.
func blockVectors(t testing.TB) []blockVector {
	var file struct {
		Vectors []struct {
			Name string
			File struct {
				Data string
				Size int
			}
			Index blockVector
		}
	}
	readJSON(t, "block_index.json", &file)
	var all []blockVector
	for _, v := range file.Vectors {
		b := v.Index
		b.Name = v.Name
		data, err := base64.StdEncoding.DecodeString(v.File.Data)
		require.NoError(t, err)
		b.raw = append(data, make([]byte, v.File.Size-len(data))...)
		all = append(all, b)
	}
	var old struct {
		blockVector
		Index string
	}
	readJSON(t, "index_v1.json", &old)
	raw, err := hex.DecodeString(old.Index)
	require.NoError(t, err)
	old.Name, old.raw = "version 1", raw
	require.Len(t, all, 3)
	return append(all, old.blockVector)
}

func writeFile(t testing.TB, data []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "index")
	require.NoError(t, os.WriteFile(name, data, 0o666))
	return name
}

func openBlock(t testing.TB, data []byte) *index.Reader {
	t.Helper()
	r, err := index.OpenReader(fileutil.OS, writeFile(t, data))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// labelSet reads the labels of pairs symbol by symbol.
func labelSet(t testing.TB, r *index.Reader, ls []index.SymbolPair) labels.Labels {
	var set []labels.Label
	for _, l := range ls {
		name, err := r.Symbol(l.Name)
		require.NoError(t, err)
		value, err := r.Symbol(l.Value)
		require.NoError(t, err)
		set = append(set, labels.Label{Name: name, Value: value})
	}
	return labels.New(set...)
}

func vectorLabels(s vectorSeries) labels.Labels {
	var flat []string
	for _, l := range s.Labels {
		flat = append(flat, l[0], l[1])
	}
	return labels.FromStrings(flat...)
}

// symbolsByBatches reads all symbols, so many bytes at a time.
func symbolsByBatches(t *testing.T, r *index.Reader, most int) (all []string) {
	for {
		text, ends, err := r.AppendSymbols(nil, nil, uint32(len(all)), most)
		require.NoError(t, err)
		if len(ends) == 0 {
			return all
		}
		require.True(t, len(ends) == 1 || len(text) <= most)
		start := 0
		for _, end := range ends {
			all = append(all, string(text[start:end]))
			start = end
		}
		require.Equal(t, len(text), start)
	}
}

func TestReader_ReadsWhatTheReferenceWrote(t *testing.T) {
	for _, v := range blockVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			r := openBlock(t, v.raw)
			require.Equal(t, v.Version, r.Version())
			require.EqualValues(t, len(v.raw), r.Size())
			require.Equal(t, len(v.Symbols), r.NumSymbols())
			require.NoError(t, r.Symbols(func(n uint32, s []byte) error {
				require.Equal(t, v.Symbols[n], string(s))
				return nil
			}))
			_, err := r.Symbol(uint32(len(v.Symbols)))
			require.ErrorIs(t, err, encbuf.ErrCorrupt, "there is none")
			for most := range 12 {
				require.Equal(t, v.Symbols, symbolsByBatches(t, r, most))
			}
			var ids []uint64
			for _, s := range v.Series {
				ids = append(ids, s.ID)
				ls, cs, err := r.Series(s.ID, nil, nil)
				require.NoError(t, err)
				require.Equal(t, vectorLabels(s), labelSet(t, r, ls))
				require.Len(t, cs, len(s.Chunks))
				for i, c := range s.Chunks {
					require.Equal(t, index.ChunkMeta{MinT: c.MinT, MaxT: c.MaxT, Ref: c.Ref}, cs[i])
				}
				onlyLabels, err := r.SeriesLabels(s.ID, nil)
				require.NoError(t, err)
				require.Equal(t, ls, onlyLabels)
			}
			all, err := index.Expand(r.AllSeries())
			require.NoError(t, err)
			require.Equal(t, ids, all)
			n, err := r.NumSeries()
			require.NoError(t, err)
			require.Equal(t, len(ids), n)
		})
	}
}

func TestReader_SelectsEachListOfTheReference(t *testing.T) {
	ctx := context.Background()
	for _, v := range blockVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			r := openBlock(t, v.raw)
			counts := make(map[[2]string]int)
			values := make(map[string][]string)
			var names []string
			for _, l := range v.Postings {
				if l.Name == "" {
					continue
				}
				ids, err := r.Select(ctx, labels.Equal(l.Name, l.Value))
				require.NoError(t, err)
				require.Equal(t, l.SeriesIDs, ids)
				counts[[2]string{l.Name, l.Value}] = len(ids)
				values[l.Name] = append(values[l.Name], l.Value)
				names = append(names, l.Name)
			}
			require.NoError(t, r.Pairs(func(name, value string, count int) error {
				require.Equal(t, counts[[2]string{name, value}], count)
				delete(counts, [2]string{name, value})
				return nil
			}))
			require.Empty(t, counts)
			got, err := r.LabelNames(ctx)
			require.NoError(t, err)
			slices.Sort(names)
			require.Equal(t, slices.Compact(names), got)
			for name, want := range values {
				slices.Sort(want)
				got, err := r.LabelValues(ctx, name)
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
		})
	}
}

func TestReader_VerifiesWhatTheReferenceWrote(t *testing.T) {
	for _, v := range blockVectors(t) {
		n := 0
		require.NoError(t, openBlock(t, v.raw).Verify(context.Background(), func(id uint64, ls []index.SymbolPair, cs []index.ChunkMeta) error {
			require.Equal(t, v.Series[n].ID, id)
			require.Len(t, ls, len(v.Series[n].Labels))
			require.Len(t, cs, len(v.Series[n].Chunks))
			n++
			return nil
		}))
		require.Len(t, v.Series, n)
	}
}

// Version 3 is version 2 with another number.
func TestReader_ReadsVersion3AsVersion2(t *testing.T) {
	v := blockVectors(t)[0]
	v.raw[4] = 3
	r := openBlock(t, v.raw)
	require.Equal(t, 3, r.Version())
	require.NoError(t, r.Verify(context.Background(), nil))
}

// writeVector writes the content of a vector.
func writeVector(t testing.TB, w *index.Writer, v blockVector) {
	numbers := make(map[string]uint32)
	for i, s := range v.Symbols {
		require.NoError(t, w.AddSymbol(s))
		numbers[s] = uint32(i)
	}
	for _, s := range v.Series {
		var ls []index.SymbolPair
		for _, l := range s.Labels {
			ls = append(ls, index.SymbolPair{Name: numbers[l[0]], Value: numbers[l[1]]})
		}
		var cs []index.ChunkMeta
		for _, c := range s.Chunks {
			cs = append(cs, index.ChunkMeta{MinT: c.MinT, MaxT: c.MaxT, Ref: c.Ref})
		}
		id, err := w.AddSeries(ls, cs)
		require.NoError(t, err)
		require.EqualValues(t, s.ID, id)
	}
}

func TestWriter_WritesTheBytesOfTheReference(t *testing.T) {
	for _, v := range blockVectors(t) {
		if v.Version != 2 {
			continue
		}
		for _, memory := range []int{0, 1, 100} {
			name := filepath.Join(t.TempDir(), "index")
			told := 0
			w, err := index.NewWriter(fileutil.OS, name, index.WriterOptions{
				PostingsBytes: memory,
				Written:       func(n int) error { told += n; return nil },
			})
			require.NoError(t, err)
			writeVector(t, w, v)
			require.NoError(t, w.Finish())
			got, err := os.ReadFile(name)
			require.NoError(t, err)
			require.Equal(t, v.raw, got, "%s, lists in %d bytes", v.Name, memory)
			require.Equal(t, len(got), told)
			require.EqualValues(t, len(got), w.Size())
		}
	}
}
