package memseries

import (
	"fmt"
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
	all := make([]*Series, series)
	for i := range all {
		s, _, err := d.GetOrCreate(labels.FromStrings("a", fmt.Sprint(i)))
		require.NoError(b, err)
		all[i] = s
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	vs := make([]float64, 64*series)
	for i := range vs {
		switch i % 4 {
		case 0:
			vs[i] = float64(i/series) * 17
		case 1:
			vs[i] = float64(rnd.IntN(1000)) / 100
		case 2:
			vs[i] = 1
		default:
			vs[i] = rnd.Float64()
		}
	}
	var fulls []Full
	refs := make([]chunks.Ref, series)
	b.ReportAllocs()
	b.ResetTimer()
	t, seq := int64(0), uint64(0)
	for range b.N {
		t += 15_000
		for from := 0; from < series; from += perCommit {
			run := all[from : from+perCommit]
			set := Shards(0)
			for _, s := range run {
				set |= Bit(s)
			}
			seq++
			d.Lock(set)
			for i, s := range run {
				d.ApplyLocked(s, t, vs[int(t/15_000)%64*series+from+i], seq, seq, alwaysOpen{})
			}
			d.Unlock(set)
		}
		for shard := 0; d.FullBytes() > 1<<20 && shard < NumShards; {
			fulls, shard = d.CollectFull(fulls[:0], shard, 1<<20)
			d.Written(fulls, refs[:len(fulls)])
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*series), "ns/sample")
}
