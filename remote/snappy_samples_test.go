package remote

import (
	"bytes"
	"math"
	"math/rand"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/labels"
)

// requireBlock decodes a block that has content: with the library of the field, and with a
// reader that has no room for anything but a window, so that copies must stay in their
// pieces.
func requireBlock(t require.TestingT, content, block []byte) {
	got, err := snappy.Decode(nil, block)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, got), "%d bytes instead of %d", len(got), len(content))
	r, err := newSnappyReader(bytes.NewReader(block), 1)
	require.NoError(t, err)
	for off := 0; off < len(content); {
		b, err := r.need(1)
		require.NoError(t, err)
		require.True(t, bytes.HasPrefix(content[off:], b))
		off += len(b)
		r.skip(len(b))
	}
	require.NoError(t, r.end())
}

// madeSeries are samples of one series, and what stands in front of them.
type madeSeries struct {
	head   []byte
	labels []labels.Label
	ts     []int64
	vs     []float64
}

// blockOf encodes series, and returns what the block must hold.
func blockOf(t require.TestingT, all []madeSeries) (content, block []byte) {
	for _, s := range all {
		content = append(content, s.head...)
		content = appendLabels(content, s.labels)
		for i, ts := range s.ts {
			content = appendSample(content, ts, math.Float64bits(s.vs[i]))
		}
	}
	w := httptest.NewRecorder()
	out := newPacedWriter(w, 0)
	e, err := newBlockEncoder(out, uint64(len(content)))
	require.NoError(t, err)
	for _, s := range all {
		require.NoError(t, e.series(s.head, s.labels))
		for from := 0; from < len(s.ts); from += 1000 { // in parts, as they are read
			to := min(from+1000, len(s.ts))
			require.NoError(t, e.samples(s.ts[from:to], s.vs[from:to]))
			require.Equal(t, sizeSamples(s.ts[from:to], s.vs[from:to]), uint64(len(samplesOf(s, from, to))))
		}
	}
	require.NoError(t, e.flush())
	require.EqualValues(t, len(content), e.pos)
	require.NoError(t, out.finish(nil))
	return content, w.Body.Bytes()
}

func samplesOf(s madeSeries, from, to int) (b []byte) {
	for i := from; i < to; i++ {
		b = appendSample(b, s.ts[i], math.Float64bits(s.vs[i]))
	}
	return b
}

// Where times begin: where their size changes, at the borders of usual ones, and where
// everybody's are.
var startTimes = []int64{
	fixtureStart, fixtureStart, fixtureStart, 0, -3, 100, 1<<14 - 5, firstUsual - 40_000, endUsual - 40_000,
	math.MinInt64, math.MaxInt64 - 1<<40,
}

func drawMadeSeries(rt *rapid.T, before *madeSeries) (s madeSeries) {
	r := rand.New(rand.NewSource(rapid.Int64().Draw(rt, "seed")))
	s.head = bytes.Repeat([]byte{7}, rapid.IntRange(1, 4).Draw(rt, "head"))
	for i := range rapid.IntRange(0, 4).Draw(rt, "labels") {
		value := rapid.SampledFrom([]string{"", "x", strings.Repeat("same-as-always", 1000), "n" + strconv.Itoa(r.Intn(20)), string(bytes.Repeat([]byte("long"), r.Intn(40_000)))}).Draw(rt, "value")
		s.labels = append(s.labels, labels.Label{Name: "label" + strconv.Itoa(i), Value: value})
	}
	at := rapid.SampledFrom(startTimes).Draw(rt, "start")
	step := rapid.SampledFrom([]int64{1, 15_000, 1 << 30}).Draw(rt, "step")
	kind := rapid.IntRange(0, 5).Draw(rt, "kind")
	v := 0.0
	for i := range rapid.IntRange(1, 9000).Draw(rt, "samples") {
		if before != nil && kind < 4 && i < len(before.ts) && r.Intn(100) > 0 { // the times of another one, with holes
			at = max(at, before.ts[i])
		}
		switch kind {
		case 0: // comes back to where it was
			v = float64(r.Intn(50)) / 10
		case 1: // a counter
			v += float64(r.Intn(3))
		case 2: // mostly nothing
			v = float64(max(r.Intn(10)-8, 0))
		case 3:
			v = r.Float64()
		case 4:
			v = math.Float64frombits(r.Uint64() >> r.Intn(64))
		}
		s.ts, s.vs = append(s.ts, at), append(s.vs, v)
		if at > math.MaxInt64-step-1000 {
			break
		}
		at += step
		if kind == 4 {
			at += int64(r.Intn(1000))
		}
	}
	return s
}

func TestBlockEncoder_AnySamplesAreOneBlockOfPieces(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var all []madeSeries
		for range rapid.IntRange(1, 5).Draw(rt, "series") {
			var before *madeSeries
			if n := len(all); n > 0 && rapid.Bool().Draw(rt, "times of the one before") {
				before = &all[n-1]
			}
			all = append(all, drawMadeSeries(rt, before))
		}
		content, block := blockOf(rt, all)
		requireBlock(rt, content, block)
	})
}

// Of messages that are as long, one may have a long time and no value, and the next one a
// short time and a value.
func TestBlockEncoder_SamplesOfTheSameLengthMayBeOfDifferentKinds(t *testing.T) {
	for _, vs := range [][]float64{{0, 1.5, 1.5, 0}, {1.5, 0, 0, 1.5}} {
		s := madeSeries{ts: []int64{-2, 5, 6, 7}, vs: vs}
		content, block := blockOf(t, []madeSeries{s, s, {ts: []int64{-2, 5}, vs: []float64{vs[0], 2.5}}})
		requireBlock(t, content, block)
	}
}

// What the encoder knows of samples is worth about as much as a search: these are a
// constant, a counter, a gauge and noise.
func TestBlockEncoder_IsAsShortAsASearchMakesIt(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	var all []madeSeries
	for i := range 40 {
		s := madeSeries{head: []byte{1, 2, 3}, labels: []labels.Label{{Name: "instance", Value: strconv.Itoa(i)}, {Name: "job", Value: "api"}}}
		v := float64(r.Intn(10_000))
		for k := range 1000 {
			switch i % 4 {
			case 1:
				v += float64(r.Intn(128))
			case 2:
				v = (math.Round(v*100) + float64(r.Intn(9)-4)) / 100
			case 3:
				v = r.Float64()
			}
			s.ts, s.vs = append(s.ts, fixtureStart+int64(k)*fixtureStep), append(s.vs, v)
		}
		all = append(all, s)
	}
	content, block := blockOf(t, all)
	requireBlock(t, content, block)
	searched := snappy.Encode(nil, content)
	t.Logf("%d bytes of content, %d of a search, %d of ours", len(content), len(searched), len(block))
	require.Less(t, len(block), len(searched)*105/100)
}

func TestBlockEncoder_AllocatesNothingForASeries(t *testing.T) {
	s := madeSeries{labels: []labels.Label{{Name: "job", Value: "api"}}}
	for i := range 2000 {
		s.ts, s.vs = append(s.ts, fixtureStart+int64(i)*fixtureStep), append(s.vs, fixtureValue(0, i))
	}
	e, err := newBlockEncoder(newPacedWriter(newSink(), 0), 1<<30)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(50, func() {
		require.NoError(t, e.series(s.head, s.labels))
		require.NoError(t, e.samples(s.ts, s.vs))
	}))
}
