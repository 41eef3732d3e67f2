package tsdb_test

import (
	"context"
	"math"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/horizon"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// halfHours are blocks of half an hour that are never merged.
func halfHours(manual bool) tsdb.BlockOptions {
	return tsdb.BlockOptions{Range: 30 * time.Minute, MaxRange: 30 * time.Minute, Manual: manual}
}

// runAndCompact scrapes for some half hours, with maintenance behind each.
func (h *host) runAndCompact(halves int) {
	h.Helper()
	for range halves {
		h.run(30 * time.Minute)
		require.NoError(h, h.db.Compact(context.Background()))
	}
}

func TestSetRetention_ByTime_BindsFromTheNextMaintenanceOn(t *testing.T) {
	h := newHost(t, 3, halfHours(true))
	h.runAndCompact(12)
	require.Equal(t, 6*time.Hour-hostInterval, h.history())
	require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{Duration: 2 * time.Hour}))
	require.Equal(t, tsdb.RetentionLimits{Duration: 2 * time.Hour}, h.db.Retention())
	require.Equal(t, 6*time.Hour-hostInterval, h.history(), "by hand only, nothing goes before Compact")
	require.NoError(t, h.db.Compact(context.Background()))
	require.LessOrEqual(t, h.history(), 150*time.Minute)
	require.Greater(t, h.history(), 2*time.Hour)
	require.NotZero(t, h.db.Stats().TimeRetentions)

	h.runAndCompact(4)
	require.LessOrEqual(t, h.history(), 150*time.Minute, "it goes on")
	require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{Duration: 3 * time.Hour}))
	h.runAndCompact(4)
	require.Greater(t, h.history(), 3*time.Hour, "a longer one keeps more")
	require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{}))
	h.runAndCompact(6)
	require.Greater(t, h.history(), 6*time.Hour, "none keeps all")
	require.Zero(t, h.db.Options().Blocks.Retention, "Options are what it was opened with")

	h.reopen()
	require.Equal(t, tsdb.RetentionLimits{}, h.db.Retention(), "the next Open goes by its options")
}

func TestSetRetention_ByBytesAndByPercent(t *testing.T) {
	const disk = 16 << 20
	h := newHost(t, 200, halfHours(true))
	h.fs.SetCapacity(disk)
	h.runAndCompact(12)
	all := h.db.Stats().BlockBytes
	require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{Bytes: 2 * all / 3}))
	require.NoError(t, h.db.Compact(context.Background()))
	blocks := len(h.db.Blocks())
	require.Less(t, h.db.Stats().BlockBytes, all)
	require.NotZero(t, h.db.Stats().ByteRetentions)
	require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{Bytes: disk, Percent: 100 * float64(all) / 2 / disk}))
	require.NoError(t, h.db.Compact(context.Background()))
	require.Less(t, len(h.db.Blocks()), blocks, "the disk is known, so the percentage counts")
	require.NotEmpty(t, h.db.Blocks())
}

// The clock does not move: nobody but SetRetention wakes who removes blocks.
func TestSetRetention_WakesMaintenance(t *testing.T) {
	h := newHost(t, 3, halfHours(false))
	h.run(6 * time.Hour)
	require.NoError(t, h.db.Compact(context.Background()))
	require.Greater(t, len(h.db.Blocks()), 6)
	require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{Duration: time.Hour}))
	require.Eventually(t, func() bool { return len(h.db.Blocks()) <= 3 }, patience, time.Millisecond)
}

func TestSetRetention_WhatCannotBeMeant_ChangesNothing(t *testing.T) {
	h := newHost(t, 1, halfHours(true))
	h.opts.Blocks.RetentionBytes = 1 << 40
	h.reopen()
	for _, percent := range []float64{100.5, math.NaN(), math.Inf(1), math.Inf(-1)} {
		err := h.db.SetRetention(tsdb.RetentionLimits{Percent: percent})
		require.ErrorIs(t, err, tsdb.ErrInvalidArgument)
		require.ErrorContains(t, err, "set retention: Percent is")
		require.Equal(t, tsdb.RetentionLimits{Bytes: 1 << 40}, h.db.Retention())
	}
	require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{Duration: -1, Bytes: -1, Percent: -1}))
	require.NoError(t, h.db.Close())
	require.ErrorIs(t, h.db.SetRetention(tsdb.RetentionLimits{}), tsdb.ErrClosed)
}

