package blockdir

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// blockVector is a block that the reference wrote; one without files is the one before it
// after a delete.
type blockVector struct {
	Name  string
	ULID  string
	Files []struct {
		Path, Data string
		Size       int
	}
	Index struct {
		Symbols []string
		Series  []struct {
			ID     uint64
			Labels [][2]string
			Chunks []vectorChunk
		}
	}
	Meta           string `json:"meta.json"`
	Tombstones     []struct{ Ref, Mint, Maxt int64 }
	TombstonesFile string `json:"tombstones_file"`
}

type vectorChunk struct {
	Data       string
	Decoded    []json.RawMessage
	Encoding   uint8
	MinT, MaxT int64
	NumSamples int `json:"num_samples"`
	Ref        uint64
}

func (c vectorChunk) bytes(tb testing.TB) []byte {
	tb.Helper()
	b, err := hex.DecodeString(c.Data)
	require.NoError(tb, err)
	return b
}

func blockVectors(tb testing.TB) []blockVector {
	tb.Helper()
	b, err := os.ReadFile("testdata/block.json")
	require.NoError(tb, err)
	var file struct{ Vectors []blockVector }
	require.NoError(tb, json.Unmarshal(b, &file))
	require.Len(tb, file.Vectors, 4)
	return file.Vectors
}

// files returns the files of the block directory by path.
func (v blockVector) files(tb testing.TB) map[string]string {
	tb.Helper()
	files := map[string]string{}
	for _, f := range v.Files {
		b, err := base64.StdEncoding.DecodeString(f.Data)
		require.NoError(tb, err)
		files[f.Path] = string(b) + strings.Repeat("\x00", f.Size-len(b))
	}
	return files
}

// disk returns a data directory with the block.
func (v blockVector) disk(tb testing.TB) *tsdbtest.MemFS {
	tb.Helper()
	m := newDisk(tb)
	for path, text := range v.files(tb) {
		require.NoError(tb, m.WriteFile(dataDir+"/"+v.ULID+"/"+path, []byte(text)))
	}
	return m
}

func (v blockVector) id() ulid.ULID { return ulid.MustParseStrict(v.ULID) }

func TestOpen_Vectors_EverySampleIsThere(t *testing.T) {
	decoded := 0
	for _, v := range blockVectors(t) {
		if v.Files == nil {
			continue
		}
		m := v.disk(t)
		d, err := Open(m, Path(dataDir, v.id()))
		require.NoError(t, err, v.Name)
		require.True(t, d.NeedsSidecar())
		require.EqualValues(t, m.Used(), d.SizeBytes())
		series, n := 0, 0
		err = d.Index().Verify(context.Background(), func(id uint64, ls []index.SymbolPair, cs []index.ChunkMeta) error {
			want := v.Index.Series[series]
			series++
			require.Equal(t, want.ID, id)
			require.Len(t, cs, len(want.Chunks))
			for i, l := range ls {
				require.Equal(t, want.Labels[i][0], symbol(t, d, l.Name))
				require.Equal(t, want.Labels[i][1], symbol(t, d, l.Value))
			}
			for i, c := range want.Chunks {
				require.Equal(t, index.ChunkMeta{MinT: c.MinT, MaxT: c.MaxT, Ref: chunks.BlockRef(c.Ref)}, cs[i])
				enc, data, err := d.Chunks().Read(cs[i].Ref, nil)
				require.NoError(t, err)
				require.Equal(t, chunkenc.Encoding(c.Encoding), enc)
				require.Equal(t, c.bytes(t), data)
				n += c.NumSamples
				decoded += requireSamples(t, c, data)
			}
			return nil
		})
		require.NoError(t, err)
		require.Len(t, v.Index.Series, series)
		require.EqualValues(t, d.Meta().Stats.NumSamples, n)
		rep, err := Verify(context.Background(), d, nil)
		require.NoError(t, err)
		require.Empty(t, rep.Problems, v.Name)
		require.Equal(t, d.Meta().Stats, rep.Stats)
		require.Zero(t, rep.UnusedBytes)
		require.NoError(t, d.Close())
		require.Empty(t, m.OpenHandles())
	}
	require.Greater(t, decoded, 70)
}

func symbol(t *testing.T, d *Dir, n uint32) string {
	t.Helper()
	s, err := d.Index().Symbol(n)
	require.NoError(t, err)
	return s
}

