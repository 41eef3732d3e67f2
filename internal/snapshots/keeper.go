package snapshots

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/wal"
)

// Config is what a Keeper goes by. It does not change.
type Config struct {
	FS          fileutil.FS
	Dir         string // the data directory
	WALDir      string // where the log is
	Clock       clock.Clock
	Logger      *slog.Logger
	Threshold   int64 // bytes of log that are worth a snapshot; negative: none is taken or read
	Manual      bool  // none is taken but by Take
	Compression *wal.Codec
}

// Keeper takes snapshots of a head, and removes them. Who calls it holds the lock of who flushes
// the head, or is alone, but for Counts, which anybody may call, and Waits, which is for who calls
// Step.
type Keeper struct {
	Config

	newest newest
	looked looked

	notNow  time.Time // one failed, and is tried again then
	backoff time.Duration

	taken, failed atomic.Uint64
}

// newest is what is known of the newest snapshot.
type newest struct {
	segment int   // that it continues with; 0: there is none
	bytes   int64 // its size
	nextSeq uint64
}

// looked is what was found when the log was listed last.
type looked struct {
	segment int    // that the newest snapshot continued with
	written uint64 // bytes, by the log
	lacking int64  // bytes until another one is due
}

// A snapshot that failed is tried again after minBackoff, and then later each time.
const (
	minBackoff = 10 * time.Second
	maxBackoff = 10 * time.Minute
)

// Counts returns how many snapshots were taken, and how many failed.
func (k *Keeper) Counts() (taken, failed uint64) { return k.taken.Load(), k.failed.Load() }

// Newest returns the name and the size of the newest snapshot; an empty name: there is none.
func (k *Keeper) Newest() (name string, bytes int64) {
	if k.newest.segment == 0 {
		return "", 0
	}
	return headsnap.Name(k.newest.segment), k.newest.bytes
}

// Waits reports whether a snapshot failed not long ago.
func (k *Keeper) Waits() bool {
	now := k.Clock.Now()
	return now.Before(k.notNow) && k.notNow.Sub(now) <= maxBackoff
}

// Step takes a snapshot if one is due. A failure is logged, and counted.
func (k *Keeper) Step(ctx context.Context, h *Head) {
	now := k.Clock.Now()
	due, err := k.due(h)
	if err == nil && due {
		err = k.Take(ctx, h)
	}
	switch {
	case err == nil:
		k.backoff = 0
	case ctx.Err() == nil:
		// Each try begins a log segment, and may write much in vain.
		k.backoff = min(max(2*k.backoff, minBackoff), maxBackoff)
		k.notNow = now.Add(k.backoff)
		k.fail(err)
	}
}

func (k *Keeper) fail(err error) {
	k.failed.Add(1)
	k.Logger.Warn("snapshot of the head", "error", fileutil.Logged(err))
}

// due reports whether so much log stands behind the last snapshot that the next Open
// is worth another one: more than the threshold, and so much that snapshots stay a part of
// what is written.
func (k *Keeper) due(h *Head) (bool, error) {
	if h.Damaged {
		if k.newest.segment == 0 {
			return false, nil
		}
		return false, k.drop()
	}
	if k.Manual || k.Threshold < 0 || h.Unread {
		return false, nil
	}
	written, l := h.Log.Stats().Bytes, &k.looked
	if l.segment == k.newest.segment && l.lacking > 0 && written-l.written < uint64(l.lacking) {
		return false, nil // whatever was removed since
	}
	list, err := wal.List(k.FS, k.WALDir)
	if err != nil {
		return false, err
	}
	*l = looked{k.newest.segment, written, max(k.Threshold, 2*k.newest.bytes) - list.BytesFrom(k.newest.segment) + 1}
	return l.lacking <= 0, nil
}

// closeShare is which part of the threshold is enough for a snapshot when the database is
// closed: there nobody waits behind it, and what is less is read in some milliseconds.
const closeShare = 64

// AtClose takes a last snapshot, if there is much log that the newest one does not
// have. Commits that had begun may still come.
func (k *Keeper) AtClose(h *Head) {
	if h.Damaged {
		if err := k.drop(); err != nil {
			k.Logger.Warn("remove snapshots of the head", "error", fileutil.Logged(err))
		}
		return
	}
	if k.Manual || k.Threshold < 0 || h.Unread || h.Log.Err() != nil || h.Series.Len() == 0 {
		return
	}
	if k.newest.segment > 0 && k.newest.nextSeq == h.Log.LastSeq()+1 {
		return
	}
	list, err := wal.List(k.FS, k.WALDir)
	if err != nil || list.BytesFrom(k.newest.segment) < k.Threshold/closeShare {
		return
	}
	if err := k.Take(context.Background(), h); err != nil {
		k.fail(err)
	}
}

// RemoveOthers removes all snapshots but the newest one that is known.
func (k *Keeper) RemoveOthers() error {
	return headsnap.RemoveOthers(k.FS, k.Dir, k.newest.segment)
}

// SetAsideOthers moves them into a directory instead.
func (k *Keeper) SetAsideOthers(quarantine string) error {
	return headsnap.SetAsideOthers(k.FS, k.Dir, quarantine, k.newest.segment)
}

// Pass removes a snapshot that continues with a segment of the log which is gone: nobody can
// use it any more. How large it was says how large the next one gets.
func (k *Keeper) Pass(upTo int) error {
	if k.newest.segment == 0 || k.newest.segment > upTo {
		return nil
	}
	k.newest.segment = 0
	return k.RemoveOthers()
}

// drop makes the next Open read the whole log, as a chunk file is damaged.
func (k *Keeper) drop() error {
	k.newest = newest{}
	return k.RemoveOthers()
}
