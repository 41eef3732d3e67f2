package chunkenc

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// sample is a float sample whose value is known by its bits.
type sample struct {
	t int64
	v uint64
}

// stSample is a sample with a start timestamp.
type stSample struct {
	st, t int64
	v     uint64
}

// withoutST are the same samples for those who do not ask when something started.
func withoutST(samples []stSample) []sample {
	var out []sample
	for _, s := range samples {
		out = append(out, sample{s.t, s.v})
	}
	return out
}

// series makes samples of a gauge that is read every 15 seconds, nearly.
func series(n int) []sample {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]sample, n)
	for i := range out {
		out[i] = sample{1_700_000_000_000 + int64(i)*15_000 + int64(r.IntN(7)), math.Float64bits(r.NormFloat64())}
	}
	return out
}

// randomST makes samples with start timestamps that come, stay, change and go.
func randomST(r *rand.Rand, n int) (out []stSample) {
	histtest.EachStarted(r, n, func(st, t int64, v uint64) { out = append(out, stSample{st, t, v}) })
	return out
}

// encode returns the XOR chunk of samples.
func encode(tb testing.TB, samples []sample) []byte {
	var e xorchunk.Encoder
	for _, x := range samples {
		require.NoError(tb, e.Append(x.t, math.Float64frombits(x.v)))
	}
	return e.AppendTo(nil)
}

// encode2 returns the XOR2 chunk of samples.
func encode2(tb testing.TB, samples []stSample) []byte {
	var e xorchunk.Encoder2
	for _, x := range samples {
		require.NoError(tb, e.Append(x.t, math.Float64frombits(x.v), x.st))
	}
	return e.AppendTo(nil)
}
