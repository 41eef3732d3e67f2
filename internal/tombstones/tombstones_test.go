package tombstones

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

type vector struct {
	Name   string
	File   string
	Stones []struct {
		Ref              uint64
		Added, Intervals [][2]int64
	}
}

func loadVectors(t testing.TB) []vector {
	t.Helper()
	b, err := os.ReadFile("testdata/tombstones.json")
	require.NoError(t, err)
	var file struct{ Vectors []vector }
	require.NoError(t, json.Unmarshal(b, &file))
	require.NotEmpty(t, file.Vectors)
	return file.Vectors
}

func (v vector) bytes(t testing.TB) []byte {
	t.Helper()
	b, err := hex.DecodeString(v.File)
	require.NoError(t, err)
	return b
}

func intervals(pairs ...[2]int64) Intervals {
	out := make(Intervals, 0, len(pairs))
	for _, p := range pairs {
		out = append(out, Interval{p[0], p[1]})
	}
	return out
}

func TestFile_EqualsTheVectorsBothWays(t *testing.T) {
	for _, v := range loadVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			var s Set
			n := 0
			for _, st := range v.Stones {
				for _, a := range st.Added {
					s.Add(st.Ref, Interval{a[0], a[1]})
				}
				require.Equal(t, intervals(st.Intervals...), s.Of(st.Ref))
				require.Equal(t, s.Of(st.Ref), Normalize(intervals(st.Added...)))
				n += len(st.Intervals)
			}
			require.Equal(t, n, s.Len())
			require.Equal(t, v.bytes(t), Encode(&s))

			got, err := Decode(v.bytes(t))
			require.NoError(t, err)
			require.Equal(t, s.Refs(), got.Refs())
			require.Equal(t, s.Len(), got.Len())
			for _, ref := range s.Refs() {
				require.Equal(t, s.Of(ref), got.Of(ref))
			}
		})
	}
}

func TestIntervals_AddTouchingNeighboursAtTheEndsOfTime(t *testing.T) {
	const lo, hi = math.MinInt64, math.MaxInt64
	require.Equal(t, intervals([2]int64{lo, hi}),
		intervals([2]int64{lo, -1}).Add(Interval{0, hi}))
	require.Equal(t, intervals([2]int64{lo, lo}, [2]int64{hi, hi}),
		intervals([2]int64{lo, lo}).Add(Interval{hi, hi}))
	require.Equal(t, intervals([2]int64{hi - 1, hi}),
		intervals([2]int64{hi, hi}).Add(Interval{hi - 1, hi - 1}))
	require.Empty(t, Intervals(nil).Add(Interval{1, 0}))
	require.Empty(t, Normalize(intervals([2]int64{1, 0})))
}

// The model is a set of single milliseconds.
func TestIntervals_EqualASetOfMilliseconds(t *testing.T) {
	const span = 40
	rapid.Check(t, func(t *rapid.T) {
		var ivs Intervals
		var deleted [span]bool
		var all []Interval
		for range rapid.IntRange(0, 12).Draw(t, "adds") {
			mint := rapid.Int64Range(0, span-1).Draw(t, "mint")
			iv := Interval{mint, rapid.Int64Range(mint-1, min(mint+9, span-1)).Draw(t, "maxt")}
			before := append(Intervals(nil), ivs...)
			grown := ivs.Add(iv)
			require.Equal(t, before, append(Intervals(nil), ivs...), "Add leaves its receiver alone")
			ivs, all = grown, append(all, iv)
			for x := iv.Mint; x <= iv.Maxt; x++ {
				deleted[x] = true
			}
		}
		for i := 1; i < len(ivs); i++ {
			require.Less(t, ivs[i-1].Maxt+1, ivs[i].Mint)
		}
		require.Equal(t, append(Intervals{}, ivs...), Normalize(all))
		mint := rapid.Int64Range(0, span-1).Draw(t, "from")
		covered, any := true, false
		for x := mint; x < span; x++ {
			require.Equal(t, deleted[x], ivs.Covers(x))
			covered, any = covered && deleted[x], any || deleted[x]
			require.Equal(t, covered, ivs.CoversRange(mint, x))
			require.Equal(t, any, ivs.Overlaps(mint, x))
		}
	})
}

