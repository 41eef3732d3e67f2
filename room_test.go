package tsdb_test

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// A disk of 8 MiB is less than what was kept free of any disk once.
func TestRoom_ASmallDisk_MergesAndTakesSnapshots(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.Head.SnapshotThreshold = 64 << 10 })
	f.fs.SetCapacity(8 << 20)
	start := testNow.UnixMilli() / (2 * hour) * (2 * hour)
	f.scrapes(20, start-12*hour, start)
	want := f.all()
	require.NoError(t, f.db.Flush(ctx))
	require.NoError(t, f.db.Compact(ctx))
	require.EqualValues(t, 1, f.db.Stats().Merges, "of 6 h; the other blocks are too new")
	f.scrapes(20, start, start+hour)
	f.reopen()
	require.NotEmpty(t, f.db.OpenReport().Snapshot)
	for series, ps := range f.all() {
		require.Equal(t, want[series], ps[:len(want[series])])
	}
}

// What an error of a full disk says: what was wanted, for what, and what there is.
func TestRoom_ErrorsOfAFullDiskSayWhatWasWantedAndWhatThereIs(t *testing.T) {
	for purpose, c := range map[string]struct {
		hit string // a part of the path that finds no room
		do  func(*fixture) error
	}{
		"flush head:":                  {hit: "/tmp-", do: func(f *fixture) error { return f.db.Flush(ctx) }},
		"checkpoint log up to segment": {hit: "checkpoint", do: func(f *fixture) error { return f.db.Flush(ctx) }},
		"snapshot of the head:":        {hit: "head-snapshot", do: func(f *fixture) error { return tsdb.TakeHeadSnapshot(f.db) }},
		"snapshot into copy:":          {hit: "copy", do: func(f *fixture) error { return f.db.Snapshot(ctx, "copy") }},
		"merge 1 blocks from":          {hit: "/tmp-", do: cleanFirstBlock},
		"write log segment 0000000":    {hit: "wal", do: func(f *fixture) error { return appendOne(f.db, series(t, `{a="b"}`), testNow.UnixMilli()+2*minute) }},
		"write tombstones: ":           {hit: "tombstones", do: cleanFirstBlock},
		"snapshot into copy: ":         {hit: "wal", do: func(f *fixture) error { return f.db.Snapshot(ctx, "copy") }},
	} {
		t.Run(purpose, func(t *testing.T) {
			f := newFixture(t, manual)
			f.fs.SetCapacity(64 << 20)
			f.scrapes(5, testNow.UnixMilli()-hour, testNow.UnixMilli())
			require.NoError(t, f.db.Flush(ctx))
			f.scrapes(5, testNow.UnixMilli(), testNow.UnixMilli()+minute)
			f.fs.SetHook(func(op tsdbtest.Op) error {
				if op.Kind == tsdbtest.OpWrite && strings.Contains(op.Name, c.hit) {
					return syscall.ENOSPC
				}
				if op.Kind == tsdbtest.OpLink {
					return syscall.EXDEV
				}
				return nil
			})
			err := c.do(f)
			f.fs.SetHook(nil)
			require.ErrorIs(t, err, tsdb.ErrDiskFull)
			require.ErrorContains(t, err, purpose)
			require.Regexp(t, `about \d+ bytes are wanted, \d+ bytes are free`, err.Error())
			require.NotContains(t, err.Error(), "for the log")
			require.NoError(t, c.do(f), "there is room again")
		})
	}
}

