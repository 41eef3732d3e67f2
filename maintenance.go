package tsdb

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/background"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/wal"
)

const (
	// chunkWriteInterval is how long a full chunk waits for its file at most, unless many do.
	chunkWriteInterval = time.Second
	// flushInterval is how often is looked whether a part of the head is to become blocks.
	flushInterval = time.Second
	// snapshotInterval is how often is looked whether the head is to be snapshotted.
	snapshotInterval = time.Second
	// mergeInterval is how often is looked for blocks to merge or to remove, and for blocks
	// that somebody has put into the directory; a new block wakes who does so.
	mergeInterval = time.Minute
	// flushBackoff is how long a flush that failed waits.
	flushBackoff = 10 * time.Second
	// recoverInterval is how often an unfinished recovery is tried again.
	recoverInterval = time.Second
)

// start starts the loops that Close stops: one syncs the log, one writes full chunks, one flushes
// the head, one takes snapshots of it, others merge blocks. They are apart so that a slow chunk
// file never makes a sync late, and a flush never waits behind a merge.
func (db *DB) start() {
	if p := db.opts.WAL.Sync; p.Mode() == wal.ModeInterval {
		db.maintenance.loop(p.Interval(), nil, db.syncLog)
	}
	db.maintenance.loop(chunkWriteInterval, db.head.writer.Wake, db.writeChunks)
	s := snapshotTask{db: db} // by hand only, it just removes those that do not hold any more
	db.maintenance.loop(snapshotInterval, nil, func() {
		s.step()
		db.watchClock()
	})
	if !db.opts.Blocks.Manual {
		f := flusher{db: db}
		db.maintenance.loop(flushInterval, nil, f.step)
		for range db.opts.Blocks.Workers {
			db.maintenance.loop(mergeInterval, db.maintenance.newBlock, db.compactDue)
		}
	}
	if db.head.log.Load() == nil {
		db.maintenance.loop(recoverInterval, nil, db.finishRecovery)
	}
}

// maintenance is what runs between Open and Close, and what became of blocks by it or by calls.
type maintenance struct {
	clock      Clock
	background *background.Runner // of flushes, merges and what follows them
	newBlock   chan struct{}      // wakes who merges, and removes blocks
	stop       chan struct{}      // closed by Close: loops end
	loops      sync.WaitGroup

	flushes, flushErrors           atomic.Uint64
	merges, mergeErrors            atomic.Uint64
	reloads, reloadErrors          atomic.Uint64
	blocksRemoved                  atomic.Uint64
	timeRetentions, byteRetentions atomic.Uint64
}

func (m *maintenance) init(c Clock) {
	m.clock, m.newBlock, m.stop = c, make(chan struct{}, 1), make(chan struct{})
	m.background = newBackground(c)
}

// wake has somebody look for blocks to merge or to remove.
func (m *maintenance) wake() {
	select {
	case m.newBlock <- struct{}{}:
	default:
	}
}

// newBackground returns what runs maintenance. A test that brings a clock wants the same to happen
// each time, so the machine has no say in it: threads have the priority of all others.
func newBackground(c Clock) *background.Runner {
	if c == clock.System {
		return background.New(c)
	}
	return background.NewOrdinary(c)
}

// loop runs step at every tick, and when woken, until Close.
func (m *maintenance) loop(every time.Duration, wake <-chan struct{}, step func()) {
	ticker := m.clock.NewTicker(every)
	m.loops.Go(func() {
		defer ticker.Stop()
		for {
			select {
			case <-m.stop:
				return
			case <-ticker.C():
			case <-wake:
			}
			step()
		}
	})
}

// syncLog keeps the promise of SyncInterval, also while the log takes no more because the
// disk is full: what it took before is on its way. A failure poisons the log, which the next
// Commit reports.
func (db *DB) syncLog() {
	log, err := db.head.writable()
	if err != nil || errors.Is(log.Err(), ErrPoisoned) {
		return
	}
	if err := log.Sync(); err != nil {
		db.opts.Logger.Error("sync log", "error", logged(err))
	}
}

