package tsdb_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
)

// BenchmarkSelectNarrow reads five minutes that lie in one chunk of each series, as an instant
// query of the past does: only decoding tells whether a series has samples there, which it has, or,
// in the gap between two samples, has not.
func BenchmarkSelectNarrow(b *testing.B) {
	const series, samples = 20_000, 480
	for _, place := range []string{"block", "head"} {
		opts := benchOptions()
		opts.Blocks.Manual = true
		db := openBench(b, b.TempDir(), opts)
		h := newHot(b, db, series)
		for h.k < samples {
			h.scrape(b, 1000)
		}
		if place == "block" {
			require.NoError(b, db.Flush(context.Background()))
		}
		const from = 50 * benchStep
		narrow, transient := []int64{from, from + 20*benchStep}, &tsdb.SelectHints{Transient: true}
		b.Run(place+"/samples", func(b *testing.B) { benchNarrow(b, db, narrow, nil, true) })
		b.Run(place+"/samples-transient", func(b *testing.B) { benchNarrow(b, db, narrow, transient, true) })
		b.Run(place+"/labels-transient", func(b *testing.B) { benchNarrow(b, db, narrow, transient, false) })
		b.Run(place+"/gap-transient", func(b *testing.B) { benchNarrow(b, db, []int64{from + 1, from + 2}, transient, true) })
		b.Run(place+"/chunks-transient", func(b *testing.B) { benchNarrowChunks(b, db, narrow) })
		b.Run(place+"/values", func(b *testing.B) { benchValues(b, db, narrow) })
		b.Run(place+"/values-all", func(b *testing.B) { benchValues(b, db, []int64{0, samples * benchStep}) })
	}
}

func benchNarrow(b *testing.B, db *tsdb.DB, of []int64, hints *tsdb.SelectHints, decode bool) {
	b.ReportAllocs()
	batch := chunkenc.NewBatch(0)
	for range b.N {
		q, err := db.Querier(of[0], of[1])
		require.NoError(b, err)
		set := q.Select(context.Background(), hints)
		var it chunkenc.Iterator
		for set.Next() {
			if !decode {
				continue
			}
			it = set.At().Iterator(it)
			for it.NextBatch(batch) != chunkenc.ValNone {
			}
		}
		require.NoError(b, errors.Join(set.Err(), q.Close()))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*20_000), "ns/series")
}

func benchNarrowChunks(b *testing.B, db *tsdb.DB, of []int64) {
	b.ReportAllocs()
	for range b.N {
		q, err := db.Querier(of[0], of[1])
		require.NoError(b, err)
		set := q.SelectChunks(context.Background(), &tsdb.SelectHints{Transient: true})
		var it *tsdb.ChunkIterator
		for set.Next() {
			for it = set.At().Chunks(it); it.Next(); {
			}
		}
		require.NoError(b, errors.Join(set.Err(), q.Close()))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*20_000), "ns/series")
}

func benchValues(b *testing.B, db *tsdb.DB, of []int64) {
	for range b.N {
		q, err := db.Querier(of[0], of[1])
		require.NoError(b, err)
		values, _, err := q.LabelValues(context.Background(), "shard", nil)
		require.NoError(b, err)
		require.NotEmpty(b, values)
		require.NoError(b, q.Close())
	}
}

// BenchmarkSelectOverlapping reads three blocks of the same 200 series that overlap: samples take
// turns, each chunk overlaps half of one of another block, or all blocks have the same.
func BenchmarkSelectOverlapping(b *testing.B) {
	for _, c := range []struct {
		name  string
		shift int64
	}{{"by turns", 5_000}, {"by halves", 900_000 + 1}, {"twins", 0}} {
		db := openOverlapping(b, 200, c.shift)
		b.Run(c.name+"/batches", func(b *testing.B) { benchOverlapping(b, db, true) })
		b.Run(c.name+"/iterator", func(b *testing.B) { benchOverlapping(b, db, false) })
		b.Run(c.name+"/chunks", func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				benchChunks(b, db)
			}
		})
	}
}

// openOverlapping opens a database of three blocks whose samples are shifted against each other.
func openOverlapping(b *testing.B, series int, shift int64) *tsdb.DB {
	dir := b.TempDir()
	for n := range int64(3) {
		w, err := tsdb.NewBlockWriter(dir, nil)
		require.NoError(b, err)
		for i := range series {
			ref, ls := tsdb.SeriesRef(0), benchLabels(i)
			for k := range 480 {
				ref, err = w.AppendRef(ref, ls, n*shift+int64(k)*benchStep, benchValue(i, k))
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		_, err = w.Flush(context.Background())
		require.NoError(b, err)
		require.NoError(b, w.Close())
	}
	opts := benchOptions()
	opts.Blocks.Manual = true
	return openBench(b, dir, opts)
}

func benchOverlapping(b *testing.B, db *tsdb.DB, batches bool) {
	b.ReportAllocs()
	read := 0
	for range b.N {
		read += benchSelect(b, db, math.MaxInt64, batches, nil)
	}
	reportPerSample(b, read)
}

// benchChunks reads all chunks.
func benchChunks(b *testing.B, db *tsdb.DB) {
	q, err := db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(b, err)
	set := q.SelectChunks(context.Background(), &tsdb.SelectHints{Transient: true})
	var it *tsdb.ChunkIterator
	for set.Next() {
		for it = set.At().Chunks(it); it.Next(); {
		}
		require.NoError(b, it.Err())
	}
	require.NoError(b, errors.Join(set.Err(), q.Close()))
}
