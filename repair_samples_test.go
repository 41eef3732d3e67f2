package tsdb_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocktest"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// Chunks that overlap in one block become new ones, of as many samples as those of the database.
func TestRepair_MakesChunksOfAsManySamplesAsTheOptionSays(t *testing.T) {
	b := oddBlocks(1)[0]
	b.maxt = b.mint + disorderRange
	even, odd := &oddChunk{}, &oddChunk{}
	for i := range int64(500) {
		even.add(b.mint+2000*i, 1)
		odd.add(b.mint+2000*i+1000, 2)
	}
	b.series = []oddSeries{{labels: [][2]string{{"job", "a"}}, chunks: []*oddChunk{even, odd}}}
	disk := tsdbtest.NewMemFS()
	require.NoError(t, b.write(disk, fixtureDir))
	for _, want := range [][]int{{120, 120, 120, 120, 120, 120, 120, 120, 40}, {400, 400, 200}} {
		t.Run(fmt.Sprint(want[0]), func(t *testing.T) {
			fs := disk.KillClone()
			r := repair(t, fs, func(o *tsdb.RepairOptions) { o.Options.Head.SamplesPerChunk = want[0] })
			require.Len(t, r.Blocks, 1)
			d, err := blockdir.Open(fs, blockdir.Path(fixtureDir, r.Blocks[0].Saved.ULID))
			require.NoError(t, err)
			var got []int
			for _, c := range blocktest.Chunks(t, d)[`{job="a"}`] {
				got = append(got, c.Num)
			}
			require.Equal(t, want, got)
			require.NoError(t, d.Close())
		})
	}
}

// Samples of any kind are saved from chunks that overlap, or reach over the end of their block.
func TestRepair_SavesSamplesOfEveryKindFromChunksThatOverlap(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 41))
		base := oddBlocks(1)[0].mint
		b := &oddBlock{id: ulid.MustNew(uint64(testNow.UnixMilli()), nil), mint: base, maxt: base + 700}
		want := map[string][]anySample{}
		for i := range 3 {
			s := oddSeries{labels: [][2]string{{"s", fmt.Sprint(i)}}}
			key := fmt.Sprintf(`{s="%d"}`, i)
			for lane := range int64(3) { // each millisecond is of one lane
				samples, chunks := drawAny(t, r, base+3*r.Int64N(100)+lane)
				want[key] = append(want[key], samples...)
				for _, c := range chunks {
					c := &oddChunk{samples: []point{{T: c.MinT}, {T: c.MaxT}}, encoded: &c}
					s.chunks = append(s.chunks, c)
				}
			}
			slices.SortFunc(want[key], func(a, b anySample) int { return int(a.T - b.T) })
			b.series = append(b.series, s)
		}
		fs := tsdbtest.NewMemFS()
		require.NoError(t, b.write(fs, fixtureDir))
		report := repair(t, fs, nil)
		require.Len(t, report.Blocks, 1)
		require.Zero(t, report.Blocks[0].LostChunks+report.Blocks[0].LostSeries)
		db := openWorld(t, fs)
		requireAny(t, db, want, math.MinInt64, math.MaxInt64)
		require.NoError(t, db.Close())
		require.True(t, verify(t, fs).Clean())
	}
}
