package memseries

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunks"
)

// mappedKinds are full chunks that blocks have to keep in one way or another; number i of a list.
var mappedKinds = map[string]func(rnd *rand.Rand, i int64) Mapped{
	"as they are": func(rnd *rand.Rand, i int64) Mapped {
		return Mapped{Ref: chunks.NewRef(1+uint32(i)/5, 8+rnd.Uint32N(1000)), MinT: i * 100, MaxT: i*100 + rnd.Int64N(100), Num: uint16(i)}
	},
	"in no file yet": func(rnd *rand.Rand, i int64) Mapped {
		return Mapped{Ref: chunks.NewRef(waitingFile, 1+rnd.Uint32N(numbers)), MinT: i * 100, MaxT: i*100 + 99, Num: 120}
	},
	"some in no file yet": func(rnd *rand.Rand, i int64) Mapped {
		return Mapped{Ref: chunks.NewRef(1+rnd.Uint32N(2)*(waitingFile-1), 1+rnd.Uint32N(numbers)), MinT: i * 100, MaxT: i*100 + 99, Num: 120}
	},
	"being replayed":  func(_ *rand.Rand, i int64) Mapped { return Mapped{MinT: i * 100, MaxT: i*100 + 99, Num: 120} },
	"before the year": func(_ *rand.Rand, i int64) Mapped { return Mapped{Ref: 8, MinT: i*100 - 3000, MaxT: i*100 - 2990} },
	"anywhere in files": func(rnd *rand.Rand, i int64) Mapped {
		return Mapped{Ref: chunks.Ref(rnd.Uint64()), MinT: i * 100, MaxT: i*100 + 7, Num: math.MaxUint16}
	},
	"some in far files": func(rnd *rand.Rand, i int64) Mapped {
		return Mapped{Ref: chunks.NewRef(100+uint32(rnd.IntN(40)), 1<<27-1), MinT: i * 100, MaxT: i*100 + 7, Num: 1}
	},
	"far apart": func(_ *rand.Rand, i int64) Mapped {
		return Mapped{Ref: 1<<32 + 8, MinT: math.MinInt64 + i<<55, MaxT: math.MinInt64 + i<<55 + i, Num: 2}
	},
	"some are long": func(rnd *rand.Rand, i int64) Mapped {
		return Mapped{Ref: 1<<32 + 8, MinT: i << 40, MaxT: i<<40 + rnd.Int64N(5)<<30, Num: 2}
	},
}

// The list of full chunks is what a slice of them would be, whatever is done to it, and counts
// its memory.
func TestMapped_EqualsASlice(t *testing.T) {
	for name, chunk := range mappedKinds {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(50) {
				m := mappedModel{rnd: rand.New(rand.NewPCG(1, seed)), chunk: chunk}
				for step := range int64(60) {
					m.step(t, step)
					requireMapped(t, m.want, &m.s)
					require.Equal(t, m.s.mappedBytes(), m.a.bytes)
				}
				m.a.cut(&m.s, 0)
				require.Zero(t, m.a.bytes)
			}
		})
	}
}

// mappedModel does the same to a series and to a slice.
type mappedModel struct {
	rnd   *rand.Rand
	chunk func(rnd *rand.Rand, i int64) Mapped
	a     mappedLists
	s     Series
	want  []Mapped
}

func (m *mappedModel) step(t *testing.T, step int64) {
	n := m.rnd.IntN(len(m.want) + 1)
	switch m.rnd.IntN(10) {
	case 0:
		m.a.drop(&m.s, n)
		m.want = m.want[n:]
	case 1:
		m.a.cut(&m.s, n)
		m.want = m.want[:n]
	case 2: // in front of the others, and then away with it, so that times stay in order
		other := m.chunk(m.rnd, step)
		m.a.insert(&m.s, n, other)
		requireMappedList(t, slices.Insert(slices.Clone(m.want), n, other), &m.s)
		m.a.cut(&m.s, n)
		m.want = m.want[:n]
	case 3:
		if n < len(m.want) {
			m.want[n].Ref = m.chunk(m.rnd, step).Ref
			m.a.setRef(&m.s, m.want[n].MinT, m.want[n].Ref)
		}
	case 4:
		if n < len(m.want) { // the later part of a chunk
			m.want[n].MinT, m.want[n].Num = m.want[n].MaxT, 1
			m.a.set(&m.s, n, m.want[n])
		}
	default:
		m.want = append(m.want, m.chunk(m.rnd, step))
		m.a.add(&m.s, m.want[len(m.want)-1])
	}
}

