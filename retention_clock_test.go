package tsdb_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/horizon"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const retained = 6 * time.Hour

// newRetainingHost has run for five of the six hours that are kept.
func newRetainingHost(t *testing.T) *host {
	h := newHost(t, 3, tsdb.BlockOptions{Range: 30 * time.Minute, MaxRange: 30 * time.Minute, Retention: retained, Manual: true})
	for range 10 {
		h.run(30 * time.Minute)
		require.NoError(t, h.db.Compact(context.Background()))
	}
	return h
}

// requireKept requires the blocks of before the clock was set that an honest clock would keep.
func (h *host) requireKept(set, honest time.Time) {
	h.Helper()
	oldest := set
	for _, b := range h.db.Blocks() {
		if start := time.UnixMilli(b.MinTime); start.Before(oldest) {
			oldest = start
		}
	}
	allowed := honest.Add(-retained)
	if allowed.Before(testNow) {
		allowed = testNow
	}
	require.False(h, oldest.After(allowed.Add(30*time.Minute)), "history begins at %s, an honest clock keeps what is since %s", oldest, allowed)
}

func TestRetention_AClockThatIsSet_TakesNothingThatAnHonestOneKeeps(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	for _, jump := range []time.Duration{time.Hour, -time.Hour, 10 * year, -10 * year} {
		for _, restart := range []string{"none", "before", "after"} {
			t.Run(fmt.Sprintf("%s, restart %s", jump, restart), func(t *testing.T) {
				h := newRetainingHost(t)
				set := h.clock.Now()
				if restart == "before" {
					require.NoError(t, h.db.Close())
					h.clock.Set(set.Add(jump))
					h.open()
				}
				h.clock.Set(set.Add(jump))
				for half := range time.Duration(5 * 2) {
					for range 30 * time.Minute / hostInterval {
						_ = h.scrape() // times that fell are refused
					}
					if restart == "after" && half == 3 {
						h.reopen()
					}
					require.NoError(t, h.db.Compact(context.Background()))
					h.requireKept(set, set.Add((half+1)*30*time.Minute))
				}
				behind := h.db.Stats().RetentionBehind
				if jump < 0 {
					require.Zero(t, behind)
					require.NotErrorIs(t, h.db.Health(), tsdb.ErrClock)
					return
				}
				require.InDelta(t, jump, behind, float64(time.Minute))
				require.ErrorIs(t, h.db.Health(), tsdb.ErrClock)

				// When six hours have passed what was before is too old by any clock.
				for range 4 {
					h.run(30 * time.Minute)
					require.NoError(t, h.db.Compact(context.Background()))
				}
				require.Zero(t, h.db.Stats().RetentionBehind)
				require.NoError(t, h.db.Health())
				require.Less(t, h.history(), retained+time.Hour)
			})
		}
	}
}

// One sample of a far time, and a clock that goes there, too.
func TestRetention_OneSampleOfAWrongClock_RemovesNothing(t *testing.T) {
	h := newRetainingHost(t)
	blocks, now := len(h.db.Blocks()), h.clock.Now()
	h.clock.Set(now.AddDate(10, 0, 0))
	require.NoError(t, h.scrape())
	require.NoError(t, h.db.Compact(context.Background()))
	require.GreaterOrEqual(t, len(h.db.Blocks()), blocks)
	h.reopen()
	require.NoError(t, h.db.Compact(context.Background()))
	require.GreaterOrEqual(t, len(h.db.Blocks()), blocks)
}

// Time that passed while the database was closed is known by the same clock, and waited for by
// another one, as after a start of the machine.
func TestRetention_AfterABreak_GoesByWhatPassed(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprint(restarted), func(t *testing.T) {
			h := newRetainingHost(t)
			require.NoError(t, h.db.Close())
			h.clock.Advance(3 * time.Hour)
			if restarted {
				h.clock = tsdbtest.NewClock(h.clock.Now())
				h.opts.Clock = h.clock
			}
			h.open()
			require.NoError(t, h.scrape())
			require.NoError(t, h.db.Compact(context.Background()))
			if !restarted {
				require.Less(t, h.history(), retained+time.Hour)
				return
			}
			require.Greater(t, h.history(), 7*time.Hour)
			require.InDelta(t, 3*time.Hour, h.db.Stats().RetentionBehind, float64(time.Minute))
			require.ErrorContains(t, h.db.Health(), horizon.FileName)
			require.NoError(t, h.db.Close())
			require.NoError(t, h.fs.Remove("data/"+horizon.FileName), "as the error says")
			h.open()
			require.NoError(t, h.scrape())
			require.NoError(t, h.db.Compact(context.Background()))
			require.Less(t, h.history(), retained+time.Hour)
			require.NoError(t, h.db.Health())
		})
	}
}