// So do those of the out-of-order log, where nobody knows how much is wanted; and they say once
// what was done.
func TestRoom_ErrorsOfTheOutOfOrderLogSayWhatThereIs(t *testing.T) {
	flush := func(f *fixture) error { return f.db.Flush(ctx) }
	for purpose, c := range map[string]struct {
		window time.Duration
		hit    string
		do     func(*fixture) error
	}{
		"open out-of-order log: ": {0, "wbl", func(f *fixture) error { return f.db.SetOutOfOrderWindow(time.Hour) }},
		"flush late samples: begin a segment of the out-of-order log: ": {time.Hour, "wbl", flush},
		"flush late samples: write blocks: about ":                      {time.Hour, "/tmp-", flush},
	} {
		t.Run(purpose, func(t *testing.T) {
			f := newFixture(t, func(o *tsdb.Options) { o.Blocks.Manual, o.Head.OutOfOrderWindow = true, c.window })
			f.fs.SetCapacity(64 << 20)
			f.commit(sample{`{a="b"}`, testNow.UnixMilli(), 1})
			if c.window > 0 {
				f.commit(sample{`{a="b"}`, testNow.UnixMilli() - minute, 1})
				require.NoError(t, f.db.Delete(ctx, testNow.UnixMilli(), testNow.UnixMilli()))
			}
			f.fs.SetHook(func(op tsdbtest.Op) error {
				if op.Kind == tsdbtest.OpWrite && strings.Contains(op.Name, c.hit) {
					return syscall.ENOSPC
				}
				return nil
			})
			err := c.do(f)
			f.fs.SetHook(nil)
			require.ErrorIs(t, err, tsdb.ErrDiskFull)
			require.ErrorContains(t, err, purpose)
			require.Regexp(t, `\d+ bytes are free`, err.Error())
			require.Equal(t, 1, strings.Count(strings.Split(err.Error(), "\n")[0], strings.SplitAfter(purpose, ": ")[0]), err.Error())
			require.NoError(t, c.do(f), "there is room again")
		})
	}
}

func cleanFirstBlock(f *fixture) error {
	if err := f.db.Delete(ctx, testNow.UnixMilli()-hour, testNow.UnixMilli()-hour+minute); err != nil {
		return err
	}
	return f.db.CleanTombstones(ctx)
}

// A part of a small disk is kept, with segments of the log that are larger than the disk by
// default, and the disk is never full.
func TestRoom_RetentionByPercentOfASmallDisk(t *testing.T) {
	t.Parallel()
	disk, series := int64(64<<20), 800
	if !sweep.Whole() {
		disk, series = disk/4, series/4
	}
	for _, percent := range []float64{25, 50, 80} {
		t.Run(fmt.Sprint(percent), func(t *testing.T) {
			h := newHost(t, series, tsdb.BlockOptions{Range: 30 * time.Minute, MaxRange: 2 * time.Hour, RetentionPercent: percent, Manual: true})
			h.opts.WAL.SegmentSize = 0
			h.reopen()
			h.fs.SetCapacity(disk)
			_, total, err := h.fs.DiskSpace("data")
			require.NoError(t, err)
			limit := int64(float64(total) * percent / 100)
			var longest time.Duration
			for range 60 {
				h.run(30 * time.Minute)
				require.NoError(t, h.db.Compact(context.Background()))
				require.NoError(t, h.db.Health())
				require.LessOrEqual(t, h.db.Stats().BlockBytes+h.used("wal")+h.used("wal/*")+h.used("chunks_head"), limit)
				longest = max(longest, h.history())
			}
			require.NotZero(t, h.db.Stats().ByteRetentions, "the limit bound")
			require.NotZero(t, h.db.Stats().Merges)
			require.Greater(t, h.history(), longest/2, "and what it allows is kept")
			require.NotEmpty(t, h.db.Blocks())
		})
	}
}

// Wherever the room ends, the text is another one and the sentinel the same.
func TestSnapshot_OnAFullDiskIsErrDiskFullWhereverTheRoomEnds(t *testing.T) {
	f := newFixture(t, manual)
	f.scrapes(5, testNow.UnixMilli()-hour, testNow.UnixMilli())
	require.NoError(t, f.db.Flush(ctx))
	f.scrapes(5, testNow.UnixMilli(), testNow.UnixMilli()+hour)
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpLink {
			return syscall.EXDEV // another disk: everything is copied
		}
		return nil
	})
	defer f.fs.SetHook(nil)
	app := f.db.Appender()
	tries := 0
	for extra := int64(0); ; extra += 61 {
		f.fs.SetCapacity(f.fs.Used() + extra)
		if extra == 0 { // a commit has found the disk full before
			_, err := app.Append(0, series(t, `{a="b"}`), testNow.UnixMilli()+hour, 1)
			require.NoError(t, err)
			_, err = app.Commit(ctx)
			require.ErrorIs(t, err, tsdb.ErrDiskFull)
		}
		dir := fmt.Sprintf("copy%d", extra)
		err := f.db.Snapshot(ctx, dir)
		f.fs.SetCapacity(0)
		if err == nil {
			break
		}
		tries++
		require.ErrorIs(t, err, tsdb.ErrDiskFull, "%d bytes", extra)
		require.ErrorContains(t, err, "snapshot into "+dir)
		require.Empty(t, namesUnder(f.fs, dir))
	}
	require.Greater(t, tries, 50)
}
