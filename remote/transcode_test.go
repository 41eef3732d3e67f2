package remote

import (
	"context"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// The block of testdata/xor2-block was written by Prometheus 3.15, by turns with the
// encodings XOR and XOR2: 600 samples a second apart, every tenth of them a stale marker;
// 150 to 233, which filled a chunk while it was set to XOR2, have a start timestamp.
const (
	xor2Start   = int64(1_699_920_000_000)
	xor2Samples = 600
)

// openXOR2 opens a database with that block.
func openXOR2(t testing.TB) *tsdb.DB {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "xor2-block"))))
	db, err := tsdb.Open(dir, &tsdb.Options{Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// xor2Sample is sample i of that block.
func xor2Sample(i int64) (s sample, st int64) {
	s = sample{xor2Start + i*1000, math.Float64bits(float64(i%7) + 0.25)}
	if i%10 == 9 {
		s.v = 0x7ff0000000000002
	}
	if i >= 150 && i < 234 {
		st = xor2Start - 1000
	}
	return s, st
}

// frameEncodings returns the types of the chunks of a streamed answer.
func frameEncodings(t testing.TB, h http.Handler) (types []int32) {
	t.Helper()
	w := post(h, allOf(typeChunks, "second"))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	for body := w.Body.Bytes(); len(body) > 0; {
		var f frame
		data, rest := cutFrame(t, body)
		body = rest
		require.NoError(t, f.decode(data))
		for _, c := range f.series[0].chunks {
			types = append(types, c.typ)
		}
	}
	return types
}

// Chunks of the second encoding are sent as they are, or as XOR if that is wanted, and as
// samples; the client reads all of that. Start timestamps come along where there is room
// for them.
func TestXOR2_IsSentAsItIsOrTranscoded(t *testing.T) {
	db := openXOR2(t)
	want := stored(t, db, math.MinInt64, math.MaxInt64)
	require.Len(t, want, 1)
	require.Len(t, want[0].samples, xor2Samples)
	for i, s := range want[0].samples {
		wanted, _ := xor2Sample(int64(i))
		require.Equal(t, wanted, s)
	}
	const xor, xor2 = int32(chunkenc.EncXOR), int32(chunkenc.EncXOR2)
	for _, transcode := range []bool{false, true} {
		h := ReadHandler(db, &ReadOptions{NoStartTimestamps: transcode, FrameBytes: 1000})
		types := frameEncodings(t, h)
		require.Len(t, types, 6)
		require.Contains(t, types, xor)
		require.Equal(t, !transcode, slices.Contains(types, xor2))
		for _, mode := range []Mode{ModeStreamed, ModeSamples} {
			c := clientOf(t, h, &ReadClientOptions{Mode: mode})
			for _, r := range [][2]int64{{math.MinInt64, math.MaxInt64}, {xor2Start + 123_456, xor2Start + 477_000}} {
				part := stored(t, db, r[0], r[1])
				require.Equal(t, part, collect(t, c.Select(context.Background(), r[0], r[1], nil, everyMatcher())))
			}
			requireStarts(t, c, mode == ModeStreamed && !transcode)
		}
	}
}

// requireStarts reads everything: there are all start timestamps, or none.
func requireStarts(t testing.TB, c *ReadClient, wanted bool) {
	t.Helper()
	n := int64(0)
	for s, err := range c.Select(context.Background(), math.MinInt64, math.MaxInt64, nil, everyMatcher()).All() {
		require.NoError(t, err)
		it := s.Iterator(nil)
		for it.Next() != chunkenc.ValNone {
			_, st := xor2Sample(n)
			if !wanted {
				st = 0
			}
			require.Equal(t, st, it.AtST(), n)
			n++
		}
		require.NoError(t, it.Err())
	}
	require.EqualValues(t, xor2Samples, n)
}

// transcoded is what becomes of a chunk.
func transcoded(t testing.TB, c tsdb.ChunkMeta) (out []tsdb.ChunkMeta, err error) {
	t.Helper()
	var x transcoder
	err = x.transcode(c, func(c tsdb.ChunkMeta) error {
		own, err := chunkenc.FromData(c.Chunk.Encoding(), slices.Clone(c.Chunk.Bytes()))
		require.NoError(t, err)
		out = append(out, tsdb.ChunkMeta{MinT: c.MinT, MaxT: c.MaxT, Chunk: own})
		return nil
	})
	return out, err
}

// chunkOf is the chunk that an encoder has.
func chunkOf(t testing.TB, e *chunkenc.Encoder, mint, maxt int64) tsdb.ChunkMeta {
	t.Helper()
	c, err := chunkenc.FromData(e.Encoding(), e.AppendTo(nil))
	require.NoError(t, err)
	return tsdb.ChunkMeta{MinT: mint, MaxT: maxt, Chunk: c}
}

func TestTranscoder_LeavesWhatIsNotItsOwn(t *testing.T) {
	var xor, xor2 chunkenc.Encoder
	require.NoError(t, xor.Append(1, 2, 0))
	c := chunkOf(t, &xor, 1, 1)
	got, err := transcoded(t, c)
	require.NoError(t, err)
	require.Equal(t, []tsdb.ChunkMeta{c}, got)

	require.NoError(t, xor2.Append(1, 2, 1))
	require.NoError(t, xor2.Append(2, 3, 0))
	whole := chunkOf(t, &xor2, 1, 2)
	cut := whole
	cut.Chunk, err = chunkenc.FromData(chunkenc.EncXOR2, whole.Chunk.Bytes()[:len(whole.Chunk.Bytes())-1])
	require.NoError(t, err)
	_, err = transcoded(t, cut)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)

	var x transcoder
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if err := x.transcode(whole, func(tsdb.ChunkMeta) error { return nil }); err != nil {
			t.Error(err)
		}
	}))
	gone := errors.New("client is gone")
	require.ErrorIs(t, x.transcode(whole, func(tsdb.ChunkMeta) error { return gone }), gone)
}