// A retention that begins late trusts the clock no more than one that is there from the start.
func TestSetRetention_AClockThatIsSetBehindIt_TakesNothing(t *testing.T) {
	const year = 365 * 24 * time.Hour
	h := newHost(t, 3, halfHours(true))
	h.runAndCompact(10)
	blocks := len(h.db.Blocks())
	require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{Duration: 6 * time.Hour}))
	h.clock.Set(h.clock.Now().Add(10 * year))
	require.NoError(t, h.scrape())
	require.NoError(t, h.db.Compact(context.Background()))
	require.GreaterOrEqual(t, len(h.db.Blocks()), blocks)
	require.ErrorIs(t, h.db.Health(), tsdb.ErrClock)

	require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{}))
	require.NoError(t, h.db.Health(), "nothing waits any more")
	require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{Duration: 6 * time.Hour}))
	require.NoError(t, h.db.Compact(context.Background()))
	require.GreaterOrEqual(t, len(h.db.Blocks()), blocks, "to turn it off and on again is no way to believe the clock")
	require.ErrorIs(t, h.db.Health(), tsdb.ErrClock)
}

func TestSetRetention_AHorizonThatCannotBeRead_BeginsNoRetention(t *testing.T) {
	h := newRetainingHost(t)
	blocks := len(h.db.Blocks())
	require.NoError(t, h.db.Close())
	fs := faultfs.New(h.fs)
	h.opts.FS, h.opts.Blocks.Retention = fs, 0
	h.open()
	fault := faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpOpen}, Match: func(op tsdbtest.Op) bool { return op.Name == "data/"+horizon.FileName }, Err: syscall.EMFILE}
	fs.Inject(fault)
	err := h.db.SetRetention(tsdb.RetentionLimits{Duration: time.Hour})
	require.ErrorIs(t, err, syscall.EMFILE)
	require.ErrorContains(t, err, "set retention: read horizon of retention")
	require.Zero(t, h.db.Retention())
	require.NoError(t, h.db.Compact(context.Background()))
	require.GreaterOrEqual(t, len(h.db.Blocks()), blocks)
	require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{Duration: time.Hour}))
	require.NoError(t, h.db.Compact(context.Background()))
	require.Less(t, len(h.db.Blocks()), blocks)
}

func TestSetRetention_BesideCommitsAndMaintenance(t *testing.T) {
	h := newHost(t, 5, halfHours(false))
	ends := make(chan struct{})
	var setters sync.WaitGroup
	for i := range 2 {
		setters.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-ends:
					return
				default:
				}
				l := tsdb.RetentionLimits{Duration: time.Duration(n%3) * time.Hour, Bytes: int64(n%2) << 30, Percent: float64(i * (n % 50))}
				if err := h.db.SetRetention(l); err != nil {
					t.Errorf("set retention: %v", err)
					return
				}
				_ = h.db.Retention()
			}
		})
	}
	h.run(4 * time.Hour)
	require.NoError(t, h.db.Compact(context.Background()))
	close(ends)
	setters.Wait()
	require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{Duration: time.Hour}))
	require.NoError(t, h.db.Compact(context.Background()))
	require.LessOrEqual(t, h.history(), 2*time.Hour)
}

// What was chosen by the limits before stays, once SetRetention has returned.
func TestSetRetention_WhileBlocksAreChosen_NothingGoesByTheLimitsBefore(t *testing.T) {
	var h *host
	armed := false
	b := halfHours(true)
	b.Keep = func(tsdb.BlockMeta) bool {
		if armed {
			armed = false
			require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{}))
		}
		return false
	}
	h = newHost(t, 3, b)
	h.runAndCompact(12)
	require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{Duration: time.Hour}))
	armed = true
	before := len(h.db.Blocks())
	require.NoError(t, h.db.Compact(ctx))
	require.False(t, armed)
	require.Len(t, h.db.Blocks(), before)
}

// A clock that is wrong is not believed sooner because retention was shorter when it went wrong.
func TestSetRetention_LongerWhileTheClockIsInDoubt_TakesNothing(t *testing.T) {
	h := newHost(t, 3, halfHours(true))
	h.opts.Blocks.Retention = 6 * time.Hour
	h.reopen()
	h.runAndCompact(11)
	h.clock.Set(h.clock.Now().Add(3650 * 24 * time.Hour))
	require.NoError(t, h.scrape())
	require.NoError(t, h.db.Compact(ctx))
	require.ErrorIs(t, h.db.Health(), tsdb.ErrClock)
	require.NoError(t, h.db.SetRetention(tsdb.RetentionLimits{Duration: 60 * time.Hour}))
	oldest := h.db.Blocks()[0].MinTime
	h.runAndCompact(13)
	require.Equal(t, oldest, h.db.Blocks()[0].MinTime)
}
