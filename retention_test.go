package tsdb_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// host is a machine of some series that are sampled every ten seconds, in a file system in
// memory.
type host struct {
	*testing.T
	fs     *tsdbtest.MemFS
	clock  *tsdbtest.Clock
	opts   *tsdb.Options
	db     *tsdb.DB
	series []labels.Labels
	refs   []tsdb.SeriesRef
	rand   *rand.Rand
}

const hostInterval = 10 * time.Second

func newHost(t *testing.T, series int, blocks tsdb.BlockOptions) *host {
	h := &host{T: t, fs: tsdbtest.NewMemFS(), clock: tsdbtest.NewClock(testNow), rand: rand.New(rand.NewPCG(1, 2))}
	h.opts = &tsdb.Options{FS: h.fs, Clock: h.clock, WAL: tsdb.WALOptions{SegmentSize: 1 << 20, Sync: tsdb.SyncNever()}, Blocks: blocks}
	for i := range series {
		h.series = append(h.series, labels.FromStrings("__name__", "m", "i", strconv.Itoa(i)))
	}
	h.open()
	t.Cleanup(func() { _ = h.db.Close() })
	return h
}

func (h *host) open() {
	h.Helper()
	db, err := tsdb.Open("data", h.opts)
	require.NoError(h, err)
	h.db, h.refs = db, make([]tsdb.SeriesRef, len(h.series))
}

func (h *host) reopen() {
	h.Helper()
	require.NoError(h, h.db.Close())
	h.open()
}

// scrape lets time pass and commits a sample of each series.
func (h *host) scrape() error {
	h.clock.Advance(hostInterval)
	app, now := h.db.Appender(), h.clock.Now().UnixMilli()
	for i, ls := range h.series {
		ref, err := app.Append(h.refs[i], ls, now, h.rand.Float64())
		if err != nil {
			return err
		}
		h.refs[i] = ref
	}
	_, err := app.Commit(context.Background())
	return err
}

// run scrapes for a while.
func (h *host) run(d time.Duration) {
	h.Helper()
	for range d / hostInterval {
		require.NoError(h, h.scrape())
	}
}

// fill scrapes until the disk is full.
func (h *host) fill() {
	h.Helper()
	for refused := 0; refused < 20; {
		if err := h.scrape(); err != nil {
			require.ErrorIs(h, err, tsdb.ErrDiskFull)
			refused++
		}
	}
}

// history is how far back the samples go.
func (h *host) history() time.Duration {
	oldest := h.db.Stats().MinT
	for _, b := range h.db.Blocks() {
		oldest = min(oldest, b.MinTime)
	}
	return h.clock.Now().Sub(time.UnixMilli(oldest))
}

// used are the bytes below a directory of the database.
func (h *host) used(below string) (n int64) {
	for _, path := range h.fs.Files() {
		if ok, _ := filepath.Match(filepath.Join("data", below), filepath.Dir(path)); ok {
			info, err := h.fs.Stat(path)
			require.NoError(h, err)
			n += info.Size()
		}
	}
	return n
}

// What is dead in head-chunk files and in the log costs no history: it goes at every truncation.
func TestRetention_ByBytes_KeepsAsMuchHistoryAsTheBytesAllow(t *testing.T) {
	t.Parallel()
	const limit, hours = 24 << 20, 48
	reopened := []time.Duration{31 * time.Hour, 0, 30 * time.Minute}
	for _, reopened := range reopened[:fewer(3, 1)] {
		t.Run(fmt.Sprint(reopened), func(t *testing.T) {
			h := newHost(t, 300, tsdb.BlockOptions{Range: 30 * time.Minute, MaxRange: 30 * time.Minute, RetentionBytes: limit, Manual: true})
			for hour := range time.Duration(hours) {
				for half := range time.Duration(2) {
					h.run(30 * time.Minute)
					if hour*time.Hour+half*30*time.Minute == reopened && reopened > 0 {
						h.reopen()
					}
					require.NoError(t, h.db.Compact(context.Background()))
				}
				s := h.db.Stats()
				perHour := float64(s.BlockBytes) / float64(len(h.db.Blocks())) * 2
				head := h.used("wal") + h.used("wal/*") + h.used("chunks_head")
				require.LessOrEqual(t, s.BlockBytes+head, int64(limit))
				require.Less(t, float64(head), 6*perHour, "the head holds an hour at most, in its log and in its chunks")
				allowed := min(float64(hour+1), (limit-float64(head))/perHour)
				require.Greater(t, h.history().Hours(), allowed-1, "after %d h", hour+1)
			}
			require.Less(t, h.history().Hours(), float64(hours)-4, "the limit bound at all")
		})
	}
}