func TestSet_ForgetsSeriesAndWhatIsTruncated(t *testing.T) {
	var s Set
	s.Remove(1)
	s.TruncateBefore(0)
	require.Nil(t, s.Of(1))
	s.Add(1, Interval{0, 9})
	s.Add(1, Interval{20, 29})
	s.Add(2, Interval{0, 9})
	s.Add(3, Interval{5, 10})
	s.Add(4, Interval{5, 4})
	taken := s.Of(1)

	s.TruncateBefore(10)
	require.Equal(t, []uint64{1, 3}, s.Refs())
	require.Equal(t, intervals([2]int64{20, 29}), s.Of(1))
	require.Equal(t, intervals([2]int64{5, 10}), s.Of(3))
	require.Equal(t, 2, s.Len())
	require.Positive(t, s.SizeBytes())
	require.Len(t, taken, 2, "a reader keeps what it took")

	s.Remove(1)
	s.Remove(3)
	require.Zero(t, s.Len())
	require.Zero(t, s.SizeBytes())
}

func TestDecode_EveryCutAndEveryFlippedBitIsDamage(t *testing.T) {
	var s Set
	s.Add(1, Interval{10, 20})
	s.Add(300, Interval{-1 << 40, 1 << 40})
	good := Encode(&s)
	for cut := range good {
		requireCorrupt(t, good[:cut])
	}
	for bit := range len(good) * 8 {
		b := append([]byte(nil), good...)
		b[bit/8] ^= 1 << (bit % 8)
		requireCorrupt(t, b)
	}
}

func requireCorrupt(t *testing.T, b []byte) {
	t.Helper()
	_, err := Decode(b)
	var ce *encbuf.CorruptError
	require.ErrorAs(t, err, &ce)
	require.LessOrEqual(t, ce.Offset, int64(len(b)))
}

func TestDecode_TakesEntriesInAnyOrder(t *testing.T) {
	b := encbuf.AppendBE32(nil, fileMagic)
	b = append(b, fileVersion)
	for _, st := range []stone{{2, Interval{30, 40}}, {1, Interval{0, 1}}, {2, Interval{10, 29}}, {2, Interval{9, 8}}} {
		b = encbuf.AppendUvarint(b, st.ref)
		b = encbuf.AppendVarint(encbuf.AppendVarint(b, st.Mint), st.Maxt)
	}
	b = encbuf.AppendBE32(b, encbuf.Checksum(b[headerBytes:]))
	s, err := Decode(b)
	require.NoError(t, err)
	require.Equal(t, intervals([2]int64{10, 40}), s.Of(2))
	require.Equal(t, intervals([2]int64{0, 1}), s.Of(1))
}

// FuzzDecode repairs the checksum, so that entries get hostile bytes too.
func FuzzDecode(f *testing.F) {
	for _, v := range loadVectors(f) {
		f.Add(v.bytes(f))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := Decode(b); err != nil {
			require.ErrorIs(t, err, encbuf.ErrCorrupt)
		}
		if len(b) < headerBytes+crcBytes {
			return
		}
		body := append(encbuf.AppendBE32(nil, fileMagic), fileVersion)
		body = append(body, b[headerBytes:len(b)-crcBytes]...)
		s, err := Decode(encbuf.AppendBE32(body, encbuf.Checksum(body[headerBytes:])))
		if err != nil {
			require.ErrorIs(t, err, encbuf.ErrCorrupt)
			return
		}
		again, err := Decode(Encode(s))
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}

func TestEncode_ExampleOfTheFormatPage(t *testing.T) {
	var s Set
	s.Add(4, Interval{0, 5})
	s.Add(4, Interval{10, 30})
	require.Equal(t, "0130ba30"+"01"+"04000a"+"04143c"+"3ecdb9bc", hex.EncodeToString(Encode(&s)))
}
