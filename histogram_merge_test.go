package tsdb_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/histchunk"
	"github.com/seed347100a3/tsdb/internal/histtest"
)

// Series of several blocks, whose chunks overlap or not, with what another engine made of them: the
// samples that a query gives, and the chunks of the block that they are merged to. A sample is
// written as its minute, its value, and what is known of resets: 3:h2N.

// hintLetters are unknown, reset, not reset, gauge.
const hintLetters = "URNG"

// firstMinute is minute 0 of the vectors.
const firstMinute = 1_699_999_200_000

func sampleText(t int64, name string, hint histogram.ResetHint) string {
	return fmt.Sprintf("%d:%s%c", (t-firstMinute)/minute, name, hintLetters[hint])
}

// mergeSample is a sample of a vector.
type mergeSample struct {
	t int64
	sequenceValue
}

func (s *mergeSample) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&s.t, &s.sequenceValue})
}

type mergeVector struct {
	Name    string
	Series  [][][]mergeSample
	Samples []mergeSample
	Chunks  []struct {
		Encoding chunkenc.Encoding
		Header   string
		Decoded  []mergeSample
	}
}

// mergeDifference is where the database makes something else, and why.
type mergeDifference struct{ why, samples, chunks string }

// Why something else is made.
const (
	mergeJoins    = "small chunks beside each other become one, with hints that hold"
	mergeFirst    = "of two values of one time that of the first block counts"
	mergeCompares = "what overlaps is compared with the sample in front of it: more is promised, and it holds"
)

var mergeDifferences = map[string]mergeDifference{
	"disjoint": {why: mergeJoins, chunks: "1 1:3ff0000000000000U 2:4000000000000000U 3:4008000000000000U"},
	"run-of-overlaps": {
		why: mergeJoins,
		chunks: "1 1:3ff0000000000000U 2:4000000000000000U 3:4008000000000000U 6:4018000000000000U 7:401c000000000000U " +
			"8:4020000000000000U 10:4024000000000000U",
	},
	"histograms-layout":    {why: mergeJoins, chunks: "2 unknown 1:h1U 2:h8N, 2 reset 3:h3U 4:h9N"},
	"explicit-reset-hints": {why: mergeJoins, chunks: "2 unknown 1:h1U 2:h2N 3:h3N 4:h4N"},
	"gauges":               {why: mergeJoins, chunks: "2 gauge 1:h1G 2:h10G 3:h3G 4:h11G"},
	"stale":                {why: mergeJoins, chunks: "2 unknown 1:h1U 2:h2N 3:h16U, 2 unknown 4:h4U"},
	"adjacent-histogram-chunks": {
		why: mergeJoins, samples: "1:h1U 2:h2N 3:h3U 4:h1U", chunks: "2 unknown 1:h1U 2:h2N 3:h3N, 2 reset 4:h1U",
	},
	"shared-time-other-value": {
		why: mergeFirst, samples: "1:3ff0000000000000U 2:4000000000000000U 3:4008000000000000U",
		chunks: "1 1:3ff0000000000000U 2:4000000000000000U 3:4008000000000000U",
	},
	"three-series": {
		why: mergeFirst, samples: "1:3ff0000000000000U 2:4000000000000000U 3:4008000000000000U 4:4010000000000000U",
		chunks: "1 1:3ff0000000000000U 2:4000000000000000U 3:4008000000000000U 4:4010000000000000U",
	},
	"histograms-shared-time": {why: mergeFirst, samples: "1:h1U 2:h2N 3:h5N", chunks: "2 unknown 1:h1U 2:h2N 3:h5N"},
	"kind-at-the-same-time": {
		why: mergeFirst, samples: "1:3ff0000000000000U 2:4000000000000000U 3:h3U",
		chunks: "1 1:3ff0000000000000U 2:4000000000000000U, 2 unknown 3:h3U",
	},
	"kind-at-the-same-time-swapped": {why: mergeCompares, samples: "1:3ff0000000000000U 2:h2U 3:h3N"},
	"histograms-interleaved":        {why: mergeCompares, samples: "1:h1U 2:h2N 3:h3N 4:h4N"},
	"histograms-reset-by-merging":   {why: mergeCompares, samples: "1:h1U 2:h5N 3:h3U 4:h6N"},
}

// merging plays one vector.
type merging struct {
	*mergeTest
	values sequencePlayer // knows histograms by name
	v      *mergeVector
}

// encode makes a chunk of a vector's samples.
func (m *merging) encode(samples []mergeSample) blockdir.Chunk {
	var enc chunkenc.Encoder
	for _, s := range samples {
		var err error
		switch {
		case s.name[0] == 'h' && m.values.histograms[s.name] != nil:
			h := m.values.integer(s.name)
			h.Hint = s.hint
			err = enc.AppendHistogram(s.t, h, 0)
		case m.values.histograms[s.name] != nil:
			h := m.values.float(s.name)
			h.Hint = s.hint
			err = enc.AppendFloatHistogram(s.t, h, 0)
		default:
			var v histtest.Bits
			require.NoError(m, v.UnmarshalText([]byte(s.name)))
			err = enc.Append(s.t, float64(v), 0)
		}
		require.NoError(m, err)
	}
	return blockdir.Chunk{MinT: samples[0].t, MaxT: samples[len(samples)-1].t, Num: enc.Len(), Encoding: enc.Encoding(), Data: enc.AppendTo(nil)}
}