// A process that is killed between a flush and the shortening of the log leaves a log of which half
// is dead. No block goes for those bytes.
func TestRetention_ByBytes_TakesNothingForADeadLogThatAKillLeft(t *testing.T) {
	h := newHost(t, 300, tsdb.BlockOptions{Range: 30 * time.Minute, MaxRange: 30 * time.Minute, RetentionBytes: 2 << 20, Manual: true})
	for range 4 {
		h.run(30 * time.Minute)
		require.NoError(t, h.db.Compact(context.Background()))
	}
	h.run(30 * time.Minute)
	flushed := h.db.Stats().Flushes
	var killed *tsdbtest.MemFS
	h.fs.SetHook(func(op tsdbtest.Op) error {
		if killed == nil && op.Name == "data/tmp-checkpoint" && h.db.Stats().Flushes > flushed {
			killed = h.fs.KillClone()
		}
		return nil
	})
	require.NoError(t, h.db.Compact(context.Background()))
	h.fs.SetHook(nil)
	require.NotNil(t, killed)
	want := h.history()
	require.NoError(t, h.db.Close())
	h.fs, h.opts.FS = killed, killed
	h.open()
	log := h.used("wal") + h.used("wal/*")
	require.NoError(t, h.db.Compact(context.Background()))
	require.Equal(t, want, h.history())
	require.Less(t, h.used("wal")+h.used("wal/*"), log*2/3, "some of it was dead")
}

// A disk that is full of blocks has room again when they go, and their going needs none.
func TestRetention_OnAFullDisk_MakesRoom(t *testing.T) {
	t.Parallel()
	capacity := int64(24 << 20)
	if !sweep.Whole() {
		capacity /= 2
	}
	full := func(t *testing.T) *host {
		h := newHost(t, 500, tsdb.BlockOptions{Range: 30 * time.Minute, MaxRange: 30 * time.Minute}) // nothing is merged
		h.fs.SetCapacity(capacity)
		h.fill()
		require.ErrorIs(t, h.db.Health(), tsdb.ErrDiskFull)
		return h
	}
	t.Run("by a lower limit", func(t *testing.T) {
		h := full(t)
		require.NoError(t, h.db.Close())
		h.opts.Blocks.RetentionBytes = capacity / 2
		h.open()
		blocks := uint64(len(h.db.Blocks()))
		// There is room within two minutes; the second after that tells the log. The head, which
		// had none, is flushed beside this.
		require.Eventually(t, func() bool {
			h.clock.Advance(time.Minute)
			s := h.db.Stats()
			return 2*s.BlocksRemoved > blocks && blocks+s.Flushes-s.BlocksRemoved == uint64(s.Blocks) && h.db.Health() == nil
		}, patience, time.Millisecond)
		h.run(time.Hour)
	})
	t.Run("by a call of Compact", func(t *testing.T) {
		h := full(t)
		require.NoError(t, h.db.Close())
		h.opts.Blocks.RetentionBytes, h.opts.Blocks.Manual = capacity/2, true
		h.open()
		require.NoError(t, h.db.Compact(context.Background()))
		require.LessOrEqual(t, h.db.Stats().BlockBytes, capacity/2)
		h.run(time.Hour)
	})
	t.Run("by Delete of all that is old", func(t *testing.T) {
		h := full(t)
		bs := h.db.Blocks()
		require.NoError(t, h.db.Delete(context.Background(), math.MinInt64, bs[len(bs)/2].MaxTime-1))
		require.Less(t, len(h.db.Blocks()), len(bs)*2/3)
		h.run(time.Hour)
	})
	t.Run("Delete by matchers says that it could not", func(t *testing.T) {
		h := full(t)
		bs := h.db.Blocks()
		h.fs.SetCapacity(1) // what is given back meanwhile is no room either
		err := h.db.Delete(context.Background(), math.MinInt64, math.MaxInt64, labels.Equal("i", "1"))
		require.ErrorIs(t, err, tsdb.ErrDiskFull)
		require.Len(t, h.db.Blocks(), len(bs), "nothing else goes")
	})
}

// What is left of nothing is not written: such a block goes on a full disk, too.
func TestCleanTombstones_OnAFullDisk_LetsGoOfWhatIsWhollyDeleted(t *testing.T) {
	h := newHost(t, 100, tsdb.BlockOptions{Range: 30 * time.Minute, Manual: true})
	h.run(3 * time.Hour)
	require.NoError(t, h.db.Compact(context.Background()))
	bs := h.db.Blocks()
	require.NoError(t, h.db.Delete(context.Background(), bs[0].MinTime, bs[1].MaxTime-1))
	full := h.fs.Used()
	h.fs.SetCapacity(full)
	require.NoError(t, h.db.CleanTombstones(context.Background()))
	require.Len(t, h.db.Blocks(), len(bs)-2)
	require.Less(t, h.fs.Used(), full)
}
