package memseries

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/labels"
)

// BenchmarkAppend applies commits of 1000 samples to 10,000 series; full chunks are
// taken away as a writer would.
func BenchmarkAppend(b *testing.B) {
	const series, perCommit = 10_000, 1000
	d := NewDirectory(defaultCutting)
	all := commitOf(benchSeries(b, d, series))
	vs := benchValues(series)
	var fulls []Full
	refs := make([]chunks.Ref, series)
	b.ReportAllocs()
	b.ResetTimer()
	t, seq := int64(0), uint64(0)
	for range b.N {
		t += 15_000
		for from := 0; from < series; from += perCommit {
			seq++
			applyAll(d, all[from:from+perCommit], t, seq, vs[int(t/15_000)%64*series+from:])
		}
		fulls = storeFull(d, fulls, refs)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*series), "ns/sample")
}

// benchSeries makes n series.
func benchSeries(b *testing.B, d *Directory, n int) []*Series {
	all := make([]*Series, n)
	for i := range all {
		s, _, err := d.GetOrCreate(labels.FromStrings("a", fmt.Sprint(i)))
		require.NoError(b, err)
		all[i] = s
	}
	return all
}

// benchValues returns 64 values of each of n series, scrape by scrape: counters, decimals,
// constants, noise.
func benchValues(n int) []float64 {
	rnd := rand.New(rand.NewPCG(1, 2))
	vs := make([]float64, 64*n)
	for i := range vs {
		switch i % 4 {
		case 0:
			vs[i] = float64(i/n) * 17
		case 1:
			vs[i] = float64(rnd.IntN(1000)) / 100
		case 2:
			vs[i] = 1
		default:
			vs[i] = rnd.Float64()
		}
	}
	return vs
}

// storeFull takes full chunks away, as a writer would, when there is a MiB of them. It returns the
// room that fulls has now.
func storeFull(d *Directory, fulls []Full, refs []chunks.Ref) []Full {
	for shard := 0; d.Shelf.Bytes() > 1<<20 && shard < NumShards; {
		fulls, shard = d.Shelf.Collect(fulls[:0], shard, 1<<20)
		d.Shelf.Written(fulls, refs[:len(fulls)])
	}
	return fulls
}

// commitOf returns a commit of a sample of each series, to be given times and values.
func commitOf(all []*Series) []Sample {
	samples := make([]Sample, len(all))
	for i, s := range all {
		samples[i].Series = s
	}
	return samples
}

// applyAll applies a commit with a sample of each of its series at t.
func applyAll(d *Directory, samples []Sample, t int64, seq uint64, vs []float64) {
	set := ShardSet(0)
	for i := range samples {
		set |= Bit(samples[i].Series)
		samples[i].T, samples[i].Sum = t, math.Float64bits(vs[i])
	}
	d.Shards.Lock(set)
	d.Shards.ApplyLocked(samples, nil, seq, seq, alwaysOpen{})
	d.Shards.Unlock(set)
}
