package memseries

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/labels"
)

var defaultCutting = Cutting{Range: 7200000, Samples: 120}

// alwaysOpen answers as if every snapshot were open.
type alwaysOpen struct{}

func (alwaysOpen) Within(uint64, uint64) bool { return true }

func newSeries(t *testing.T, d *Directory, nameValues ...string) *Series {
	s, _, err := d.GetOrCreate(labels.FromStrings(nameValues...))
	require.NoError(t, err)
	return s
}

// commit applies samples as one commit would.
func commit(d *Directory, seq, floor uint64, s *Series, t int64, v float64) {
	set := Bit(s)
	d.Shards.Lock(set)
	s.Reserve(t, math.Float64bits(v))
	d.Shards.ApplyLocked([]Sample{plain(s, t, v)}, nil, seq, floor, alwaysOpen{})
	d.Shards.Unlock(set)
}

func TestAppend_CutsChunksWhereTheFormatsWritersDo(t *testing.T) {
	raw, err := os.ReadFile("testdata/chunk_cutting.json")
	require.NoError(t, err)
	var file struct {
		Vectors []struct {
			Name       string
			Kind       string
			Timestamps [][3]int64
			ValueRule  string `json:"value_rule"`
			Chunks     [][3]int64
		}
	}
	require.NoError(t, json.Unmarshal(raw, &file))
	seen := 0
	for _, vec := range file.Vectors {
		if vec.Kind != "float" {
			continue // histograms come with their feature
		}
		seen++
		t.Run(vec.Name, func(t *testing.T) {
			d := NewDirectory(defaultCutting)
			s := newSeries(t, d, "a", "b")
			i := 0
			for _, run := range vec.Timestamps {
				for k := range run[2] {
					v := valueOf(t, vec.ValueRule, i)
					commit(d, uint64(i+1), uint64(i+1), s, run[0]+k*run[1], v)
					i++
				}
			}
			var v Excerpt
			require.True(t, d.Past(math.MaxUint64).Excerpt(s, math.MinInt64, math.MaxInt64, &v))
			var got [][3]int64
			for _, c := range v.Chunks {
				got = append(got, [3]int64{c.MinT, c.MaxT, int64(c.Num)})
			}
			require.Equal(t, vec.Chunks, got)
		})
	}
	require.GreaterOrEqual(t, seen, 10)
}

// valueOf follows the vectors' rules for values.
func valueOf(t *testing.T, rule string, i int) float64 {
	switch {
	case rule == "v = index":
		return float64(i)
	case rule == "v = constant 1":
		return 1
	case strings.HasPrefix(rule, "v = bits of index * 0x9E3779B97F4A7C15"):
		return math.Float64frombits(uint64(i)*0x9E3779B97F4A7C15&(1<<52-1) | 0x3ff<<52)
	}
	require.Fail(t, "unknown value rule", rule)
	return 0
}

func TestView_ReadsBackEverySample(t *testing.T) {
	d := NewDirectory(defaultCutting)
	s := newSeries(t, d, "a", "b")
	want := map[int64]float64{}
	for i := range 1000 {
		ts, v := int64(i)*15000, math.Sin(float64(i))
		commit(d, uint64(i+1), uint64(i+1), s, ts, v)
		want[ts] = v
	}
	require.Equal(t, want, samplesOf(t, d, s, math.MaxUint64))

	// The same when the full chunks have been given away.
	stored := map[chunks.Ref][]byte{}
	fulls, next := d.Shelf.Collect(nil, 0, math.MaxInt)
	require.Equal(t, NumShards, next)
	require.NotEmpty(t, fulls)
	refs := make([]chunks.Ref, len(fulls))
	for i, f := range fulls {
		refs[i] = chunks.Ref(i + 1)
		stored[refs[i]] = append([]byte(nil), f.Data...)
	}
	d.Shelf.Written(fulls, refs)
	require.Zero(t, d.Shelf.Bytes())
	var v Excerpt
	require.True(t, d.Past(math.MaxUint64).Excerpt(s, math.MinInt64, math.MaxInt64, &v))
	got := map[int64]float64{}
	for _, c := range v.Chunks {
		data := stored[c.Ref]
		if c.Ref == 0 {
			data = v.Data(c)
		}
		decodeInto(t, got, data, v.Maxt)
	}
	require.Equal(t, want, got)
}

func TestVisible_ASnapshotSeesWhatWasAppliedWhenItWasOpened(t *testing.T) {
	d := NewDirectory(defaultCutting)
	s := newSeries(t, d, "a", "b")
	const n = 600
	for i := range n {
		commit(d, uint64(i+1), 0, s, int64(i)*1000, float64(i)) // floor 0: all snapshots are open
	}
	for snapshot := range uint64(n + 1) {
		require.Len(t, samplesOf(t, d, s, snapshot), int(snapshot), "snapshot %d", snapshot)
	}
	d.Shards.SweepMarks(n)
	require.Empty(t, d.Shards.of(s).mu.marks)
	require.Len(t, samplesOf(t, d, s, n), n)
}

func TestVisible_WithoutSnapshotsNothingIsMarked(t *testing.T) {
	d := NewDirectory(defaultCutting)
	s := newSeries(t, d, "a", "b")
	for i := range 100 {
		commit(d, uint64(i+1), uint64(i), s, int64(i), 1)
	}
	require.Empty(t, d.Shards.of(s).mu.marks)
}

func samplesOf(t *testing.T, d *Directory, s *Series, snapshot uint64) map[int64]float64 {
	var v Excerpt
	got := map[int64]float64{}
	d.Past(snapshot).Excerpt(s, math.MinInt64, math.MaxInt64, &v)
	for _, c := range v.Chunks {
		require.Zero(t, c.Ref)
		decodeInto(t, got, v.Data(c), v.Maxt)
	}
	return got
}

func decodeInto(t require.TestingT, dst map[int64]float64, data []byte, maxt int64) {
	c, err := chunkenc.FromData(chunkenc.EncXOR, data)
	require.NoError(t, err)
	it := c.Iterator(nil)
	for it.Next() != chunkenc.ValNone {
		if ts, v := it.At(); ts <= maxt {
			dst[ts] = v
		}
	}
	require.NoError(t, it.Err())
}

// plain returns a float on its way to its series.
func plain(s *Series, t int64, v float64) Sample {
	return Sample{Series: s, T: t, Sum: math.Float64bits(v), Encoding: chunkenc.EncXOR}
}
