package memseries

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/labels"
)

// copied is what Capture gave of a series, in a form that lasts.
type copied struct {
	Captured
	samples map[int64]float64 // of Chunk
}

// capture returns what Capture gives, by ref, and the refs in order.
func capture(t testing.TB, d *Directory, restored uint64) (map[uint64]copied, []uint64) {
	t.Helper()
	got := map[uint64]copied{}
	var order []uint64
	require.NoError(t, d.Capture(restored, func(c *Captured) error {
		require.NotContains(t, got, c.Ref)
		out := copied{Captured: *c, samples: map[int64]float64{}}
		out.Mapped = append([]Mapped(nil), c.Mapped...)
		if c.Chunk != nil {
			decodeInto(t, out.samples, c.Chunk, math.MaxInt64)
			require.Contains(t, out.samples, c.MinT)
			require.Equal(t, out.samples[c.MaxT], math.Float64frombits(c.LastSum))
		}
		if slices.ContainsFunc(c.Mapped, func(m Mapped) bool { return !inFile(m) }) {
			require.Fail(t, "a chunk that is in no file", "%+v", c.Mapped)
		}
		got[c.Ref], order = out, append(order, c.Ref)
		return nil
	}))
	return got, order
}

// logged makes a series that stands in the log.
func logged(t *testing.T, d *Directory, nameValues ...string) *Series {
	s := newSeries(t, d, nameValues...)
	s.SetLogged(true)
	return s
}

// count returns the samples from and to, closed, of one a minute: 120 to a chunk.
func count(from, to int64) map[int64]float64 {
	m := map[int64]float64{}
	for i := from; i <= to; i++ {
		m[i*60_000] = float64(i)
	}
	return m
}

func TestCapture_TakesTheFirstChunkThatIsInNoFile(t *testing.T) {
	d := NewDirectory(defaultCutting)
	var cs chunkStore
	seq := uint64(0)
	fill := func(s *Series, from, to int64) {
		for i := from; i <= to; i++ {
			seq++
			commit(d, seq, seq, s, i*60_000, float64(i))
		}
	}
	open, stored, waiting := logged(t, d, "s", "open"), logged(t, d, "s", "stored"), logged(t, d, "s", "waiting")
	fill(open, 0, 4)
	fill(stored, 0, 299)
	cs.write(d, cs.take(d))
	fill(waiting, 0, 419) // three full chunks that no file has
	got, order := capture(t, d, 1)
	require.Equal(t, []uint64{open.Ref(), stored.Ref(), waiting.Ref()}, order)

	require.Empty(t, got[open.Ref()].Mapped)
	require.Equal(t, count(0, 4), got[open.Ref()].samples)
	name, value := d.Postings().Label(got[open.Ref()].Pairs[0])
	require.Equal(t, "s=open", name+"="+value)

	require.Len(t, got[stored.Ref()].Mapped, 2)
	require.EqualValues(t, 239*60_000, got[stored.Ref()].Mapped[1].MaxT)
	require.EqualValues(t, 120, got[stored.Ref()].Mapped[1].Num)
	require.Equal(t, count(240, 299), got[stored.Ref()].samples)

	require.Empty(t, got[waiting.Ref()].Mapped)
	require.Equal(t, count(0, 119), got[waiting.Ref()].samples, "the log has the rest")

	fulls := cs.take(d) // on their way to a file
	again, _ := capture(t, d, 1)
	require.Equal(t, got[waiting.Ref()].samples, again[waiting.Ref()].samples)
	cs.write(d, fulls[:1])
	again, _ = capture(t, d, 1)
	require.Len(t, again[waiting.Ref()].Mapped, 1)
	require.Equal(t, count(120, 239), again[waiting.Ref()].samples)
	d.Shelf.Unwritten(fulls[1:])
	again, _ = capture(t, d, 1)
	require.Equal(t, count(120, 239), again[waiting.Ref()].samples)
	cs.write(d, cs.take(d))
	again, _ = capture(t, d, 1)
	require.Len(t, again[waiting.Ref()].Mapped, 3)
	require.Equal(t, count(360, 419), again[waiting.Ref()].samples)

	// Captures change nothing.
	for _, s := range []*Series{open, stored, waiting} {
		fill(s, 420, 421)
	}
	require.Len(t, cs.samples(t, d, waiting, nil), 422)
	require.Len(t, cs.samples(t, d, stored, nil), 302)
}

