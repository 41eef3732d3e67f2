package samplemerge

import (
	stderrors "errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// sample is one of a source; values are compared by their bits.
type sample struct {
	t, st  int64
	v      uint64 // bits of a float, or of the sum of a histogram
	source int
	kind   chunkenc.ValueType
}

// chunks is a source of chunks that are at hand.
type chunks struct {
	left  []Chunk
	err   error // behind them
	skips bool  // what ends before from is passed over
}

func (c *chunks) Next(from int64, out *Chunk) (bool, error) {
	for c.skips && len(c.left) > 0 && c.left[0].MaxT < from {
		c.left = c.left[1:]
	}
	if len(c.left) == 0 {
		return false, c.err
	}
	*out = c.left[0]
	c.left = c.left[1:]
	return true, nil
}

func (c *chunks) Place(err error) error {
	return errors.WithMessagef(err, "with %d chunks left", len(c.left))
}

// encode makes a chunk of all samples, as XOR2 if that is asked for or one has a start timestamp.
func encode(t require.TestingT, second bool, samples []sample) Chunk {
	c := Chunk{Encoding: chunkenc.EncXOR2, MinT: samples[0].t, MaxT: samples[len(samples)-1].t, Bounds: Everything()}
	if samples[0].kind != chunkenc.ValFloat {
		c.Encoding, c.Data = encodeHistograms(t, samples)
		return c
	}
	var xor2 xorchunk.Encoder2
	var floats chunkenc.Encoder
	for _, s := range samples {
		require.NoError(t, floats.Append(s.t, math.Float64frombits(s.v), s.st))
		require.NoError(t, xor2.Append(s.t, math.Float64frombits(s.v), s.st))
	}
	c.Data = xor2.AppendTo(nil)
	if !second {
		c.Encoding, c.Data = floats.Encoding(), floats.AppendTo(nil)
	}
	return c
}

// encodeHistograms makes a chunk of gauges, any of which can be behind any other one.
func encodeHistograms(t require.TestingT, samples []sample) (chunkenc.Encoding, []byte) {
	var enc chunkenc.Encoder
	for _, s := range samples {
		h := histogram.Histogram{Hint: histogram.HintGauge, Count: 3, ZeroCount: 3, Sum: math.Float64frombits(s.v)}
		if s.kind == chunkenc.ValHistogram {
			require.NoError(t, enc.AppendHistogram(s.t, &h, s.st))
			continue
		}
		var floats histogram.FloatHistogram
		h.ToFloat(&floats)
		require.NoError(t, enc.AppendFloatHistogram(s.t, &floats, s.st))
	}
	return enc.Encoding(), enc.AppendTo(nil)
}

// decoded turns a chunk of floats into one of samples.
func decoded(t require.TestingT, c Chunk) Chunk {
	c.Samples = &chunkenc.Batch{}
	for _, s := range samplesOf(t, &c) {
		one := chunkenc.Batch{T: []int64{s.t}, V: []float64{math.Float64frombits(s.v)}}
		if s.st != 0 {
			one.ST = []int64{s.st}
		}
		c.Samples.Append(&one, 0, 1)
	}
	c.Encoding, c.Data = chunkenc.EncNone, nil
	return c
}

// samplesOf returns all samples of a chunk.
func samplesOf(t require.TestingT, c *Chunk) (all []sample) {
	if c.Data == nil {
		return samplesIn(c.Samples)
	}
	chunk, err := chunkenc.FromData(c.Encoding, c.Data)
	require.NoError(t, err)
	it := chunk.Iterator(nil)
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		s := sample{t: it.AtT(), st: it.AtST(), kind: kind}
		if kind == chunkenc.ValFloat {
			_, v := it.At()
			s.v = math.Float64bits(v)
		} else {
			var h histogram.FloatHistogram
			it.AtFloatHistogram(&h)
			s.v = math.Float64bits(h.Sum)
		}
		s.source = int(s.v >> 32)
		all = append(all, s)
	}
	require.NoError(t, it.Err())
	return all
}

// ramp makes n samples from t on, step apart.
func ramp(source int, t int64, n int, step int64) (samples []sample) {
	for range n {
		samples = append(samples, sample{t: t, v: math.Float64bits(float64(t)), source: source, kind: chunkenc.ValFloat})
		t += step
	}
	return samples
}