func requireMappedList(t *testing.T, want []Mapped, s *Series) {
	got := []Mapped{}
	for i, m := range s.mapped() {
		require.Equal(t, i, len(got))
		require.Equal(t, m.MaxT, s.mappedMaxt(i))
		got = append(got, m)
	}
	require.Equal(t, append([]Mapped{}, want...), got)
}

func requireMapped(t *testing.T, want []Mapped, s *Series) {
	requireMappedList(t, want, s)
	for i, m := range want {
		require.Equal(t, i, s.mappedFrom(m.MaxT))
		require.Equal(t, i+1, s.mappedTo(m.MinT))
	}
	if len(want) > 0 && want[len(want)-1].MaxT < math.MaxInt64 {
		require.Equal(t, len(want), s.mappedFrom(want[len(want)-1].MaxT+1))
	}
}

// A block holds eight chunks in two cache lines, whatever the time of day and the age of their
// files, up to 49 days and 31 files; beyond that, and where a ref is none of ours, it takes two.
func TestMapped_WhatFitsABlock(t *testing.T) {
	const day = 24 * 3600 * 1000
	now := int64(1_700_000_000_000)
	first := Mapped{Ref: chunks.NewRef(7, 8), MinT: now, MaxT: now + 1, Num: 120}
	for name, tc := range map[string]struct {
		second Mapped
		blocks int64
	}{
		"at the end of a month":     {Mapped{Ref: chunks.NewRef(7, 9), MinT: now + 31*day, MaxT: now + 32*day, Num: 240}, 1},
		"4,294,967,295 ms later":    {Mapped{MinT: now + math.MaxUint32, MaxT: now + math.MaxUint32}, 1},
		"one more":                  {Mapped{MinT: now + math.MaxUint32 + 1, MaxT: now + math.MaxUint32 + 1}, 2},
		"4,294,967,295 ms long":     {Mapped{MinT: now + 2, MaxT: now + 2 + math.MaxUint32}, 1},
		"a millisecond longer":      {Mapped{MinT: now + 2, MaxT: now + 3 + math.MaxUint32}, 2},
		"30 files on":               {Mapped{Ref: chunks.NewRef(37, chunks.MaxHeadFileBytes-1), MinT: now + 2, MaxT: now + 2}, 1},
		"31 files on":               {Mapped{Ref: chunks.NewRef(38, 8), MinT: now + 2, MaxT: now + 2}, 2},
		"in the file before":        {Mapped{Ref: chunks.NewRef(6, 8), MinT: now + 2, MaxT: now + 2}, 2},
		"in a file that is too big": {Mapped{Ref: chunks.NewRef(7, chunks.MaxHeadFileBytes), MinT: now + 2, MaxT: now + 2}, 2},
		"at the start of a file":    {Mapped{Ref: chunks.NewRef(7, 0), MinT: now + 2, MaxT: now + 2}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var a mappedLists
			var s Series
			a.add(&s, first)
			a.add(&s, tc.second)
			requireMapped(t, []Mapped{first, tc.second}, &s)
			require.Equal(t, tc.blocks*128, int64(len(s.blocks))*mappedBlockBytes)
		})
	}
}

func TestMapped_InsertKeepsTheOthers(t *testing.T) {
	var a mappedLists
	var s Series
	var want []Mapped
	for i := range int64(20) {
		m := Mapped{MinT: 2 * i, MaxT: 2 * i}
		a.add(&s, m)
		want = append(want, m)
	}
	m := Mapped{MinT: 13, MaxT: 13}
	a.insert(&s, 7, m)
	requireMapped(t, slices.Insert(want, 7, m), &s)
}

// 128 series fill 20 KiB, which is what the heap has a size for: the next one has 21.25.
func TestSeries_PageFitsTheHeap(t *testing.T) {
	require.LessOrEqual(t, seriesBytes*pageLen, int64(20<<10))
}

// Series whose lists grow together share allocations, and lists that come from one slab stay
// apart.
func TestMapped_ListsShareAllocations(t *testing.T) {
	const series, chunksOfEach = 1000, 4 * mappedBlockLen
	var a mappedLists
	all := make([]Series, series)
	allocs := testing.AllocsPerRun(1, func() {
		a, all = mappedLists{}, make([]Series, series)
		for c := range chunksOfEach {
			for i := range all {
				a.add(&all[i], Mapped{MinT: int64(c), MaxT: int64(c), Num: uint16(i)})
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