func TestCapture_LeavesOutWhatTheLogDoesNotKnow(t *testing.T) {
	d := NewDirectory(defaultCutting)
	old, err := restore(d, 3, labels.FromStrings("s", "restored, and empty"))
	require.NoError(t, err)
	far, err := restore(d, 1<<39, labels.FromStrings("s", "far"))
	require.NoError(t, err)
	nearer, err := restore(d, 1<<38, labels.FromStrings("s", "nearer"))
	require.NoError(t, err)
	require.NoError(t, NewRestoration(d).Finish(1, nil))
	restored := d.NextRef()
	require.Greater(t, restored, far.Ref())

	unlogged := newSeries(t, d, "s", "unlogged")
	onItsWay := logged(t, d, "s", "its first commit is on its way")
	d.Shards.Lock(Bit(onItsWay))
	onItsWay.Reserve(1, 0)
	d.Shards.Unlock(Bit(onItsWay))
	removed := newSeries(t, d, "s", "removed")
	removed.Unpin()
	require.True(t, d.RemoveUnused(removed))
	applied := logged(t, d, "s", "applied")
	commit(d, 2, 2, applied, 1, 1)

	got, order := capture(t, d, restored)
	require.Equal(t, []uint64{old.Ref(), nearer.Ref(), far.Ref(), applied.Ref()}, order)
	require.Nil(t, got[old.Ref()].Chunk)
	require.Empty(t, got[old.Ref()].Mapped)
	require.Equal(t, map[int64]float64{1: 1}, got[applied.Ref()].samples)
	require.NotContains(t, got, unlogged.Ref())

	commit(d, 3, 3, onItsWay, 1, 7)
	got, _ = capture(t, d, restored)
	require.Equal(t, map[int64]float64{1: 7}, got[onItsWay.Ref()].samples)
}

func TestCapture_AnErrorEndsIt(t *testing.T) {
	stop := errors.New("stop")
	for _, refs := range [][]uint64{{1, 2, 40, 5000}, {1 << 38, 1<<38 + 1}} {
		d := NewDirectory(defaultCutting)
		for _, ref := range refs {
			_, err := restore(d, ref, labels.FromStrings("ref", fmt.Sprint(ref)))
			require.NoError(t, err)
		}
		require.NoError(t, NewRestoration(d).Finish(1, nil))
		for at := range refs {
			calls := 0
			err := d.Capture(math.MaxUint64, func(*Captured) error {
				if calls++; calls > at {
					return stop
				}
				return nil
			})
			require.ErrorIs(t, err, stop)
			require.Equal(t, at+1, calls)
		}
	}
}

// Captures beside writers and new series: of each series a beginning without a hole, with all
// that was committed before the barrier.
func TestCapture_BesideCommits(t *testing.T) {
	const writers, perWriter, rounds, maxCaptures = 3, 20, 2000, 40
	d := NewDirectory(Cutting{Range: 7200_000, Samples: 8})
	var cs chunkStore
	var seq atomic.Uint64
	applied := make([][perWriter]atomic.Int64, writers) // samples of each series
	var writing atomic.Int64
	writing.Store(writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			defer writing.Add(-1)
			var all [perWriter]*Series
			for round := range rounds {
				for i := range all {
					if i > round/4 {
						continue // it comes later
					}
					if all[i] == nil {
						ls := labels.FromStrings("w", fmt.Sprint(w), "i", fmt.Sprint(i))
						s, _, err := d.GetOrCreate(ls)
						if err != nil {
							panic(err)
						}
						d.Shards.Lock(Bit(s))
						s.SetLogged(true)
						d.Shards.Unlock(Bit(s))
						all[i] = s
					}
					n := applied[w][i].Load() + 1
					var turns Turns
					reserve(d, all[i], n*1000, float64(n), &turns)
					apply(d, all[i], n*1000, float64(n), seq.Add(1), &turns)
					applied[w][i].Store(n)
				}
			}
		})
	}
	seen := 0
	check := func() {
		var before [writers][perWriter]int64
		for w := range before {
			for i := range before[w] {
				before[w][i] = applied[w][i].Load()
			}
		}
		d.Shards.Barrier()
		cs.write(d, cs.take(d))
		got, _ := capture(t, d, 1)
		names := map[[2]string]copied{}
		for _, c := range got {
			var name [2]string
			for _, p := range c.Pairs {
				if n, v := d.Postings().Label(p); n == "w" {
					name[0] = v
				} else {
					name[1] = v
				}
			}
			names[name] = c
		}
		for w := range before {
			for i, n := range before[w] {
				c, ok := names[[2]string{fmt.Sprint(w), fmt.Sprint(i)}]
				require.True(t, ok || n == 0)
				if ok {
					seen++
					requireBeginning(t, &cs, c, n)
				}
			}
		}
	}
	for range maxCaptures {
		if writing.Load() == 0 {
			break
		}
		check()
	}
	wg.Wait()
	check() // whoever was quicker, there is something now
	require.GreaterOrEqual(t, seen, writers*perWriter)
}

// requireBeginning checks that a copy has the samples 1 to some number, which is at least n.
func requireBeginning(t *testing.T, cs *chunkStore, c copied, n int64) {
	t.Helper()
	have := c.samples
	for _, m := range c.Mapped {
		before := len(have)
		decodeInto(t, have, cs.data[m.Ref], math.MaxInt64)
		require.Equal(t, int(m.Num), len(have)-before)
		require.True(t, c.Chunk == nil || m.MaxT < c.MinT)
	}
	require.GreaterOrEqual(t, len(have), int(n))
	for i := int64(1); i <= int64(len(have)); i++ {
		if have[i*1000] != float64(i) {
			require.Fail(t, "a hole", "at %d of %d", i, len(have))
		}
	}
}