// drawChunk draws a chunk that begins behind a time, and what of its samples counts.
func drawChunk(t *rapid.T, source int, behind int64) (c Chunk, kept []sample) {
	at := behind + rapid.SampledFrom([]int64{1, 1, 2, 50, 1000}).Draw(t, "gap")
	n := rapid.SampledFrom([]int{1, 2, 3, 30, 120, 255, 256, 257, 600}).Draw(t, "samples")
	step := rapid.SampledFrom([]int64{1, 1, 2, 15}).Draw(t, "step")
	started := rapid.IntRange(0, 3).Draw(t, "started") == 0
	samples := ramp(source, at, n, step)
	kind := rapid.SampledFrom([]chunkenc.ValueType{chunkenc.ValFloat, chunkenc.ValFloat, chunkenc.ValHistogram, chunkenc.ValFloatHistogram}).Draw(t, "kind")
	for i := range samples {
		samples[i].kind = kind
		samples[i].v = uint64(source)<<32 | uint64(i)
		if started && i%3 == 1 {
			samples[i].st = samples[i].t - 5
		}
	}
	c = encode(t, rapid.Bool().Draw(t, "second"), samples)
	if kind == chunkenc.ValFloat && rapid.IntRange(0, 3).Draw(t, "decoded") == 0 {
		c = decoded(t, c)
	}
	if rapid.IntRange(0, 3).Draw(t, "cut") == 0 {
		c.From = at + rapid.Int64Range(-2, 400).Draw(t, "from")
		c.To = c.From + rapid.Int64Range(-1, 400).Draw(t, "length")
	}
	for range rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "deletes") {
		mint := at + rapid.Int64Range(-2, 700).Draw(t, "mint")
		c.Deleted = c.Deleted.Add(tombstones.Interval{Mint: mint, Maxt: mint + rapid.Int64Range(0, 300).Draw(t, "deleted")})
	}
	for _, s := range samples {
		if s.t >= c.From && s.t <= c.To && !c.Deleted.Covers(s.t) {
			kept = append(kept, s)
		}
	}
	return c, kept
}

// samplesIn returns the samples of a batch; which source they are of is in their values.
func samplesIn(b *chunkenc.Batch) (all []sample) {
	for i, ts := range b.T {
		v := math.Float64bits(b.V[i])
		all = append(all, sample{t: ts, st: b.StartOf(i), v: v, source: int(v >> 32), kind: chunkenc.ValFloat})
	}
	return all
}

// read reads all samples.
func read(t require.TestingT, m *Merger, room int) (all []sample) {
	for b := chunkenc.NewBatch(room); ; {
		stop, err := m.Next(b)
		require.NoError(t, err)
		require.LessOrEqual(t, b.Len(), room)
		all = append(all, samplesIn(b)...)
		switch {
		case stop == AtOther:
			all = append(all, takeOther(t, m))
		case b.Len() == 0:
			return all
		}
	}
}

// takeOther takes the histogram at which a merger stands.
func takeOther(t require.TestingT, m *Merger) sample {
	peeked, err := m.Peek()
	require.NoError(t, err)
	require.Equal(t, AtOther, peeked)
	d := m.Other()
	var h histogram.FloatHistogram
	d.FloatHistogram(&h)
	require.EqualValues(t, 3, h.Count)
	v := math.Float64bits(h.Sum)
	s := sample{t: d.T(), st: d.ST(), v: v, source: int(v >> 32), kind: d.Kind()}
	m.Take()
	return s
}

// However many sources there are, of whichever encoding, wherever they overlap, whatever is deleted
// of them or out of bounds: what comes is a sort of all samples.
func TestMerger_EqualsASortOfAllSamples(t *testing.T) {
	var m Merger // keeps its memory
	rapid.Check(t, func(t *rapid.T) {
		sources, all := drawSources(t)
		room := rapid.SampledFrom([]int{1, 2, 7, 120, 256}).Draw(t, "room")
		for _, m.Repeats = range []bool{true, false} {
			m.Reset()
			for _, of := range sources {
				require.NoError(t, m.Add(&chunks{left: of}))
			}
			require.Equal(t, sorted(all, m.Repeats), read(t, &m, room))
		}
	})
}

// drawSources draws sources, and all of their samples that count.
func drawSources(t *rapid.T) (sources [][]Chunk, all []sample) {
	for source := range rapid.IntRange(0, 9).Draw(t, "sources") {
		var of []Chunk
		behind := rapid.Int64Range(-100, 500).Draw(t, "behind")
		for range rapid.IntRange(0, 4).Draw(t, "chunks") {
			c, kept := drawChunk(t, source, behind)
			of, behind = append(of, c), c.MaxT
			all = append(all, kept...)
		}
		sources = append(sources, of)
	}
	return sources, all
}

// sorted returns samples by time, those of one time by source: all of them, or the first.
func sorted(all []sample, repeats bool) []sample {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b sample) int {
		if a.t != b.t {
			return int(a.t - b.t)
		}
		return a.source - b.source
	})
	if repeats {
		return all
	}
	return slices.CompactFunc(all, func(a, b sample) bool { return a.t == b.t })
}