func TestTranscoder_LongestChunk(t *testing.T) {
	var xor2 chunkenc.Encoder
	for i := range int64(chunkenc.MaxSamples) {
		require.NoError(t, xor2.Append(i, math.Sin(float64(i)), 1))
	}
	c := chunkOf(t, &xor2, 0, chunkenc.MaxSamples-1)
	got, err := transcoded(t, c)
	require.NoError(t, err)
	require.Len(t, got, 1)
	require.Equal(t, chunkenc.EncXOR, got[0].Chunk.Encoding())
	require.Equal(t, chunkenc.MaxSamples, got[0].Chunk.NumSamples())
	require.Equal(t, drain(t, c.Chunk.Iterator(nil)), drain(t, got[0].Chunk.Iterator(nil)))
}

// growing is a histogram of two buckets that has counted n in each.
func growing(n int64) *histogram.Histogram {
	return &histogram.Histogram{
		Count: uint64(2 * n), Sum: float64(n),
		PositiveSpans: []histogram.Span{{Offset: 1, Length: 2}}, PositiveBuckets: []int64{n, 0},
	}
}

func TestTranscoder_Histograms(t *testing.T) {
	for _, floats := range []bool{false, true} {
		var e chunkenc.Encoder
		for i := range int64(100) {
			if h := growing(i); floats {
				require.NoError(t, e.AppendFloatHistogram(i, h.ToFloat(nil), 1))
			} else {
				require.NoError(t, e.AppendHistogram(i, h, 1))
			}
		}
		c := chunkOf(t, &e, 0, 99)
		got, err := transcoded(t, c)
		require.NoError(t, err)
		require.Len(t, got, 1)
		want := map[bool]chunkenc.Encoding{false: chunkenc.EncHistogram, true: chunkenc.EncFloatHistogram}[floats]
		require.Equal(t, want, got[0].Chunk.Encoding())
		require.Equal(t, []int64{0, 99}, []int64{got[0].MinT, got[0].MaxT})
		a, b := c.Chunk.Iterator(nil), got[0].Chunk.Iterator(nil)
		var h, g histogram.FloatHistogram
		for a.Next() != chunkenc.ValNone {
			require.NotEqual(t, chunkenc.ValNone, b.Next())
			require.Equal(t, a.AtFloatHistogram(&h), b.AtFloatHistogram(&g))
			require.Equal(t, h, g)
			require.Equal(t, []int64{1, 0}, []int64{a.AtST(), b.AtST()})
		}
		require.Equal(t, chunkenc.ValNone, b.Next())
	}
}

func BenchmarkTranscode(b *testing.B) {
	var xor2 chunkenc.Encoder
	const samples = 120
	for i := range samples {
		if err := xor2.Append(fixtureStart+int64(i)*fixtureStep, fixtureValue(1, i), 1); err != nil {
			b.Fatal(err)
		}
	}
	c := chunkOf(b, &xor2, fixtureStart, fixtureStart+samples*fixtureStep)
	var x transcoder
	b.ReportAllocs()
	for b.Loop() {
		if err := x.transcode(c, func(tsdb.ChunkMeta) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/samples, "ns/sample")
}
