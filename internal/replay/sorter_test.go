package replay

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/wal"
)

// samplesOf returns n samples of refs that next gives, numbered by their times.
func samplesOf(n int, next func(i int) uint64) []record.Sample {
	out := make([]record.Sample, n)
	for i := range out {
		out[i] = record.Sample{Ref: next(i), T: int64(i), V: float64(i) / 2}
	}
	return out
}

func TestReplayRuns_AreTheSamplesOfOneSeriesEach(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	all := samplesOf(5000, func(int) uint64 { return 1<<40 + r.Uint64N(300) })
	runs := sortRuns(all[:1000], nil, all[1000:1001], all[1001:])
	require.Len(t, runs, 300)
	slices.SortStableFunc(all, func(a, b record.Sample) int { return int(a.Ref) - int(b.Ref) })
	require.Equal(t, all, slices.Concat(runs...), "by ref, and then in the order of the log")
}

// Samples are packed relative to others; any time and any value comes out as it was, side by side
// with any other.
func TestReplayRuns_TimesFarApart(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	times := []int64{0, 1, -1, 1 << 31, -1 << 31, 1<<31 - 1, 1 << 32, 1<<32 + 1, -1 << 32, math.MinInt64, math.MaxInt64}
	for _, first := range []uint64{0, 1 << 31, 1<<32 - 3, math.MaxUint64 - 6} {
		all := samplesOf(4000, func(int) uint64 { return first + r.Uint64N(7) })
		for i := range all {
			all[i].T = times[r.IntN(len(times))] + int64(r.IntN(3)-1)
		}
		runs := sortRuns(all[:100], all[100:])
		slices.SortStableFunc(all, func(a, b record.Sample) int { return cmp.Compare(a.Ref, b.Ref) })
		require.Equal(t, all, slices.Concat(runs...))
	}
}

func TestReplayRuns_WhatIsNotWorthIt_IsNotSorted(t *testing.T) {
	for name, next := range map[string]func(i int) uint64{
		"one sample of each":    func(i int) uint64 { return uint64(7000 - i) },
		"far apart":             func(i int) uint64 { return uint64(i%3) << 30 },
		"all the refs of there": func(i int) uint64 { return uint64(i%2) * math.MaxUint64 },
	} {
		t.Run(name, func(t *testing.T) {
			all := samplesOf(3000, next)
			require.Empty(t, sortRuns(all[:10], all[10:]))
		})
	}
	require.Empty(t, sortRuns(nil, nil))
	two := samplesOf(2, func(int) uint64 { return math.MaxUint64 })
	require.Equal(t, [][]record.Sample{two}, sortRuns(two))
}

// A worker that gets few samples must not keep those of all others until it has enough of its own.
func TestReplay_SetsOfPartsAreBoundedHoweverSamplesAreSpread(t *testing.T) {
	for name, samplesOf := range map[string]func(worker int) int{
		"evenly":             func(int) int { return 100 },
		"one has nearly all": func(worker int) int { return 1 + 999*(worker/2) },
		"one has all":        func(worker int) int { return 1000 * (worker / 2) },
		"none":               func(int) int { return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			require.LessOrEqual(t, replaySets(3, 2000, samplesOf), 100)
		})
	}
}

func TestReplayRuns_ManySeriesWantMoreSamples_VeryManyNone(t *testing.T) {
	for series, want := range map[int]int{0: 48 << 10, 10_000: 48 << 10, 20_000: 80_000, 100_000: 256 << 10, 128 << 10: 256 << 10, 128<<10 + 1: 48 << 10} {
		require.Equal(t, want, collected(series, 256<<10), "%d series", series)
	}
	for series, want := range map[int]int{0: 48 << 10, 20_000: 80_000, 50_000: 100_000, 50_001: 48 << 10} {
		require.Equal(t, want, collected(series, 100_000), "%d series of a process with a limit", series)
	}
}

// What is collected goes by the limit of memory: it must not be what recovery is killed for.
func TestReplayRuns_WhatIsCollectedIsASmallPartOfTheLimit(t *testing.T) {
	const mb = 1 << 20
	for _, tc := range []struct {
		limit   int64
		workers int
		want    int
	}{
		{math.MaxInt64, 2, 256 << 10},
		{1024 * mb, 2, 256 << 10},
		{512 * mb, 2, 512 * mb / 32 / 40 / 2},
		{512 * mb, 16, 48 << 10},
		{90 * mb, 2, 48 << 10},
		{1, 2, 48 << 10},
	} {
		require.Equal(t, tc.want, mostCollected(tc.limit, tc.workers), "%+v", tc)
	}
}

// replaySets recovers batches of samples by several workers and returns how many sets of parts that
// took: count gives the number of samples that a worker has in a batch.
func replaySets(workers, batches int, count func(worker int) int) int {
	series := memseries.NewDirectory(memseries.Cutting{Range: 7_200_000, Samples: 120})
	r := newReplay(Target{Series: series}, Options{Workers: workers})
	var wg sync.WaitGroup
	for _, w := range r.workers {
		wg.Go(func() { w.run(r) })
	}
	sets := map[*partSet]bool{}
	batch := &wal.Batch{Records: make([]wal.Record, 1)}
	for range batches {
		ps := r.emptyParts()
		sets[ps] = true
		for i := range ps.parts {
			for k := range count(i) {
				ps.parts[i].add(uint64(i), int64(k%20/19)<<40, 0) // in spans
			}
		}
		r.dispatch(stretch{parts: ps}, batch)
	}
	for _, w := range r.workers {
		close(w.queue)
	}
	wg.Wait()
	for ps := range sets {
		if n := ps.pending.Load(); n != 0 || ps.filled() > 0 {
			panic(fmt.Sprintf("BUG: %d still use a set of %d parts", n, ps.filled()))
		}
	}
	return len(sets)
}

// sortRuns sorts batches of samples as recovery does and returns the runs that it appends,
// none if it does not sort them.
func sortRuns(batches ...[]record.Sample) (runs [][]record.Sample) {
	var rs runSorter
	var parts []work
	for _, b := range batches {
		var p samplePart
		for _, s := range b {
			p.add(s.Ref, s.T, s.V)
		}
		for i := range p.spans {
			parts = append(parts, work{span: p.span(i)})
		}
	}
	for range 2 { // the second time with the memory of the first
		runs = nil
		rs.sort(parts, func(some []memseries.Run) {
			for _, run := range some {
				var of []record.Sample
				for _, s := range run.Samples {
					of = append(of, record.Sample{Ref: run.Ref, T: s.T, V: s.V})
				}
				runs = append(runs, of)
			}
		})
	}
	return runs
}
