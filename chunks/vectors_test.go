package chunks

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

type headVectors struct {
	Chunks []struct {
		Data       string
		Decoded    []json.RawMessage
		Encoding   uint8
		File       uint32
		MinT, MaxT int64
		Ref        Ref `json:"mmap_ref"`
		NumSamples int `json:"num_samples"`
		Offset     uint32
		OOO        bool
		Series     SeriesRef `json:"series_ref"`
	}
	Files []struct {
		Path string
		Size int
		Data string
	}
}

func loadVectors(tb testing.TB) (v headVectors, files [][]byte) {
	b, err := os.ReadFile("testdata/head_chunks.json")
	require.NoError(tb, err)
	require.NoError(tb, json.Unmarshal(b, &v))
	require.NotEmpty(tb, v.Chunks)
	for _, f := range v.Files {
		data, err := base64.StdEncoding.DecodeString(f.Data)
		require.NoError(tb, err)
		files = append(files, append(data, make([]byte, f.Size-len(data))...))
	}
	return v, files
}

// writeVectors puts the reference's files into a directory.
func writeVectors(tb testing.TB) (dir string, v headVectors) {
	v, files := loadVectors(tb)
	dir = headDir(tb)
	require.NoError(tb, os.Mkdir(dir, 0o777))
	for i, f := range v.Files {
		require.NoError(tb, os.WriteFile(filepath.Join(dir, f.Path), files[i], 0o666))
	}
	return dir, v
}

func TestLoad_Vectors_FindsTheChunks(t *testing.T) {
	dir, v := writeVectors(t)
	h, got, rep := openLoaded(t, fileutil.OS, dir, HeadOptions{})
	require.False(t, rep.NeedsRepair())
	require.Equal(t, 2, rep.Files)
	i := 0
	for _, c := range v.Chunks {
		data, err := hex.DecodeString(c.Data)
		require.NoError(t, err)
		enc, read, err := h.Read(c.Ref, nil)
		require.NoError(t, err)
		require.Equal(t, chunkenc.Encoding(c.Encoding), enc)
		require.Equal(t, data, read)
		if !enc.Known() {
			continue
		}
		want := HeadChunk{c.Series, c.Ref, c.MinT, c.MaxT, enc, c.NumSamples, c.OOO}
		require.Equal(t, want, got[i])
		require.Equal(t, NewRef(c.File, c.Offset), c.Ref)
		require.Equal(t, c.File, c.Ref.File())
		require.Equal(t, c.Offset, c.Ref.Offset())
		requireSamples(t, enc, c.Decoded, read)
		i++
	}
	require.Equal(t, i, rep.Chunks)
	require.Len(t, got, i)
	require.Equal(t, len(v.Chunks)-i, rep.Unknown)
	require.NotZero(t, rep.OutOfOrder)
	require.NoError(t, h.Close())
}

// requireSamples compares the samples of a chunk; of histograms only how many there are, as package
// histchunk compares these.
func requireSamples(t *testing.T, enc chunkenc.Encoding, want []json.RawMessage, data []byte) {
	t.Helper()
	c, err := chunkenc.FromData(enc, data)
	require.NoError(t, err)
	it := c.Iterator(nil)
	for _, w := range want {
		require.Equal(t, enc.Kind(), it.Next())
		if enc.Kind() != chunkenc.ValFloat {
			continue
		}
		at, v := it.At()
		var bits [8]byte
		for i := range bits {
			bits[i] = byte(math.Float64bits(v) >> (56 - 8*i))
		}
		got, err := json.Marshal([]any{at, hex.EncodeToString(bits[:])})
		require.NoError(t, err)
		require.JSONEq(t, string(w), string(got))
	}
	require.Equal(t, chunkenc.ValNone, it.Next())
	require.NoError(t, it.Err())
}

func TestWrite_Vectors_GiveTheSameBytes(t *testing.T) {
	v, files := loadVectors(t)
	fsys := newTestFS()
	h, _, _ := openLoaded(t, fsys, headDir(t), HeadOptions{})
	var batch []Full
	var want []Ref
	flush := func() {
		got, err := h.Write(batch)
		require.NoError(t, err)
		require.Equal(t, want, got)
		batch, want = nil, nil
	}
	file := v.Chunks[0].File
	for _, c := range v.Chunks {
		if c.File != file {
			// The vectors' files were cut on purpose.
			flush()
			h.w.Lock()
			require.NoError(t, h.w.out.finish(false))
			h.w.Unlock()
			file = c.File
		}
		data, err := hex.DecodeString(c.Data)
		require.NoError(t, err)
		batch = append(batch, Full{c.Series, c.MinT, c.MaxT, chunkenc.Encoding(c.Encoding), c.OOO, data})
		want = append(want, c.Ref)
	}
	flush()
	require.NoError(t, h.Close())
	for i, f := range v.Files {
		got, err := os.ReadFile(filepath.Join(h.w.out.dir, f.Path))
		require.NoError(t, err)
		require.Equal(t, bytes.TrimRight(files[i], "\x00"), got)
	}
}