// requireSamples compares the samples of a chunk of a known encoding, and returns how many.
func requireSamples(t *testing.T, c vectorChunk, data []byte) int {
	t.Helper()
	if !chunkenc.Encoding(c.Encoding).Known() {
		return 0
	}
	chunk, err := chunkenc.FromData(chunkenc.Encoding(c.Encoding), data)
	require.NoError(t, err)
	it := chunk.Iterator(nil)
	for _, w := range c.Decoded {
		require.Equal(t, chunk.Encoding().Kind(), it.Next())
		if chunk.Encoding().Kind() != chunkenc.ValFloat { // package histchunk compares them
			continue
		}
		at, v := it.At()
		require.JSONEq(t, string(w), fmt.Sprintf("[%d,%q]", at, fmt.Sprintf("%016x", math.Float64bits(v))))
	}
	return len(c.Decoded)
}

func TestCommit_Vectors_GiveTheSameBytes(t *testing.T) {
	for _, v := range blockVectors(t) {
		if v.Files == nil {
			continue
		}
		want := v.files(t)
		source, err := ReadMeta(v.disk(t), Path(dataDir, v.id()))
		require.NoError(t, err)
		opts := WriterOptions{}
		if _, several := want["chunks/000002"]; several {
			opts.SegmentBytes = 1024
		}
		m := newDisk(t)
		w, err := Create(m, dataDir, v.id(), opts)
		require.NoError(t, err)
		numbers := map[string]uint32{}
		for i, s := range v.Index.Symbols {
			numbers[s] = uint32(i)
			require.NoError(t, w.AddSymbol(s))
		}
		for _, s := range v.Index.Series {
			for _, c := range s.Chunks {
				require.NoError(t, w.AddChunk(Chunk{c.MinT, c.MaxT, c.NumSamples, chunkenc.Encoding(c.Encoding), c.bytes(t)}))
			}
			var ls []index.SymbolPair
			for _, l := range s.Labels {
				ls = append(ls, index.SymbolPair{Name: numbers[l[0]], Value: numbers[l[1]]})
			}
			require.NoError(t, w.AddSeries(ls))
		}
		written, err := w.Commit(context.Background(), Meta{MinTime: source.MinTime, MaxTime: source.MaxTime})
		require.NoError(t, err, v.Name)
		require.Equal(t, source, written)
		got := tree(t, m)
		for path, text := range want {
			path = dataDir + "/" + v.ULID + "/" + path
			require.Equal(t, text, got[path], path)
			delete(got, path)
		}
		require.Len(t, got, 1, "besides the sidecar there is nothing")
	}
}

func TestSetTombstones_Vector_GivesTheSameFiles(t *testing.T) {
	vs := blockVectors(t)
	before, after := vs[0], vs[1]
	m := before.disk(t)
	d, err := Open(m, Path(dataDir, before.id()))
	require.NoError(t, err)
	set := &tombstones.Set{}
	for _, s := range after.Tombstones {
		set.Add(uint64(s.Ref), tombstones.Interval{Mint: s.Mint, Maxt: s.Maxt})
	}
	require.NoError(t, d.SetTombstones(set))
	require.NoError(t, d.Close())
	dir := dataDir + "/" + before.ULID
	b, err := m.ReadFile(dir + "/meta.json")
	require.NoError(t, err)
	require.Equal(t, after.Meta, string(b))
	b, err = m.ReadFile(dir + "/tombstones")
	require.NoError(t, err)
	require.Equal(t, after.TombstonesFile, hex.EncodeToString(b))
}

func TestTombstones_Vectors_AreReadAndWritten(t *testing.T) {
	b, err := os.ReadFile("testdata/tombstones.json")
	require.NoError(t, err)
	var v struct {
		Vectors []struct {
			Name, File string
			Stones     []struct {
				Ref       uint64
				Intervals [][2]int64
			}
		}
	}
	require.NoError(t, json.Unmarshal(b, &v))
	require.NotEmpty(t, v.Vectors)
	for _, vec := range v.Vectors {
		file, err := hex.DecodeString(vec.File)
		require.NoError(t, err)
		m := newBlock(t)
		path := Path(dataDir, testID) + "/tombstones"
		require.NoError(t, m.WriteFile(path, file))
		d := openTest(t, m)
		n := 0
		for _, s := range vec.Stones {
			n += len(s.Intervals)
			require.Len(t, d.Tombstones().Of(s.Ref), len(s.Intervals))
			for i, iv := range s.Intervals {
				require.Equal(t, tombstones.Interval{Mint: iv[0], Maxt: iv[1]}, d.Tombstones().Of(s.Ref)[i])
			}
		}
		require.EqualValues(t, n, d.Meta().Stats.NumTombstones, "as if a crash had come before the meta file")
		require.NoError(t, d.SetTombstones(d.Tombstones()))
		require.NoError(t, d.Close())
		b, err := m.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, vec.File, hex.EncodeToString(b))
	}
}
