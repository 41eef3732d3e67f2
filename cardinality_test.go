package tsdb_test

import (
	"context"
	"fmt"
	"io/fs"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// cardinalityFixture is a block and a head: up of three instances, and one series for each
// of four versions, of which each lives a quarter of four hours.
func cardinalityFixture(t *testing.T) *fixture {
	f := newFixture(t, manual)
	base := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	for part := range int64(4) {
		for m := range int64(60) {
			ts := base - 4*hour + part*hour + m*minute
			rows := []sample{{fmt.Sprintf(`{__name__="build", version="v%d"}`, part), ts, 1}}
			for i := range 3 {
				rows = append(rows, sample{fmt.Sprintf(`{__name__="up", instance="host-%d"}`, i), ts, 1})
			}
			f.commit(rows...)
		}
		if part == 1 {
			require.NoError(t, f.db.Flush(ctx))
		}
	}
	return f
}

func TestCardinality_CountsEachSeriesOnceOverBlocksAndHead(t *testing.T) {
	f := cardinalityFixture(t)
	var told []uint64
	c, err := f.db.Cardinality(ctx, tsdb.CardinalityOptions{Chunks: true, Progress: func(n uint64) { told = append(told, n) }})
	require.NoError(t, err)
	require.EqualValues(t, 7, c.Series)
	require.Equal(t, []uint64{7}, told)
	require.Equal(t, 3, c.LabelNames)
	require.Equal(t, 2+3+4, c.LabelPairs)
	require.EqualValues(t, 14, c.LabelPairEntries)
	require.EqualValues(t, 4*240, c.Samples)
	require.Equal(t, []tsdb.LabelCount{{Name: "build", Count: 4}, {Name: "up", Count: 3}}, c.Metrics)
	require.Equal(t, []tsdb.LabelCount{{Name: "version", Count: 4}, {Name: "instance", Count: 3}, {Name: "__name__", Count: 2}}, c.Names)
	require.Equal(t, tsdb.LabelCount{Name: "__name__", Value: "build", Count: 4}, c.Pairs[0])
	require.Equal(t, tsdb.LabelCount{Name: "instance", Count: 18}, c.ValueBytes[0])
	require.Equal(t, "build", c.ChurnPairs[0].Value)
	require.InDelta(t, 3, c.ChurnPairs[0].Churn, 0.1, "of four series, each is missing for three quarters")
	require.InDelta(t, 0, c.ChurnPairs[len(c.ChurnPairs)-1].Churn, 0.05)
	require.Len(t, c.MetricChunks, 2)
	require.Equal(t, "up", c.MetricChunks[0].Name)
	require.EqualValues(t, 3*240, c.MetricChunks[0].Samples)
	require.Equal(t, c.Bytes, c.MetricChunks[0].Bytes+c.MetricChunks[1].Bytes)
	require.Equal(t, testNow.UnixMilli()/(2*hour)*(2*hour)-minute, c.MaxT)

	quick, err := f.db.Cardinality(ctx, tsdb.CardinalityOptions{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, c.Chunks, quick.Chunks)
	require.Equal(t, c.Pairs[:1], quick.Pairs)
	require.Equal(t, c.ChurnNames[:1], quick.ChurnNames)
	require.Empty(t, quick.MetricChunks)
	require.Zero(t, quick.Bytes)
}

func TestCardinality_LooksAtWhatItIsAskedTo(t *testing.T) {
	f := cardinalityFixture(t)
	block := f.db.Blocks()[0]
	c, err := f.db.Cardinality(ctx, tsdb.CardinalityOptions{Block: block.ULID})
	require.NoError(t, err)
	require.EqualValues(t, block.Stats.NumSeries, c.Series)
	require.EqualValues(t, block.Stats.NumChunks, c.Chunks)
	require.Equal(t, block.MinTime, c.MinT)
	require.Equal(t, block.MaxTime-1, c.MaxT)
	c, err = f.db.Cardinality(ctx, tsdb.CardinalityOptions{Matchers: []*labels.Matcher{labels.Equal("version", "v3")}})
	require.NoError(t, err)
	require.EqualValues(t, 1, c.Series)
	c, err = f.db.Cardinality(ctx, tsdb.CardinalityOptions{MinT: block.MinTime, MaxT: block.MinTime + 10*minute})
	require.NoError(t, err)
	require.EqualValues(t, 4, c.Series)
	require.InDelta(t, 0, c.ChurnNames[0].Churn, 0.001)
	_, err = f.db.Cardinality(ctx, tsdb.CardinalityOptions{Block: ulid.MustParseStrict("01HF7Q8ZK0000000000000TES9")})
	require.ErrorIs(t, err, fs.ErrNotExist)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = f.db.Cardinality(ended, tsdb.CardinalityOptions{})
	require.ErrorIs(t, err, context.Canceled)

	r, err := tsdb.OpenReadOnly(fixtureDir, &tsdb.Options{FS: f.fs, Clock: tsdbtest.NewClock(testNow)})
	require.NoError(t, err)
	c, err = r.Cardinality(ctx, tsdb.CardinalityOptions{})
	require.NoError(t, err)
	require.EqualValues(t, 7, c.Series)
	require.NoError(t, r.Close())
	_, err = r.Cardinality(ctx, tsdb.CardinalityOptions{})
	require.ErrorIs(t, err, tsdb.ErrClosed)
	require.NoError(t, f.db.Close())
	_, err = f.db.Cardinality(ctx, tsdb.CardinalityOptions{})
	require.ErrorIs(t, err, tsdb.ErrClosed)
	f.db = nil
}

func TestCardinality_CountsChunksByEncoding(t *testing.T) {
	f := newFixture(t, manual)
	at := testNow.UnixMilli() - 1000
	app := f.db.Appender()
	add := func(name string, s tsdb.Sample) {
		_, err := app.AppendSample(0, labels.FromStrings("__name__", name), s)
		require.NoError(t, err)
	}
	for k := range int64(3) {
		h := &histogram.Histogram{
			Count: 4, Sum: 1, NegativeSpans: []histogram.Span{{Offset: 1, Length: 1}}, NegativeBuckets: []int64{1},
			PositiveSpans: []histogram.Span{{Offset: 0, Length: 2}}, PositiveBuckets: []int64{1, 1},
		}
		add("float", tsdb.Sample{T: at + k, V: 1})
		add("start", tsdb.Sample{T: at + k, ST: at - 5, V: 1})
		add("integer", tsdb.Sample{T: at + k, H: h})
		add("one", tsdb.Sample{T: at + k, FH: h.ToFloat(nil)})
		h.NegativeSpans, h.NegativeBuckets, h.Count = nil, nil, 3
		add("smaller", tsdb.Sample{T: at + k, H: h})
	}
	_, err := app.Commit(ctx)
	require.NoError(t, err)
	for range 2 { // in the head, and in a block
		c, err := f.db.Cardinality(ctx, tsdb.CardinalityOptions{Chunks: true})
		require.NoError(t, err)
		got := map[chunkenc.Encoding]tsdb.EncodingSize{}
		bytes := uint64(0)
		for i, e := range c.Encodings {
			if i > 0 {
				require.LessOrEqual(t, e.Bytes, c.Encodings[i-1].Bytes)
			}
			bytes += e.Bytes
			e.Bytes = 0
			got[e.Encoding] = e
		}
		require.Equal(t, c.Bytes, bytes)
		require.Equal(t, map[chunkenc.Encoding]tsdb.EncodingSize{
			chunkenc.EncXOR:            {Encoding: chunkenc.EncXOR, Chunks: 1, Samples: 3},
			chunkenc.EncXOR2:           {Encoding: chunkenc.EncXOR2, Chunks: 1, Samples: 3},
			chunkenc.EncHistogram:      {Encoding: chunkenc.EncHistogram, Chunks: 2, Samples: 6, Buckets: 5, MinBuckets: 2, MaxBuckets: 3},
			chunkenc.EncFloatHistogram: {Encoding: chunkenc.EncFloatHistogram, Chunks: 1, Samples: 3, Buckets: 3, MinBuckets: 3, MaxBuckets: 3},
		}, got)
		without, err := f.db.Cardinality(ctx, tsdb.CardinalityOptions{})
		require.NoError(t, err)
		require.Empty(t, without.Encodings)
		require.NoError(t, f.db.Flush(ctx))
	}
}