// Every way in which three sources have some of four times, four of three, and five of two: floats,
// and histograms in every second source, in all of them.
func TestMerger_AllWaysToShareAFewTimes_EqualTheSort(t *testing.T) {
	var m Merger
	for sources, times := range map[int]int64{3: 4, 4: 3, 5: 2} {
		for histograms := range 3 {
			of := make([][][]sample, sources) // a source, and a set of times each
			encoded := make([][]Chunk, sources)
			for source := range of {
				kind := chunkenc.ValFloat
				if histograms == 2 || histograms == 1 && source%2 == 0 {
					kind = chunkenc.ValHistogram
				}
				for set := 1; set < 1<<times; set++ {
					var samples []sample
					for at := range times {
						if set>>at&1 == 1 {
							samples = append(samples, sample{t: at, v: uint64(source) << 32, source: source, kind: kind})
						}
					}
					of[source] = append(of[source], samples)
					encoded[source] = append(encoded[source], encode(t, false, samples))
				}
			}
			pick := make([]int, sources)
			for more := true; more; more = nextPick(pick, len(of[0])) {
				for _, m.Repeats = range []bool{false, true} {
					m.Reset()
					var all []sample
					for source, set := range pick {
						all = append(all, of[source][set]...)
						require.NoError(t, m.Add(&chunks{left: encoded[source][set : set+1]}))
					}
					require.Equal(t, sorted(all, m.Repeats), read(t, &m, 3), pick)
				}
			}
		}
	}
}

// A look at what comes next, when a sample of one time was given, does not change the order of what
// comes then.
func TestMerger_PeekBehindAGivenTime_KeepsTheOrder(t *testing.T) {
	first := sample{t: 10, v: 0, kind: chunkenc.ValHistogram}
	floats := append(ramp(0, 5, 2, 5), ramp(0, 30, 1, 1)...)
	var m Merger
	require.NoError(t, m.Add(&chunks{left: []Chunk{encode(t, false, []sample{first})}}))
	require.NoError(t, m.Add(&chunks{left: []Chunk{encode(t, false, floats)}}))
	require.NoError(t, m.Add(&chunks{left: []Chunk{encode(t, false, ramp(0, 20, 1, 1))}}))
	b := chunkenc.NewBatch(9)
	stop, err := m.Next(b)
	require.NoError(t, err)
	require.Equal(t, AtOther, stop)
	require.Equal(t, []int64{5}, b.T)
	require.Equal(t, first, takeOther(t, &m))
	_, err = m.Peek()
	require.NoError(t, err)
	_, err = m.Next(b)
	require.NoError(t, err)
	require.Equal(t, []int64{20, 30}, b.T)
}

// nextPick counts on, in numbers below n; false: from the beginning again.
func nextPick(pick []int, n int) bool {
	for i := range pick {
		if pick[i]++; pick[i] < n {
			return true
		}
		pick[i] = 0
	}
	return false
}

func TestMerger_AtTheEndsOfTime(t *testing.T) {
	var m Merger
	at := func(source int, ts ...int64) (samples []sample) {
		for _, ts := range ts {
			samples = append(samples, sample{t: ts, v: uint64(source) << 32, source: source, kind: chunkenc.ValFloat})
		}
		return samples
	}
	for _, samples := range [][]sample{
		at(0, math.MinInt64, math.MaxInt64), at(1, math.MinInt64, 0, math.MaxInt64-1, math.MaxInt64), at(2, math.MaxInt64),
	} {
		require.NoError(t, m.Add(&chunks{left: []Chunk{encode(t, true, samples)}}))
	}
	require.Equal(t, slices.Concat(at(0, math.MinInt64), at(1, 0, math.MaxInt64-1), at(0, math.MaxInt64)), read(t, &m, 2))
}

