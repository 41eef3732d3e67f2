package blockdir

import (
	"context"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// oneChunk writes a block with one series of one chunk, as it is given.
func oneChunk(t *testing.T, c Chunk) *tsdbtest.MemFS {
	t.Helper()
	m := newDisk(t)
	_, err := create(m, testID, []testSeries{{[]string{"a", "b"}, []Chunk{c}}}, testMeta(), WriterOptions{})
	require.NoError(t, err)
	return m
}

func report(t *testing.T, m fileutil.FS) Report {
	t.Helper()
	d := openTest(t, m)
	rep, err := Verify(context.Background(), d, nil)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	for _, p := range rep.Problems {
		require.ErrorIs(t, p, encbuf.ErrCorrupt)
	}
	return rep
}

func TestVerify_DecodesEveryChunk(t *testing.T) {
	good := floats(10, 20, 30)
	for _, c := range []struct {
		name   string
		change func(c *Chunk)
		want   []string
	}{
		{"good", func(*Chunk) {}, nil},
		{"first time", func(c *Chunk) { c.MinT = 9 }, []string{"samples from 10 to 30, the index says 9 to 30"}},
		{"last time", func(c *Chunk) { c.MaxT = 31 }, []string{"the index says 10 to 31"}},
		{"count", func(c *Chunk) { c.Num = 4 }, []string{"the meta file counts"}},
		{"times descend", func(c *Chunk) { c.Data = floats(10, 40, 30).Data }, []string{"sample 2 at 30 is not behind the one at 40"}},
		{"same time", func(c *Chunk) { c.Data = floats(10, 30, 30).Data }, []string{"sample 2 at 30"}},
		{"cut", func(c *Chunk) { c.Data = c.Data[:12] }, []string{"chunk of series"}},
		{"too short", func(c *Chunk) { c.Data = []byte{1} }, []string{"shorter than its sample count"}},
		{"no samples", func(c *Chunk) { c.Data = []byte{0, 0} }, []string{"no samples"}},
	} {
		chunk := good
		c.change(&chunk)
		rep := report(t, oneChunk(t, chunk))
		require.Len(t, rep.Problems, len(c.want), "%s: %v", c.name, rep.Problems)
		require.Equal(t, len(c.want), rep.Total)
		for i, want := range c.want {
			require.ErrorContains(t, rep.Problems[i], want, c.name)
		}
	}
}

func TestVerify_ChunksThatItCannotDecode_AreCounted(t *testing.T) {
	for enc, n := range map[chunkenc.Encoding]uint64{7: 0x8003, 0x7f: 0x8003} {
		rep := report(t, oneChunk(t, Chunk{MinT: 1, MaxT: 2, Num: int(n), Encoding: enc, Data: []byte{0x80, 3, 0}}))
		require.Empty(t, rep.Problems, enc)
		require.EqualValues(t, 1, rep.UnknownChunks)
		require.Equal(t, n, rep.Stats.NumSamples)
		require.Zero(t, rep.Stats.NumFloatSamples)
	}
	rep := report(t, oneChunk(t, Chunk{MinT: 1, MaxT: 2, Num: 1, Encoding: 99, Data: nil}))
	require.Len(t, rep.Problems, 1)
}

func TestVerify_DecodesChunksWithStartTimestamps(t *testing.T) {
	var e xorchunk.Encoder2
	require.NoError(t, e.Append(10, 1, 5))
	require.NoError(t, e.Append(20, 2, 5))
	chunk := Chunk{MinT: 10, MaxT: 20, Num: 2, Encoding: chunkenc.EncXOR2, Data: e.AppendTo(nil)}
	rep := report(t, oneChunk(t, chunk))
	require.Empty(t, rep.Problems)
	require.Zero(t, rep.UnknownChunks)
	require.EqualValues(t, 2, rep.Stats.NumFloatSamples)
	chunk.MaxT = 21
	require.Len(t, report(t, oneChunk(t, chunk)).Problems, 1)
	chunk.Data = chunk.Data[:len(chunk.Data)-1]
	require.Len(t, report(t, oneChunk(t, chunk)).Problems, 1)
}

func TestVerify_HoldsTheFilesAgainstEachOther(t *testing.T) {
	m := newBlock(t)
	d := openTest(t, m)
	ids := seriesIDs(t, d)
	meta := d.Meta()
	set := deleted(0, 10, ids[0])
	require.NoError(t, d.SetTombstones(set))
	require.NoError(t, d.Close())
	require.Empty(t, report(t, m).Problems)

	for _, id := range []uint64{0, ids[2] + 1, 1 << 40} {
		bad := m.KillClone()
		d := openTest(t, bad)
		set := deleted(0, 10, ids[0], id)
		require.NoError(t, d.SetTombstones(set))
		require.NoError(t, d.Close())
		rep := report(t, bad)
		require.Len(t, rep.Problems, 1)
		require.ErrorContains(t, rep.Problems[0], "tombstones")
	}

	for want, change := range map[string]func(m *Meta){
		"":                 func(m *Meta) { m.Stats.NumFloatSamples = 0 },
		"meta file counts": func(m *Meta) { m.Stats.NumSamples++ },
	} {
		bad := m.KillClone()
		changed := meta
		change(&changed)
		require.NoError(t, WriteMeta(bad, Path(dataDir, testID), changed))
		rep := report(t, bad)
		if want == "" {
			require.Empty(t, rep.Problems)
			continue
		}
		require.Len(t, rep.Problems, 1, want)
		require.ErrorContains(t, rep.Problems[0], want)
	}

	for want, change := range map[string]func(m *Meta){
		"the block is from 1":           func(m *Meta) { m.MinTime = 1 },
		"the block is from 0 to before": func(m *Meta) { m.MaxTime = 99 },
	} {
		bad := m.KillClone()
		changed := meta
		change(&changed)
		require.NoError(t, WriteMeta(bad, Path(dataDir, testID), changed))
		rep := report(t, bad)
		require.Empty(t, rep.Problems, "everything can be read")
		require.Len(t, rep.Disorder, 1, want)
		require.ErrorContains(t, rep.Disorder[0], want)
		require.Equal(t, 1, rep.TotalDisorder)
	}

	meta.Stats = Stats{}
	require.NoError(t, WriteMeta(m, Path(dataDir, testID), meta))
	require.Empty(t, report(t, m).Problems, "a writer that counts nothing")

	b, err := m.ReadFile(inBlock("chunks/000001"))
	require.NoError(t, err)
	require.NoError(t, m.WriteFile(inBlock("chunks/000001"), append(b, 1, 2, 3)))
	rep := report(t, m)
	require.Empty(t, rep.Problems)
	require.EqualValues(t, 3, rep.UnusedBytes)
}

func TestVerify_DamagedChunks_AreEachReportedUpToALimit(t *testing.T) {
	var chunks []Chunk
	for i := range int64(maxProblems + 50) {
		chunks = append(chunks, floats(i))
	}
	m := newDisk(t)
	_, err := create(m, testID, []testSeries{{[]string{"a", "b"}, chunks}}, Meta{MaxTime: 1000}, WriterOptions{})
	require.NoError(t, err)
	b, err := m.ReadFile(inBlock("chunks/000001"))
	require.NoError(t, err)
	require.NoError(t, m.WriteFile(inBlock("chunks/000001"), append(b[:100], make([]byte, len(b)-100)...)))
	rep := report(t, m)
	require.Len(t, rep.Problems, maxProblems)
	require.Greater(t, rep.Total, maxProblems)
	require.ErrorContains(t, rep.Problems[0], "000001")
	require.EqualValues(t, len(chunks), rep.Stats.NumChunks)
}

func TestVerify_ContextEndsIt(t *testing.T) {
	d := openTest(t, newBlock(t))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Verify(ctx, d, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, d.Close())
}

// A file that cannot be read is damage or an error, and never a good block.
func TestOpenAndVerify_EveryFailure_IsReported(t *testing.T) {
	sweep(t, func() *tsdbtest.MemFS { return newBlock(t) }, func(fsys fileutil.FS) error {
		d, err := Open(fsys, Path(dataDir, testID))
		if err != nil {
			return err
		}
		rep, err := Verify(context.Background(), d, nil)
		return fileutil.JoinErrors(append(rep.Problems, err, d.Close())...)
	}, func(t *testing.T, _ faultfs.Fault, f *faultfs.FS, m *tsdbtest.MemFS, err error) {
		require.Error(t, err, f.TraceString())
		require.NoError(t, verifyTest(t, m))
	})
}

// FuzzOpen opens, verifies and salvages a block one of whose files is arbitrary.
func FuzzOpen(f *testing.F) {
	names := append([]string{"tombstones", "meta.json.crc"}, blockFiles...)
	good := newBlock(f)
	for i, name := range names {
		b, err := good.ReadFile(inBlock(name))
		require.NoError(f, err)
		f.Add(uint8(i), b)
	}
	set := &tombstones.Set{}
	set.Add(1, tombstones.Interval{Mint: 1, Maxt: 2})
	f.Add(uint8(0), tombstones.Encode(set))
	other := ulid.MustParseStrict("01HF7Q8ZK0000000000000TES9")
	_, err := create(good, other, []testSeries{{[]string{"x", "y"}, []Chunk{floats(1)}}}, testMeta(), WriterOptions{})
	require.NoError(f, err)
	for i, name := range names {
		b, err := good.ReadFile(Path(dataDir, other) + "/" + name)
		require.NoError(f, err)
		f.Add(uint8(i), b)
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte) {
		m := good.KillClone()
		require.NoError(t, m.WriteFile(inBlock(names[int(which)%len(names)]), b))
		salvaged := m.KillClone()
		if _, err := Salvage(context.Background(), salvaged, Path(dataDir, testID), dataDir, newID, SalvageOptions{WriterOptions: WriterOptions{}, Undelete: true}); err == nil {
			d, err := Open(salvaged, Path(dataDir, newID))
			require.NoError(t, err)
			require.NoError(t, d.Close())
		}
		require.Empty(t, salvaged.OpenHandles())
		d, err := OpenReadOnly(m, Path(dataDir, testID))
		if err != nil {
			return
		}
		_, err = Verify(context.Background(), d, nil)
		require.NoError(t, err)
		require.NoError(t, d.Close())
		require.Empty(t, m.OpenHandles())
	})
}
