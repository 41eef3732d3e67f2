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

// seriesReaders are what is asked of each series, with what a program would otherwise do.
var seriesReaders = []struct {
	name string
	do   func(s *tsdb.Series, r *seriesRoom) error
}{
	{"labels", func(*tsdb.Series, *seriesRoom) error { return nil }}, // what finding them costs
	{"bounds", func(s *tsdb.Series, _ *seriesRoom) error {
		_, _, err := s.Bounds()
		return err
	}},
	{"last", func(s *tsdb.Series, _ *seriesRoom) error {
		_, _, err := s.Last()
		return err
	}},
	{"samples", func(s *tsdb.Series, r *seriesRoom) error {
		for _, v := range s.Samples() {
			r.sum += v
		}
		return s.Err()
	}},
	{"iterator", func(s *tsdb.Series, r *seriesRoom) error {
		for r.it = s.Iterator(r.it); r.it.Next() != chunkenc.ValNone; {
			_, v := r.it.At()
			r.sum += v
		}
		return r.it.Err()
	}},
	{"batches", func(s *tsdb.Series, r *seriesRoom) error {
		for r.it = s.Iterator(r.it); r.it.NextBatch(r.batch) != chunkenc.ValNone; {
			for _, v := range r.batch.V {
				r.sum += v
			}
		}
		return r.it.Err()
	}},
}

type seriesRoom struct {
	it    chunkenc.Iterator
	batch *chunkenc.Batch
	sum   float64
}

// BenchmarkSeriesLast asks 2,000 series of 2,400 samples, ten hours, for their newest sample, for
// their bounds and for all samples. "edge" is the same with a range that ends in a chunk, which is
// decoded.
func BenchmarkSeriesLast(b *testing.B) {
	const series, samples = 2_000, 2_400
	for _, place := range []string{"head", "block"} {
		opts := benchOptions()
		opts.Blocks.Manual = true
		db := openBench(b, b.TempDir(), opts)
		h := newHot(b, db, series)
		for h.k < samples {
			h.scrape(b, 1000)
		}
		if place == "block" {
			require.NoError(b, db.Flush(context.Background()))
			require.NoError(b, db.Compact(context.Background()))
		}
		for _, r := range seriesReaders {
			b.Run(place+"/"+r.name, func(b *testing.B) { benchSeries(b, db, math.MaxInt64, series, r.do) })
		}
		for _, r := range seriesReaders[:3] {
			b.Run(place+"/edge/"+r.name, func(b *testing.B) { benchSeries(b, db, (samples-50)*benchStep+1, series, r.do) })
		}
		b.Run(place+"/all", func(b *testing.B) {
			for range b.N {
				_, _, _, err := db.Bounds(context.Background())
				require.NoError(b, err)
			}
		})
	}
}

func benchSeries(b *testing.B, db *tsdb.DB, maxt int64, series int, do func(*tsdb.Series, *seriesRoom) error) {
	b.ReportAllocs()
	room := &seriesRoom{batch: chunkenc.NewBatch(0)}
	for range b.N {
		q, err := db.Querier(math.MinInt64, maxt)
		require.NoError(b, err)
		set := q.Select(context.Background(), &tsdb.SelectHints{Transient: true, MayBeEmpty: true})
		for set.Next() {
			if err := do(set.At(), room); err != nil {
				b.Fatal(err)
			}
		}
		require.NoError(b, errors.Join(set.Err(), q.Close()))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*series), "ns/series")
}
