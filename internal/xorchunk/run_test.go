package xorchunk

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// anyRun returns samples of which some repeat, some are near the one before, and some are
// anything at all.
func anyRun(r *rand.Rand, n int) []Sample {
	run := make([]Sample, n)
	var t int64
	var v uint64
	step := int64(1000)
	for i := range run {
		switch r.IntN(12) {
		case 0:
			t = int64(r.Uint64())
		case 1:
			step = int64(1) << r.IntN(63)
		case 2:
			t += int64(1) << r.IntN(22)
		case 3:
			t -= int64(1) << r.IntN(22)
		}
		switch r.IntN(6) {
		case 0:
			v = r.Uint64()
		case 1:
			v ^= r.Uint64() >> r.IntN(64) << r.IntN(64)
		case 2:
			v = math.Float64bits(math.Round(1000*r.Float64()) / 10)
		case 3:
			v ^= 1 << r.IntN(64)
		}
		t += step
		run[i] = Sample{T: t, V: math.Float64frombits(v)}
	}
	return run
}

func TestXORState_AppendRun_IsAppendOfEach(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		samples := anyRun(r, 1+r.IntN(300))
		var one, many State
		var want, got []byte
		if r.IntN(2) == 0 {
			got = make([]byte, 0, 8000)
		}
		for at := 0; at < len(samples); {
			run := samples[at : at+1+r.IntN(min(60, len(samples)-at))]
			limit := len(got) + r.IntN(60) - 20
			before := len(got)
			var n int
			got, n = many.AppendRun(got, run, limit)
			require.Positive(t, n)
			for i, s := range run[:n] {
				if i > 0 {
					require.LessOrEqual(t, len(want), limit, "it goes on behind the limit")
				}
				want = one.Append(want, s.T, s.V)
			}
			require.True(t, n == len(run) || len(want) > limit, "it stops at the limit")
			require.Equal(t, want, got)
			require.Equal(t, one.PendingBytes(), many.PendingBytes())
			require.Equal(t, one.Snapshot(nil, want), many.Snapshot(nil, got))
			require.GreaterOrEqual(t, len(got), before)
			if at += n; r.IntN(3) == 0 && at < len(samples) { // one at a time in between
				want = one.Append(want, samples[at].T, samples[at].V)
				got = many.Append(got, samples[at].T, samples[at].V)
				at++
			}
		}
		require.Equal(t, one.LastT(), many.LastT())
		require.Equal(t, one.FirstT(), many.FirstT())
		require.Equal(t, one.Len(), many.Len())
	}
}

func TestXORState_AppendRun_WithRoomAllocatesNothing(t *testing.T) {
	run := anyRun(rand.New(rand.NewPCG(1, 2)), 100)
	buf := make([]byte, 0, 4096+RunRoom)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var s State
		_, n := s.AppendRun(buf, run, 4096)
		require.Equal(t, len(run), n)
	}))
}

func TestXORState_AppendRun_MoreThanAChunkHolds_Panics(t *testing.T) {
	run := make([]Sample, MaxSamples)
	for i := range run {
		run[i].T = int64(i)
	}
	var s State
	_, n := s.AppendRun(nil, run, math.MaxUint16)
	require.Equal(t, MaxSamples, n)
	require.Panics(t, func() { s.AppendRun(nil, run[:1], 0) })
}

func BenchmarkXORAppendRun(b *testing.B) {
	for _, s := range benchSeries {
		for _, length := range []int{4, 12, 24} {
			b.Run(fmt.Sprintf("%s/%d", s.name, length), func(b *testing.B) {
				const n = 120
				samples, _ := benchData(s.make, n)
				runs := make([][]Sample, len(samples))
				for i := range samples {
					for _, x := range samples[i] {
						runs[i] = append(runs[i], Sample{T: x.t, V: math.Float64frombits(x.v)})
					}
				}
				buf := make([]byte, 0, 4096)
				var x State
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					x.Reset()
					buf = buf[:0]
					for k := 0; k < n; k += length {
						buf, _ = x.AppendRun(buf, runs[i%benchChunks][k:k+length], 2048)
					}
				}
				perSample(b, n)
			})
		}
	}
}
