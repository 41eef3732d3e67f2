package remote

import (
	"context"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
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
		h := ReadHandler(db, &ReadOptions{TranscodeXOR2: transcode, FrameBytes: 1000})
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

func TestXORTranscoder_LeavesWhatIsNotItsOwn(t *testing.T) {
	var xor chunkenc.Encoder
	require.NoError(t, xor.Append(1, 2, 0))
	c, err := chunkenc.FromData(chunkenc.EncXOR, xor.AppendTo(nil))
	require.NoError(t, err)
	var x xorTranscoder
	got, err := x.transcode(c)
	require.NoError(t, err)
	require.Equal(t, c, got)

	var xor2 chunkenc.Encoder
	require.NoError(t, xor2.Append(1, 2, 1))
	require.NoError(t, xor2.Append(2, 3, 0))
	data := xor2.AppendTo(nil)
	cut, err := chunkenc.FromData(chunkenc.EncXOR2, data[:len(data)-1])
	require.NoError(t, err)
	_, err = x.transcode(cut)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)

	whole, err := chunkenc.FromData(chunkenc.EncXOR2, data)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		if _, err := x.transcode(whole); err != nil {
			t.Error(err)
		}
	}))
}

func TestXORTranscoder_LongestChunk(t *testing.T) {
	var xor2 chunkenc.Encoder
	for i := range int64(chunkenc.MaxSamples) {
		require.NoError(t, xor2.Append(i, math.Sin(float64(i)), 1))
	}
	c, err := chunkenc.FromData(chunkenc.EncXOR2, xor2.AppendTo(nil))
	require.NoError(t, err)
	var x xorTranscoder
	got, err := x.transcode(c)
	require.NoError(t, err)
	require.Equal(t, chunkenc.MaxSamples, got.NumSamples())
	require.Equal(t, drain(t, c.Iterator(nil)), drain(t, got.Iterator(nil)))
}

func BenchmarkTranscode(b *testing.B) {
	var xor2 chunkenc.Encoder
	const samples = 120
	for i := range samples {
		if err := xor2.Append(fixtureStart+int64(i)*fixtureStep, fixtureValue(1, i), 1); err != nil {
			b.Fatal(err)
		}
	}
	c, err := chunkenc.FromData(chunkenc.EncXOR2, xor2.AppendTo(nil))
	require.NoError(b, err)
	var x xorTranscoder
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.transcode(c); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/samples, "ns/sample")
}
