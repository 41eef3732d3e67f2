package tsdb

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/background"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/schedule"
	"github.com/seed347100a3/tsdb/wal"
)

const (
	// lookInterval is how often is looked whether full chunks wait for their file, whether a part
	// of the head is to become blocks, or the head is to be snapshotted, and whether an unfinished
	// recovery can go on.
	lookInterval = time.Second
	// mergeInterval is how often is looked for blocks to merge or to remove, and for blocks
	// that somebody has put into the directory; a new block wakes who does so.
	mergeInterval = time.Minute
	// flushBackoff is how long a flush that failed waits.
	flushBackoff = 10 * time.Second
)

// start starts what Close stops: somebody syncs the log, somebody writes full chunks, somebody
// flushes the head, somebody takes snapshots of it, others merge blocks. They are apart so that a
// slow chunk file never makes a sync late, and a flush never waits behind a merge.
func (db *DB) start() {
	m := &db.maintenance
	l := schedule.Looker{Rests: func() bool { return rests(db) },
		Done: func() uint64 { return db.head.commits.done.Load() + db.head.commits.failed.Load() }}
	var sync *schedule.Job // of the log; nil: it is synced otherwise
	lookAtLog := func() {  // has the log synced if there is something to sync
		if log := db.head.log.Load(); log != nil && log.LastSeq() != log.Synced() {
			sync.Begin()
		}
	}
	all := []*schedule.Job{} // of each second
	if p := db.opts.WAL.Sync; p.Mode() == wal.ModeInterval {
		if sync = schedule.NewJob(db.syncLog); p.Interval() == lookInterval {
			all = append(all, sync)
		} else {
			m.every(p.Interval(), lookAtLog, sync)
		}
	}
	s, f := snapshotTask{db: db}, flusher{db: db} // by hand only, the first just removes those that do not hold any more
	chunks := schedule.NewJob(db.writeChunks)
	snapshots := schedule.NewJob(func() {
		s.step()
		db.watchClock()
	})
	l.Jobs = []*schedule.Job{chunks, snapshots}
	if !db.opts.Blocks.Manual {
		l.Jobs = append(l.Jobs, schedule.NewJob(f.step))
		for range db.opts.Blocks.Workers {
			m.mergers = append(m.mergers, schedule.NewJob(db.compactDue))
		}
		m.every(mergeInterval, nil, m.mergers...)
	}
	if db.head.log.Load() == nil {
		l.Jobs = append(l.Jobs, schedule.NewJob(db.finishRecovery))
	}
	wake := func() { chunks.Begin() }
	db.head.writer.Wake.Store(&wake)
	look := l.Look
	if len(all) > 0 {
		look = func() {
			lookAtLog()
			l.Look()
		}
	}
	m.every(lookInterval, look, append(all, l.Jobs...)...)
}

// maintenance is what runs between Open and Close, and what became of blocks by it or by calls.
type maintenance struct {
	common     *common
	background *background.Runner // of flushes, merges and what follows them
	members    []*schedule.Member
	mergers    []*schedule.Job // merge, and remove blocks

	// What is to be looked at again although nothing is committed: by who writes chunks, and by
	// who flushes.
	log, flush atomic.Bool

	flushes, flushErrors           atomic.Uint64
	merges, mergeErrors            atomic.Uint64
	reloads, reloadErrors          atomic.Uint64
	blocksRemoved                  atomic.Uint64
	timeRetentions, byteRetentions atomic.Uint64
}

func (m *maintenance) init(c Clock, with *common) {
	m.common, m.background = with, newBackground(c)
}

func (m *maintenance) every(d time.Duration, look func(), jobs ...*schedule.Job) {
	m.members = append(m.members, m.common.scheduler.Every(d, look, jobs...))
}

// stop ends all of it, and waits for what runs.
func (m *maintenance) stop() {
	for _, member := range m.members {
		member.Stop()
	}
}

// wake has somebody look for blocks to merge or to remove: who does nothing, or else somebody who
// looks once more.
func (m *maintenance) wake() { schedule.BeginOne(m.mergers) }

