package memseries

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/labels"
)

func TestRemoveIdle_RemovesOnlySeriesThatNobodyNeeds(t *testing.T) {
	d := NewDirectory(defaultCutting)
	names := []string{"idle", "pinned", "sample", "newer", "kept by the caller", "never written"}
	byName := map[string]*Series{}
	for i, name := range names {
		s := newSeries(t, d, "name", name)
		byName[name] = s
		s.Unpin()
		if name != "never written" {
			commit(d, uint64(i+1), uint64(i+1), s, 50, 1)
			s.SetLogged(true)
		}
	}
	commit(d, 10, 10, byName["sample"], 150, 1)
	byName["pinned"].Pin()
	byName["newer"].Reserve(100, 1) // on its way
	d.Truncation.DropBefore(100)

	asked := 0
	removed := d.RemoveIdle(100, func(ref uint64) bool {
		asked++
		require.NotNil(t, d.ByRef(ref), "it is asked before")
		return ref != byName["kept by the caller"].Ref()
	})
	require.Equal(t, 3, asked)
	require.Equal(t, []uint64{byName["idle"].Ref(), byName["never written"].Ref()}, removed)
	require.Equal(t, 4, d.Len())
	require.True(t, byName["idle"].Dead())
	require.Nil(t, d.FindPinned(labels.FromStrings("name", "idle")))

	byName["pinned"].Unpin()
	require.Equal(t, []uint64{byName["pinned"].Ref(), byName["kept by the caller"].Ref()}, d.RemoveIdle(100, nil))
	again := newSeries(t, d, "name", "idle")
	require.Greater(t, again.Ref(), byName["never written"].Ref(), "refs are never used again")
}

func TestRemoveIdle_TakesMarksAndPostingsAlong(t *testing.T) {
	d := NewDirectory(defaultCutting)
	s := newSeries(t, d, "a", "b", "c", "d")
	s.Unpin()
	for i := range 10 {
		commit(d, uint64(i+1), 0, s, int64(i), 1)
	}
	require.NotEmpty(t, d.Shards.of(s).mu.marks)
	d.Truncation.DropBefore(100)
	require.Len(t, d.RemoveIdle(100, nil), 1)
	require.Empty(t, d.Shards.of(s).mu.marks)
	require.Empty(t, d.Postings().LabelNames(nil))
}

func TestRemoveIdle_LabelPlacesAreUsedAgain(t *testing.T) {
	d := NewDirectory(defaultCutting)
	for round := range 5 {
		for i := range 100 {
			newSeries(t, d, "a", fmt.Sprint(round, " ", i)).Unpin()
		}
		require.Len(t, d.RemoveIdle(0, nil), 100)
	}
	require.LessOrEqual(t, d.labels.pairs.next, uint32(100))
}

// So many that who creates series gets a turn in between.
func TestRemoveIdle_VeryManySeries_GoInParts(t *testing.T) {
	const n = cleanLen / cleanPair
	d := NewDirectory(defaultCutting)
	var pairs []index.Pair
	for i := range n {
		s := newSeries(t, d, "job", "api", "pod", fmt.Sprint(i), "side", fmt.Sprint(i%2))
		s.Unpin()
		pairs = append(pairs, d.Pairs(s)...)
	}
	slices.Sort(pairs)
	pairs = slices.Compact(pairs)
	var together []index.Pair
	parts := 0
	for run := range d.labels.splitByLists(pairs) {
		size := 0
		for _, p := range run {
			size += d.Postings().Count(p) + cleanPair
		}
		require.LessOrEqual(t, size, cleanLen)
		together = append(together, run...)
		parts++
	}
	require.Equal(t, pairs, together)
	require.Equal(t, 2, parts)
	stays := newSeries(t, d, "job", "api", "pod", "new", "side", "0")
	require.Len(t, d.RemoveIdle(0, nil), n)
	require.Equal(t, 1, d.Len())
	require.Equal(t, []string{"new"}, d.Postings().LabelValues("pod", nil))
	for _, p := range d.Pairs(stays) {
		require.Equal(t, []uint64{stays.Ref()}, d.Postings().Refs(p))
	}
}

// BenchmarkRemoveIdle removes a fiftieth of half a million series while others are made, and
// tells how long the longest of those took.
func BenchmarkRemoveIdle(b *testing.B) {
	const n, part = 500_000, 50
	for range b.N {
		b.StopTimer()
		d := NewDirectory(defaultCutting)
		create := func(i int) *Series {
			s, _, err := d.GetOrCreate(labels.FromStrings("cluster", "eu", "job", "api", "method", fmt.Sprint(i%4), "namespace", fmt.Sprint(i%17),
				"pod", fmt.Sprint(i/80), "shard", fmt.Sprint(i), "status", fmt.Sprint(i%3)))
			if err != nil {
				b.Fatal(err)
			}
			return s
		}
		for i := range n {
			if s := create(i); i%part == 0 {
				s.Unpin()
			}
		}
		stop, longest := make(chan struct{}), make(chan time.Duration)
		go func() {
			most := time.Duration(0)
			for i := n; ; i++ {
				begin := time.Now()
				create(i)
				most = max(most, time.Since(begin))
				select {
				case <-stop:
					longest <- most
					return
				default:
				}
			}
		}()
		b.StartTimer()
		removed := d.RemoveIdle(0, nil)
		b.StopTimer()
		close(stop)
		b.ReportMetric(float64((<-longest).Microseconds())/1e3, "longest-ms")
		if len(removed) != n/part {
			b.Fatal(len(removed), " were removed")
		}
		b.StartTimer()
	}
}

func TestRestorer_OldSamplesAreCountedWhateverTheirSeries(t *testing.T) {
	d := NewDirectory(defaultCutting)
	_, err := restore(d, 7, labels.FromStrings("a", "b"))
	require.NoError(t, err)
	r := NewRestoration(d).NewRestorer()
	r.MinValid = 100
	restoreOne(r, 7, 99, 1)
	restoreOne(r, 20, 99, 1)
	restoreOne(r, 7, 100, 1)
	restoreOne(r, 7, 99, 1)
	require.EqualValues(t, 3, r.Old)
	require.EqualValues(t, 1, r.Samples)
	require.Zero(t, r.Unknown+r.Late)
	r.Close()
	require.EqualValues(t, 21, d.NextRef(), "a ref that the log names is never handed out")
	require.NoError(t, NewRestoration(d).Finish(1, func(Mapped) (uint64, chunkenc.ValueType, error) {
		return math.Float64bits(math.NaN()), chunkenc.ValFloat, nil
	}))
	require.EqualValues(t, 100, d.ByRef(7).Mint())
}