// Damage comes behind the samples before it, and says where it is; so does what a source says.
func TestMerger_DamageIsPlacedByItsSource(t *testing.T) {
	good := encode(t, false, ramp(0, 0, 3, 10))
	for name, c := range map[string]struct {
		spoil func(c *Chunk)
		want  error
	}{
		"late":             {func(c *Chunk) { c.MaxT-- }, encbuf.ErrCorrupt},
		"early":            {func(c *Chunk) { c.MinT++ }, encbuf.ErrCorrupt},
		"no samples":       {func(c *Chunk) { c.Data = []byte{0, 0} }, encbuf.ErrCorrupt},
		"cut":              {func(c *Chunk) { c.Data = c.Data[:3] }, encbuf.ErrCorrupt},
		"unknown encoding": {func(c *Chunk) { c.Encoding = 7 }, chunkenc.ErrUnknownEncoding},
	} {
		t.Run(name, func(t *testing.T) {
			bad := encode(t, false, ramp(0, 100, 3, 10))
			c.spoil(&bad)
			var m Merger
			var b chunkenc.Batch
			require.NoError(t, m.Add(&chunks{left: []Chunk{bad}}))
			_, err := m.Next(&b)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, "with 0 chunks left")

			m.Reset()
			require.NoError(t, m.Add(&chunks{left: []Chunk{good, bad, good}}))
			_, err = m.Next(&b)
			require.Equal(t, []int64{0, 10, 20}, b.T)
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, "with 1 chunks left")
		})
	}
	failed := stderrors.New("cannot be read")
	var m Merger
	require.ErrorIs(t, m.Add(&chunks{err: failed}), failed)
	m.Reset()
	require.NoError(t, m.Add(&chunks{left: []Chunk{good}, err: failed}))
	var b chunkenc.Batch
	_, err := m.Next(&b)
	require.Equal(t, failed, err)
	require.Equal(t, []int64{0, 10, 20}, b.T)
}

// A chunk whose samples do not ascend is damage, whatever its bounds say.
func TestRuns_SamplesThatDoNotAscend_AreDamage(t *testing.T) {
	for name, ts := range map[string][]int64{"backwards": {1, 3, 2}, "twice": {1, 1, 3}, "twice the first": {0, 0, 3}} {
		t.Run(name, func(t *testing.T) {
			var enc xorchunk.Encoder
			for _, ts := range ts {
				require.NoError(t, enc.Append(ts, 1))
			}
			var r Runs
			var b chunkenc.Batch
			require.NoError(t, r.Reset(&Chunk{Encoding: chunkenc.EncXOR, Data: enc.AppendTo(nil), MaxT: 3}))
			require.ErrorIs(t, r.Next(&b), encbuf.ErrCorrupt)
		})
	}
}

func TestMerger_AllocatesNothingOnceItIsWarm(t *testing.T) {
	var m Merger
	var b chunkenc.Batch
	var sources [5]chunks
	var of [5][]Chunk
	for i := range sources {
		of[i] = []Chunk{encode(t, false, ramp(0, int64(i), 120, 3)), encode(t, true, ramp(0, 1000, 400, 2))}
	}
	require.Zero(t, testing.AllocsPerRun(10, func() {
		m.Reset()
		for i := range sources {
			sources[i].left = of[i]
			if err := m.Add(&sources[i]); err != nil {
				panic(err)
			}
		}
		for {
			if _, err := m.Next(&b); err != nil {
				panic(err)
			}
			if b.Len() == 0 {
				return
			}
		}
	}))
}

// BenchmarkMerger merges sources that take turns: sample by sample, or in runs of a hundred.
func BenchmarkMerger(b *testing.B) {
	for _, sources := range []int{2, 3, 10, 100} {
		for _, length := range []int64{1, 100} {
			b.Run(fmt.Sprintf("sources=%d,runs=%d", sources, length), func(b *testing.B) {
				const perChunk = 120
				list := make([]chunks, sources)
				of := make([][]Chunk, sources)
				for i := range of {
					var samples []sample
					for k := range int64(perChunk) {
						turn := k/length*int64(sources) + int64(i)
						samples = append(samples, sample{t: turn*length + k%length, v: uint64(k), kind: chunkenc.ValFloat})
					}
					of[i] = []Chunk{encode(b, false, samples)}
				}
				var m Merger
				var batch chunkenc.Batch
				b.ReportAllocs()
				for b.Loop() {
					m.Reset()
					for i := range list {
						list[i].left = of[i]
						if err := m.Add(&list[i]); err != nil {
							b.Fatal(err)
						}
					}
					for batch.Cut(0); ; {
						if _, err := m.Next(&batch); err != nil {
							b.Fatal(err)
						}
						if batch.Len() == 0 {
							break
						}
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*sources*perChunk), "ns/sample")
			})
		}
	}
}

// Who needs no more of a chunk begins the next one: nothing of the first comes behind that.
func TestRuns_AChunkThatWasReadInPart_IsOver(t *testing.T) {
	long := encode(t, false, ramp(0, 0, 600, 1))
	short := decoded(t, encode(t, false, ramp(0, 1000, 3, 1)))
	var r Runs
	var b chunkenc.Batch
	require.NoError(t, r.Reset(&long))
	require.NoError(t, r.Next(&b))
	require.Less(t, b.Len(), 600)
	require.NoError(t, r.Reset(&short))
	require.NoError(t, r.Next(&b))
	require.Equal(t, []int64{1000, 1001, 1002}, b.T)
	require.NoError(t, r.Next(&b))
	require.Zero(t, b.Len())
}
