package tsdb_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// histogramChunk makes a chunk of two samples that are alike; an encoder trusts what it is given.
func histogramChunk(t *testing.T, h *histogram.Histogram, at int64, floats, starts bool) *oddChunk {
	var enc chunkenc.Encoder
	c := &oddChunk{samples: []point{{T: at}, {T: at + minute}}}
	for _, p := range c.samples {
		st := int64(0)
		if starts {
			st = at - minute
		}
		if floats {
			require.NoError(t, enc.AppendFloatHistogram(p.T, h.ToFloat(nil), st))
		} else {
			require.NoError(t, enc.AppendHistogram(p.T, h, st))
		}
	}
	c.encoded = &blockdir.Chunk{Encoding: enc.Encoding(), Data: enc.AppendTo(nil)}
	return c
}

// A chunk of somebody else says where its buckets are. Where that makes no sense it is damage like
// any other: it costs the chunk, and is told.
func TestForeignBlocks_AHistogramChunkWhoseLayoutMakesNoSenseIsDamage(t *testing.T) {
	custom := func(length uint32, bounds ...float64) *histogram.Histogram {
		return &histogram.Histogram{
			Schema: histogram.CustomBuckets, PositiveSpans: []histogram.Span{{Length: length}},
			PositiveBuckets: make([]int64, length), CustomValues: bounds,
		}
	}
	for want, odd := range map[error]*histogram.Histogram{
		histogram.ErrCustomBucketsInvalid:  custom(1, 1, 3, 2),
		histogram.ErrCustomBucketsNaN:      custom(1, math.NaN()),
		histogram.ErrCustomBucketsInfinite: custom(1, 1, math.Inf(1)),
		histogram.ErrCustomBucketsMismatch: custom(3, 1),
		histogram.ErrSpanOverflow: {
			PositiveSpans: []histogram.Span{{Offset: math.MaxInt32, Length: 2}}, PositiveBuckets: []int64{0, 0},
		},
		histogram.ErrSpanNegativeOffset: {
			NegativeSpans: []histogram.Span{{Length: 1}, {Offset: -1, Length: 1}}, NegativeBuckets: []int64{0, 0},
		},
	} {
		for n := range 4 {
			floats, starts := n&1 != 0, n&2 != 0
			t.Run(fmt.Sprintf("%v, %v, %v", want, floats, starts), func(t *testing.T) {
				base := testNow.UnixMilli()/(2*hour)*(2*hour) - 10*hour
				good := histogramChunk(t, bucketed(1, 2), base, floats, starts)
				bad := histogramChunk(t, odd, base+10*minute, floats, starts)
				last := histogramChunk(t, bucketed(3, 4), base+20*minute, floats, starts)
				requireLayoutDamage(t, want, base, good, bad, last)
			})
		}
	}
}

// requireLayoutDamage puts three chunks, the second of which is damaged, into a block.
func requireLayoutDamage(t *testing.T, want error, base int64, good, bad, last *oddChunk) {
	block := func(n int64, series ...oddSeries) *oddBlock {
		return &oddBlock{id: ulid.MustNew(uint64(base+n), nil), mint: base, maxt: base + 2*hour, series: series}
	}
	whole := &oddChunk{samples: []point{{base, math.Float64bits(1)}, {base + hour, math.Float64bits(2)}}}
	b := block(1, oddSeries{labels: [][2]string{{"a", "b"}}, chunks: []*oddChunk{good, bad, last}},
		oddSeries{labels: [][2]string{{"a", "c"}}, chunks: []*oddChunk{whole}})
	fs := tsdbtest.NewMemFS()
	require.NoError(t, b.write(fs, fixtureDir))
	file := fmt.Sprintf("%s/chunks/000001", b.id)

	report := verify(t, fs)
	require.False(t, report.Clean())
	damages := findings(report, tsdb.SeverityDamage)
	require.Len(t, damages, 1, "%+v", report.Findings)
	require.Contains(t, damages[0].File, file)
	require.EqualValues(t, bad.ref, damages[0].Offset)
	require.Contains(t, damages[0].What, want.Error())

	// A query gives what is in front of it, and says where it is; a merge says so, too.
	beside := block(2, oddSeries{labels: [][2]string{{"a", "b"}}, chunks: []*oddChunk{{samples: []point{{base + hour, 0}}}}})
	require.NoError(t, beside.write(fs, fixtureDir))
	db := openWorld(t, fs)
	got, err := readDamaged(t, db)
	requireSame(t, good.all(t), got[`{a="b"}`], "in front of the damage")
	requireSame(t, whole.all(t), got[`{a="c"}`], "beside it")
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	require.ErrorContains(t, err, file)
	require.ErrorContains(t, err, want.Error())
	err = db.Compact(ctx)
	require.ErrorIs(t, err, tsdb.ErrCorrupt)
	require.ErrorContains(t, err, file)
	require.NoError(t, db.Close())

	r := repair(t, fs, nil)
	require.Len(t, r.Blocks, 1)
	require.NoError(t, r.Blocks[0].Err)
	require.EqualValues(t, []uint64{1, 2}, []uint64{uint64(r.Blocks[0].LostChunks), uint64(r.Blocks[0].LostSamples)})
	require.True(t, verify(t, fs).Clean())
	db = openWorld(t, fs)
	left := slices.Concat(good.all(t), last.all(t), beside.series[0].chunks[0].all(t))
	requireAny(t, db, map[string][]anySample{`{a="b"}`: left, `{a="c"}`: whole.all(t)}, math.MinInt64, math.MaxInt64)
	require.NoError(t, db.Close())
}

// all returns the samples of a chunk, as a decoder gives them.
func (c *oddChunk) all(t *testing.T) []anySample {
	enc, data := c.encode()
	chunk, err := chunkenc.FromData(enc, data)
	require.NoError(t, err)
	it := chunk.Iterator(nil)
	all := anyReaders["one by one"](it)
	require.NoError(t, it.Err())
	return all
}

// readDamaged reads all there is, up to what is damaged in a series.
func readDamaged(t *testing.T, db *tsdb.DB) (all map[string][]anySample, damage error) {
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	all = map[string][]anySample{}
	for s, err := range q.Select(ctx, nil).All() {
		require.NoError(t, err)
		it := s.Iterator(nil)
		all[s.Labels().String()] = anyReaders["one by one"](it)
		damage = errors.Join(damage, it.Err())
	}
	return all, damage
}
