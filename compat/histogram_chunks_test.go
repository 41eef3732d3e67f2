package compat

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	theirhist "github.com/prometheus/prometheus/model/histogram"
	theirenc "github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histchunk"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

// histogramSample is one sample of a series of histograms, of either kind.
type histogramSample struct {
	t, st int64
	ints  *histogram.Histogram
	float *histogram.FloatHistogram // or nil
}

// Random series of histograms become the same chunks, byte for byte, in both: also where
// buckets come and go, counters are reset and start timestamps change.
func TestHistogramChunks_AreThoseOfTheReference(t *testing.T) {
	chunks, from := 0, seed(t, 7700)
	for i := range scaled(2000) {
		r := rand.New(rand.NewPCG(from, uint64(i)))
		floats, starts := i%2 > 0, i%4 > 1
		all := randomHistograms(r, floats, starts)
		// Where the chunk ends before sample n, by size or time, if not for another reason.
		n := 1 + r.IntN(30)
		want := theirHistogramChunks(t, all, n, starts)
		got := ourHistogramChunks(all, n)
		require.Len(t, got, len(want), "series %d", i)
		for j := range want {
			require.Equal(t, fmt.Sprintf("%x", want[j]), fmt.Sprintf("%x", got[j]), "series %d, chunk %d", i, j)
		}
		chunks += len(want)
	}
	require.Greater(t, chunks, scaled(2000), "some series have several")
}

func randomHistograms(r *rand.Rand, floats, starts bool) (all []histogramSample) {
	pick := histtest.Pick(r.Int64N)
	s := histogramSample{t: r.Int64N(1 << 40), ints: histtest.Draw(pick)}
	if starts {
		s.st = s.t - 1
	}
	for range 1 + r.IntN(30) {
		if s.float = nil; floats {
			s.float = histtest.Floats(s.ints)
		}
		all = append(all, s)
		s.t += r.Int64N(100_000)
		if starts && r.IntN(4) == 0 {
			s.st = s.t - r.Int64N(1<<30)
		}
		s.ints = histtest.Follow(pick, s.ints)
		if s.ints.Hint == histogram.HintReset && all[len(all)-1].ints.Hint == histogram.HintGauge {
			// The reference does not say in the header of a chunk that there was a reset if
			// the one before it had gauges. Nobody reads that; ours says it.
			s.ints.Hint = histogram.HintUnknown
		}
	}
	return all
}

func ourHistogramChunks(all []histogramSample, every int) (chunks [][]byte) {
	var e histchunk.Encoder
	add := func(s histogramSample) (histchunk.Header, bool) {
		if s.float != nil {
			return e.AppendFloat(s.t, s.st, s.float)
		}
		return e.Append(s.t, s.st, s.ints)
	}
	for i, s := range all {
		if i == every {
			chunks = append(chunks, e.AppendTo(nil))
			if s.float != nil {
				e.Reset(e.HeaderAfterFloat(s.float))
			} else {
				e.Reset(e.HeaderAfter(s.ints))
			}
		}
		if next, taken := add(s); !taken {
			chunks = append(chunks, e.AppendTo(nil))
			e.Reset(next)
			add(s)
		}
	}
	return append(chunks, e.AppendTo(nil))
}

func theirHistogramChunks(t *testing.T, all []histogramSample, every int, starts bool) (chunks [][]byte) {
	t.Helper()
	enc := theirenc.EncHistogram
	switch floats := all[0].float != nil; {
	case floats && starts:
		enc = theirenc.EncFloatHistogramST
	case floats:
		enc = theirenc.EncFloatHistogram
	case starts:
		enc = theirenc.EncHistogramST
	}
	begin := func() (theirenc.Chunk, theirenc.Appender) {
		c, err := theirenc.NewEmptyChunk(enc)
		require.NoError(t, err)
		app, err := c.Appender()
		require.NoError(t, err)
		return c, app
	}
	c, app := begin()
	for i, s := range all {
		var previous, next theirenc.Appender
		if i == every {
			chunks = append(chunks, bytes.Clone(c.Bytes()))
			previous = app
			c, app = begin()
		}
		var other theirenc.Chunk
		var recoded bool
		var err error
		if s.float != nil {
			other, recoded, next, err = app.AppendFloatHistogram(previous, s.st, s.t, theirFloatHistogram(s.float), false)
		} else {
			other, recoded, next, err = app.AppendHistogram(previous, s.st, s.t, theirHistogram(s.ints), false)
		}
		require.NoError(t, err)
		if other != nil {
			if !recoded {
				chunks = append(chunks, bytes.Clone(c.Bytes()))
			}
			c = other
		}
		app = next
	}
	return append(chunks, bytes.Clone(c.Bytes()))
}

func theirSpans(spans []histogram.Span) (out []theirhist.Span) {
	for _, s := range spans {
		out = append(out, theirhist.Span(s))
	}
	return out
}

// theirHistogram copies: the reference keeps and changes what it is given.
func theirHistogram(h *histogram.Histogram) *theirhist.Histogram {
	h = h.Copy()
	return &theirhist.Histogram{
		CounterResetHint: theirhist.CounterResetHint(h.Hint), Schema: h.Schema,
		ZeroThreshold: h.ZeroThreshold, ZeroCount: h.ZeroCount, Count: h.Count, Sum: h.Sum,
		PositiveSpans: theirSpans(h.PositiveSpans), NegativeSpans: theirSpans(h.NegativeSpans),
		PositiveBuckets: h.PositiveBuckets, NegativeBuckets: h.NegativeBuckets,
		CustomValues: h.CustomValues,
	}
}

func theirFloatHistogram(h *histogram.FloatHistogram) *theirhist.FloatHistogram {
	h = h.Copy()
	return &theirhist.FloatHistogram{
		CounterResetHint: theirhist.CounterResetHint(h.Hint), Schema: h.Schema,
		ZeroThreshold: h.ZeroThreshold, ZeroCount: h.ZeroCount, Count: h.Count, Sum: h.Sum,
		PositiveSpans: theirSpans(h.PositiveSpans), NegativeSpans: theirSpans(h.NegativeSpans),
		PositiveBuckets: h.PositiveBuckets, NegativeBuckets: h.NegativeBuckets,
		CustomValues: h.CustomValues,
	}
}
