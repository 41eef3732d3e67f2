package memseries

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunks"
)

// The list of full chunks is what a slice of them would be, whatever is done to it, and counts
// its memory.
func TestMapped_EqualsASlice(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var a appender
		var s Series
		var want []Mapped
		for step := range 60 {
			m := Mapped{Ref: chunks.Ref(rnd.Uint64()), MinT: int64(step) * 100, MaxT: int64(step)*100 + rnd.Int64N(100), Num: uint16(step)}
			switch n := rnd.IntN(len(want) + 1); rnd.IntN(8) {
			case 0:
				a.dropMapped(&s, n)
				want = want[n:]
			case 1:
				a.cutMapped(&s, n)
				want = want[:n]
			case 2:
				a.insertMapped(&s, n, m)
				want = slices.Insert(slices.Clone(want), n, m)
				a.cutMapped(&s, n) // so that times stay in order
				want = want[:n]
			default:
				a.addMapped(&s, m)
				want = append(want, m)
			}
			requireMapped(t, want, &s)
			require.Equal(t, s.mappedBytes(), a.mappedBytes)
		}
		a.cutMapped(&s, 0)
		require.Zero(t, a.mappedBytes)
	}
}

func requireMapped(t *testing.T, want []Mapped, s *Series) {
	got := []Mapped{}
	for i, m := range s.mapped() {
		require.Equal(t, i, len(got))
		require.Equal(t, m.MaxT, s.mappedMaxt(i))
		got = append(got, m)
	}
	require.Equal(t, append([]Mapped{}, want...), got)
	for i, m := range want {
		require.Equal(t, i, s.mappedFrom(m.MaxT))
	}
	require.Equal(t, len(want), s.mappedFrom(1<<40))
}

func TestMapped_InsertKeepsTheOthers(t *testing.T) {
	var a appender
	var s Series
	var want []Mapped
	for i := range int64(20) {
		m := Mapped{MinT: 2 * i, MaxT: 2 * i}
		a.addMapped(&s, m)
		want = append(want, m)
	}
	m := Mapped{MinT: 13, MaxT: 13}
	a.insertMapped(&s, 7, m)
	requireMapped(t, slices.Insert(want, 7, m), &s)
}

// 256 series fill 40 KiB, which is what the heap has a size for: the next one has 48.
func TestSeries_PageFitsTheHeap(t *testing.T) {
	require.LessOrEqual(t, seriesBytes*pageLen, int64(40<<10))
}

// Series whose lists grow together share allocations, and lists that come from one slab stay
// apart.
func TestMapped_ListsShareAllocations(t *testing.T) {
	const series, chunksOfEach = 1000, 4 * mappedBlockLen
	var a appender
	all := make([]Series, series)
	allocs := testing.AllocsPerRun(1, func() {
		a, all = appender{}, make([]Series, series)
		for c := range chunksOfEach {
			for i := range all {
				a.addMapped(&all[i], Mapped{MinT: int64(c), MaxT: int64(c), Num: uint16(i)})
			}
		}
	})
	require.Less(t, allocs, float64(series*chunksOfEach/mappedBlockLen)/8)
	for i := range all {
		require.EqualValues(t, chunksOfEach, all[i].numMapped)
		for c, m := range all[i].mapped() {
			require.Equal(t, Mapped{MinT: int64(c), MaxT: int64(c), Num: uint16(i)}, m)
		}
	}
}
