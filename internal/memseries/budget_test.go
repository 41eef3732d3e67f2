package memseries

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/labels"
)

func numbered(i int) labels.Labels { return labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)) }

// fillTo creates series from a number on until one is refused, or all are there, and returns how
// many were created.
func fillTo(t *testing.T, d *Directory, from, to int) (n int) {
	t.Helper()
	for i := from; i < to; i++ {
		s, created, err := d.GetOrCreate(numbered(i))
		if err != nil {
			require.ErrorIs(t, err, ErrBudget)
			return n
		}
		require.True(t, created)
		s.Unpin()
		n++
	}
	return n
}

func TestBudget_OfSeries_IsExact(t *testing.T) {
	d := NewDirectory(defaultCutting)
	d.Budget.Limit(500, 0)
	var created, refused atomic.Int64
	var creators sync.WaitGroup
	for g := range 8 {
		creators.Go(func() {
			for i := range 1000 {
				switch _, isNew, err := d.GetOrCreate(numbered(i * (1 + g%2))); {
				case err != nil:
					refused.Add(1)
				case isNew:
					created.Add(1)
				}
			}
		})
	}
	creators.Wait()
	require.EqualValues(t, 500, created.Load())
	require.NotZero(t, refused.Load())
	require.Equal(t, 500, d.Len())
	_, _, err := d.GetOrCreate(numbered(-1))
	require.EqualError(t, err, "the head has 500 series, Head.MaxSeries is 500: no room for another series")

	s, isNew, err := d.GetOrCreate(numbered(0))
	require.NoError(t, err, "what is there is found")
	require.False(t, isNew)
	for s.pins.Load() > 0 {
		s.Unpin()
	}
	require.True(t, d.RemoveUnused(s))
	require.Equal(t, 1, fillTo(t, d, -2, 0), "one went, and one may come")
}

func TestBudget_OfBytes_IsExceededByALittle(t *testing.T) {
	d := NewDirectory(defaultCutting)
	const limit = 8 << 20
	d.Budget.Limit(0, limit)
	n := fillTo(t, d, 0, 1<<20)
	require.Less(t, n, 1<<20)
	require.GreaterOrEqual(t, d.SizeBytes(), int64(limit))
	require.Less(t, d.SizeBytes(), int64(limit+limit/16))
	_, _, err := d.GetOrCreate(numbered(-1))
	require.Regexp(t, `the head takes \d+ bytes, Head.MaxBytes is 8388608: `, err)

	for i := range n {
		s, _, err := d.GetOrCreate(numbered(i))
		require.NoError(t, err)
		s.Unpin()
		require.True(t, d.RemoveUnused(s))
	}
	d.Budget.Flushed()
	require.NotZero(t, fillTo(t, d, -1, 0), "after a flush it is measured again")
}

func TestBudget_WithoutLimits_RefusesNothing(t *testing.T) {
	d := NewDirectory(defaultCutting)
	d.Budget.Limit(-1, -1)
	require.Equal(t, 2000, fillTo(t, d, 0, 2000))
	require.False(t, d.Budget.Near())
	require.False(t, d.Budget.FlushHelps())
	require.False(t, d.Budget.EndedHelp(math.MaxInt64))
	d.Budget.Flushed()
}

// touched creates series whose newest sample is at a time.
func touched(t *testing.T, d *Directory, from, to int, at int64) {
	t.Helper()
	for i := from; i < to; i++ {
		s, _, err := d.GetOrCreate(numbered(i))
		require.NoError(t, err)
		s.Unpin()
		s.pendT.Store(at)
		s.SetLogged(true)
	}
}

func TestBudget_EndedHelp_WhenTheyAreASixteenth(t *testing.T) {
	const now = int64(1 << 40)
	for _, c := range []struct {
		limit, live, ended int
		want               bool
	}{
		{1000, 874, 0, false}, {1000, 800, 74, false}, // it is not near
		{1000, 875, 0, false}, {1000, 830, 45, false}, // it is, and too few have ended
		{1000, 825, 55, true}, {1000, 900, 100, true}, {1000, 0, 1000, true},
		{8, 7, 0, false}, {8, 6, 1, true}, {1, 1, 0, false}, {1, 0, 1, true},
	} {
		d := NewDirectory(defaultCutting)
		d.Budget.Limit(c.limit, 0)
		touched(t, d, 0, c.live, now)
		touched(t, d, c.live, c.live+c.ended, now-1)
		require.Equal(t, c.want, d.Budget.EndedHelp(now), "%+v", c)
	}
}

func TestBudget_AllSeriesAreLookedAtNowAndThen(t *testing.T) {
	const now = int64(1 << 40)
	d := NewDirectory(defaultCutting)
	d.Budget.Limit(10, 0)
	touched(t, d, 0, 10, now)
	require.False(t, d.Budget.EndedHelp(now))
	touched(t, d, 0, 5, now-1)
	require.False(t, d.Budget.EndedHelp(now+askEvery-1))
	require.True(t, d.Budget.EndedHelp(now+askEvery))
	require.True(t, d.Budget.EndedHelp(now), "time went back")
}

// What a flush cannot free is no reason to flush again.
func TestBudget_OfBytes_AFlushHelpsOnceForTheSame(t *testing.T) {
	d := NewDirectory(defaultCutting)
	const limit = 8 << 20
	d.Budget.Limit(0, limit)
	n := 0
	for ; !d.Budget.Near(); n++ {
		touched(t, d, n, n+1, math.MaxInt64)
	}
	require.True(t, d.Budget.FlushHelps())
	d.Budget.Flushed()
	require.False(t, d.Budget.FlushHelps(), "nothing has grown since")
	for d.SizeBytes() < limit && !d.Budget.FlushHelps() {
		touched(t, d, n, n+64, math.MaxInt64)
		n += 64
	}
	require.True(t, d.Budget.FlushHelps(), "it grew by a sixteenth")
}

// However series come and go, there are never more than the limit, and never one refused below it.
func TestBudget_HoldsTheNumberOfSeries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := NewDirectory(defaultCutting)
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		d.Budget.Limit(limit, 0)
		live := map[int]*Series{}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			i := rapid.IntRange(0, 30).Draw(t, "series")
			if s := live[i]; s != nil && rapid.Bool().Draw(t, "remove") {
				s.Unpin()
				require.True(t, d.RemoveUnused(s))
				delete(live, i)
				continue
			}
			s, created, err := d.GetOrCreate(numbered(i))
			require.Equal(t, live[i] == nil && len(live) == limit, err != nil)
			if created {
				live[i] = s
			} else if err == nil {
				s.Unpin()
			} else {
				require.True(t, strings.HasPrefix(err.Error(), fmt.Sprintf("the head has %d series", limit)))
			}
			require.Equal(t, len(live), d.Len())
			require.Equal(t, len(live) >= limit-limit/8, d.Budget.Near())
		}
	})
}