// blocks makes a block of each series.
func (m *merging) blocks() {
	mint, maxt := int64(math.MaxInt64), int64(math.MinInt64)
	var inputs [][]blockdir.Chunk
	for _, of := range m.v.Series {
		var list []blockdir.Chunk
		for _, samples := range of {
			c := m.encode(samples)
			mint, maxt, list = min(mint, c.MinT), max(maxt, c.MaxT), append(list, c)
		}
		inputs = append(inputs, list)
	}
	for _, list := range inputs {
		m.block(mint, maxt+1, only(m, `{a="b"}`, list...))
	}
}

// text writes samples of the vector, histograms by the name that all that say the same have.
func (m *merging) text(samples []mergeSample) string {
	var list []string
	for _, s := range samples {
		list = append(list, sampleText(s.t, m.values.canonical(s.name), s.hint))
	}
	return strings.Join(list, " ")
}

func (m *merging) textOf(it chunkenc.Iterator) string {
	var list []string
	all := anyReaders["one by one"](it)
	requirePromises(m, all)
	for _, s := range all {
		list = append(list, sampleText(s.T, m.values.nameOf(&s), hintOf(&s)))
	}
	require.NoError(m, it.Err())
	return strings.Join(list, " ")
}

// hintOf returns what is known of a sample, nothing of floats.
func hintOf(s *anySample) histogram.ResetHint {
	switch {
	case s.H != nil:
		return s.H.Hint
	case s.FH != nil:
		return s.FH.Hint
	default:
		return histogram.HintUnknown
	}
}

// headerText is the header of a chunk as vectors write it; floats have none.
func headerText(t testing.TB, enc chunkenc.Encoding, data []byte) string {
	if !histchunk.Known(uint8(enc)) {
		return ""
	}
	var d histchunk.Decoder
	require.NoError(t, d.Reset(uint8(enc), data))
	return strings.ReplaceAll(d.Header().String(), " ", "_")
}

// read returns what queries give while the blocks overlap.
func (m *merging) read() (text string) {
	db, err := tsdb.Open("data", &tsdb.Options{FS: m.fs.KillClone(), Clock: m.clock, Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(m, err)
	defer func() { require.NoError(m, db.Close()) }()
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(m, err)
	defer func() { require.NoError(m, q.Close()) }()
	for s, err := range q.Select(ctx, nil).All() {
		require.NoError(m, err)
		text += m.textOf(s.Iterator(nil))
	}
	return text
}

// merged returns the chunks of the block that the blocks are merged to.
func (m *merging) merged() string {
	d, _ := m.merge()
	var list []string
	for _, c := range blockChunks(m, d)[`{a="b"}`] {
		chunk, err := chunkenc.FromData(c.Encoding, c.Data)
		require.NoError(m, err)
		list = append(list, chunkText(c.Encoding, headerText(m, c.Encoding, c.Data), m.textOf(chunk.Iterator(nil))))
	}
	return strings.Join(list, ", ")
}

func chunkText(enc chunkenc.Encoding, header, samples string) string {
	return strings.TrimSpace(fmt.Sprintf("%d %s", enc, header)) + " " + samples
}

func TestHistogramMerge_IsAsThatOfAnotherEngine(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "histogram_merge.json"))
	require.NoError(t, err)
	var file struct {
		Vectors    []mergeVector
		Histograms map[string]json.RawMessage
	}
	require.NoError(t, json.Unmarshal(text, &file))
	require.Len(t, file.Vectors, 23)
	var differ []string
	for i := range file.Vectors {
		v := &file.Vectors[i]
		t.Run(v.Name, func(t *testing.T) {
			m := &merging{mergeTest: newMergeTest(t), v: v, values: sequencePlayer{T: t, histograms: file.Histograms}}
			m.blocks()
			samples, chunks := m.text(v.Samples), []string{}
			for _, c := range v.Chunks {
				chunks = append(chunks, chunkText(c.Encoding, c.Header, m.text(c.Decoded)))
			}
			got := mergeDifference{samples: m.read(), chunks: m.merged()}
			if got.samples == samples {
				got.samples = ""
			}
			if got.chunks == strings.Join(chunks, ", ") {
				got.chunks = ""
			}
			if got != (mergeDifference{}) {
				differ = append(differ, v.Name)
				got.why = mergeDifferences[v.Name].why
			}
			require.Equal(t, mergeDifferences[v.Name], got, "samples %s; chunks %s", samples, strings.Join(chunks, ", "))
		})
	}
	require.Len(t, mergeDifferences, len(differ))
	require.False(t, slices.ContainsFunc(differ, func(name string) bool { return mergeDifferences[name].why == "" }))
}