// writeChunks moves full chunks into files. When that fails they stay in memory and
// are tried again.
func (db *DB) writeChunks() {
	if log := db.head.log.Load(); log != nil {
		_ = db.heal(log) // or commits are refused as they were
	}
	if err := db.head.writeChunks(); err != nil {
		db.head.writer.Failed.Add(1)
		db.opts.Logger.Warn("write head chunks", "error", logged(err))
	}
}

// finishRecovery tries again to make room for what recovery must write.
func (db *DB) finishRecovery() {
	if db.head.log.Load() != nil {
		return
	}
	if err := db.head.recovery.finish(); err == nil {
		db.opts.Logger.Info("recovery finished, database takes writes", "dir", db.dir)
	}
}

// flusher makes blocks of what is due, and of everything when ingestion has stopped.
type flusher struct {
	db      *DB
	commits uint64 // at the last look
	since   clock.Passed
	notNow  time.Time // a flush failed, and is tried again then
	early   early
	ahead   ahead
}

func (f *flusher) step() {
	db, now := f.db, f.db.opts.Clock.Now()
	h := db.head
	passed := clock.PassedBy(db.opts.Clock)
	quiet, known := passed.After(f.since)
	if n := h.commits.done.Load(); n != f.commits || !known {
		f.commits, f.since, quiet = n, passed, 0
		h.trunc.idle.Store(false)
	}
	if now.Before(f.notNow) && f.notNow.Sub(now) <= flushBackoff || h.log.Load() == nil {
		return
	}
	db.flushing.Lock()
	defer db.flushing.Unlock()
	if ahead, due := f.ahead.due(h); ahead {
		if due {
			present, _ := h.bounds.leaves()
			f.note(db.leaveFuture(db.ctx, present))
		}
		return // no border is raised to where the clock never was
	}
	end, ok := h.bounds.due()
	if !ok {
		end, ok = f.early.due(h)
	}
	idle := !ok && quiet > db.opts.Blocks.Range && h.bounds.minT.Load() <= h.bounds.maxT.Load() && h.bounds.maxT.Load() < math.MaxInt64
	if idle {
		// Nothing was committed for a whole block range: there is no newer sample to wait
		// for, and what the head holds costs memory and the time of the next recovery.
		h.trunc.idle.Store(true)
		end, ok = h.bounds.maxT.Load()+1, true
	}
	var err error
	if ok {
		err = db.flushTo(db.ctx, end, idle)
	} else {
		err = db.collect() // what a Querier kept until now
	}
	f.note(db.flushLateDue(db.ctx, err))
	if ok {
		db.maintenance.wake()
	}
}

// note takes care that a flush that failed is not tried again at once.
func (f *flusher) note(err error) {
	if err == nil || f.db.ctx.Err() != nil {
		return
	}
	f.notNow = f.db.opts.Clock.Now().Add(flushBackoff)
	f.db.maintenance.flushErrors.Add(1)
	f.db.opts.Logger.Warn("flush head", "error", logged(err))
}

// reload takes up new blocks.
func (db *DB) reload() error {
	db.maintenance.reloads.Add(1)
	err := db.blocks.Reload()
	if err != nil {
		db.maintenance.reloadErrors.Add(1)
	}
	return err
}

// compactDue takes up new blocks, removes old ones and merges until nothing is due.
func (db *DB) compactDue() {
	if err := db.reload(); err != nil {
		db.opts.Logger.Warn("load new blocks", "error", logged(err))
	}
	old := db.retain(db.ctx) // nothing is merged that goes anyway
	if err := db.mergeAll(db.ctx, false); err != nil && db.ctx.Err() == nil {
		db.opts.Logger.Warn("merge blocks", "error", logged(err))
	}
	left := db.blocks.RemoveLeft()
	if old == nil {
		old = db.retain(db.ctx)
	}
	if err := fileutil.JoinErrors(left, old); err != nil {
		db.opts.Logger.Warn("remove old blocks", "error", logged(err))
	}
}