func TestRetention_ADamagedHorizon_IsToldAndMadeAnew(t *testing.T) {
	h := newRetainingHost(t)
	blocks := len(h.db.Blocks())
	require.NoError(t, h.db.Close())
	require.NoError(t, h.fs.WriteFile("data/"+horizon.FileName, []byte("no horizon")))
	h.open()
	require.NoError(t, h.db.Compact(context.Background()))
	require.Len(t, h.db.Blocks(), blocks)
	_, _, err := horizon.Read(h.fs, "data")
	require.NoError(t, err)
}

// A wrong clock that lasted is believed. What is written when it is right again goes by that clock:
// neither it nor what came before is too old when the wrong one comes back.
func TestRetention_AWrongClockThatComesBack_TakesNothingThatAnHonestOneKeeps(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprintf("restart %t", restart), func(t *testing.T) {
			h := newRetainingHost(t)
			h.clock.Set(h.clock.Now().Add(10 * year))
			for range 14 {
				h.run(30 * time.Minute)
				require.NoError(t, h.db.Compact(context.Background()))
			}
			require.Zero(t, h.db.Stats().RetentionBehind, "it is believed")
			set := h.clock.Now().Add(-10 * year)
			h.clock.Set(set)
			require.NoError(t, h.db.Flush(context.Background()), "the head leaves the future")
			for range 8 {
				h.run(30 * time.Minute)
				require.NoError(t, h.db.Compact(context.Background()))
			}
			if restart {
				h.reopen()
			}
			h.clock.Set(h.clock.Now().Add(10 * year))
			require.NoError(t, h.scrape())
			require.NoError(t, h.db.Compact(context.Background()))
			var kept []time.Duration
			for _, b := range h.db.Blocks() {
				if at := time.UnixMilli(b.MinTime).Sub(set); at >= 0 && at < year {
					kept = append(kept, at.Round(30*time.Minute))
				}
			}
			require.GreaterOrEqual(t, len(kept), 8, "of the four hours between: %s", kept)
			require.Zero(t, kept[0])
			require.ErrorIs(t, h.db.Health(), tsdb.ErrClock)
		})
	}
}

// A file that cannot be read now says no less than one that can: a wrong clock must not take its
// place.
func TestRetention_AHorizonThatCannotBeRead_IsNotMadeAnew(t *testing.T) {
	for _, kind := range []tsdbtest.OpKind{tsdbtest.OpStat, tsdbtest.OpOpen, tsdbtest.OpSize, tsdbtest.OpReadAt} {
		t.Run(kind.String(), func(t *testing.T) {
			h := newRetainingHost(t)
			blocks, now := len(h.db.Blocks()), h.clock.Now()
			require.NoError(t, h.db.Close())
			before, err := h.fs.ReadFile("data/" + horizon.FileName)
			require.NoError(t, err)

			h.clock.Set(now.AddDate(10, 0, 0))
			opts, fs := *h.opts, faultfs.New(h.fs)
			opts.FS = fs
			fs.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{kind}, Match: func(op tsdbtest.Op) bool { return op.Name == "data/"+horizon.FileName }, Err: syscall.EMFILE})
			_, err = tsdb.Open("data", &opts)
			require.ErrorIs(t, err, syscall.EMFILE)
			require.ErrorContains(t, err, "read horizon of retention")
			require.Empty(t, h.fs.OpenHandles())
			after, err := h.fs.ReadFile("data/" + horizon.FileName)
			require.NoError(t, err)
			require.Equal(t, before, after)

			h.open()
			require.NoError(t, h.scrape())
			require.NoError(t, h.db.Compact(context.Background()))
			require.GreaterOrEqual(t, len(h.db.Blocks()), blocks)
		})
	}
}