// newBackground returns what runs maintenance: by a clock.Stepped on ordinary threads.
func newBackground(c Clock) *background.Runner {
	if _, inStep := c.(clock.Stepped); inStep {
		return background.NewOrdinary(c)
	}
	return background.New(c)
}

// rests reports whether a database to which nothing is committed has nothing to do.
func rests(db *DB) bool {
	h, m := db.head, &db.maintenance
	if log := h.log.Load(); log == nil || log.Err() != nil || h.late.log.IsIncomplete() {
		return false // as soon as there is room it goes on
	}
	return h.series.Shelf.Bytes() == 0 && !h.queries.mender.Damaged() && !m.log.Load() && !m.flush.Load()
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
		db.maintenance.log.Store(db.head.heal(log) != nil) // commits are refused as they were
	}
	if err := db.head.writeChunks(); err != nil {
		db.maintenance.log.Store(true)
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
	db.maintenance.flush.Store(false)
	db.flushing.Lock()
	defer db.flushing.Unlock()
	if ahead, due := f.ahead.due(h); ahead {
		db.maintenance.flush.Store(true)
		if due {
			present, _ := h.bounds.leaves()
			f.note(db.leaveFuture(db.ctx, present))
		}
		return // no border is raised to where the clock never was
	}
	end, ok := h.bounds.due()
	var err error
	if !ok {
		var ended bool
		if ended, err = h.trunc.ended.flush(db.ctx, db); err == nil {
			end, ok = f.early.due(h, ended)
		}
	}
	idle := !ok && quiet > f.idleAfter() && h.bounds.minT.Load() <= h.bounds.maxT.Load() && h.bounds.maxT.Load() < math.MaxInt64
	if idle {
		// Nothing was committed for a whole block range, or as long as a group waits: there is no
		// newer sample to wait for, and what the head holds costs memory and the time of the next
		// recovery.
		h.trunc.idle.Store(true)
		end, ok = h.bounds.maxT.Load()+1, true
	}
	if ok {
		err = fileutil.JoinErrors(err, db.flushTo(db.ctx, end, idle))
	} else {
		err = fileutil.JoinErrors(err, db.collect()) // what a Querier kept until now
	}
	if !ok && quiet > f.idleAfter() {
		h.trunc.idle.Store(true)
		err = fileutil.JoinErrors(err, flushLate(db.ctx, db)) // it may be all that there is
	}
	err = db.head.late.flushIfUrgent(db.ctx, db, err)
	if h.trunc.done < db.blocks.Current().Start || h.late.flush.Waits() || h.trunc.ended.leaving.Waits() {
		db.maintenance.flush.Store(true) // one keeps it still
	}
	f.note(err)
	if ok {
		db.maintenance.wake()
	}
}

// idleAfter is how long nothing must be committed until all of the head is flushed: where the
// budget of a group is near, an eighth of what it is else.
func (f *flusher) idleAfter() time.Duration {
	db := f.db
	idle := db.maintenance.common.idleAfter
	if idle <= 0 {
		idle = db.opts.Blocks.Range
	}
	if db.maintenance.common.budget != nil && db.head.series.Budget.Near() {
		idle /= 8
	}
	return idle
}

// note takes care that a flush that failed is not tried again at once.
func (f *flusher) note(err error) {
	if err == nil || f.db.ctx.Err() != nil {
		return
	}
	f.notNow = f.db.opts.Clock.Now().Add(flushBackoff)
	f.db.maintenance.flush.Store(true)
	f.db.maintenance.flushErrors.Add(1)
	f.db.opts.Logger.Warn("flush head", "error", logged(err))
}

// reload takes up new blocks; see blockset.Set.Reload.
func (db *DB) reload(now bool) error {
	db.maintenance.reloads.Add(1)
	err := db.blocks.Reload(now)
	if err != nil {
		db.maintenance.reloadErrors.Add(1)
	}
	return err
}

// compactDue takes up new blocks, removes old ones and merges until nothing is due.
func (db *DB) compactDue() {
	if err := db.reload(false); err != nil {
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
