package tsdb

import (
	"time"

	"github.com/seed347100a3/tsdb/wal"
)

const (
	// chunkWriteInterval is how long a full chunk waits for its file at most.
	chunkWriteInterval = time.Second
	// chunkWriteBytes of full chunks do not wait: a write this long costs little per
	// chunk.
	chunkWriteBytes = 1 << 20
	// recoverInterval is how often an unfinished recovery is tried again.
	recoverInterval = time.Second
)

// start starts the loops that Close stops: one syncs the log, one writes full chunks.
// They are apart so that a slow chunk file never makes a sync late.
func (db *DB) start() {
	if p := db.opts.WAL.Sync; p.Mode() == wal.ModeInterval {
		db.loop(p.Interval(), nil, db.syncLog)
	}
	db.loop(chunkWriteInterval, db.head.wake, db.writeChunks)
	if db.head.log.Load() == nil {
		db.loop(recoverInterval, nil, db.finishRecovery)
	}
}

// loop runs step at every tick, and when woken, until Close.
func (db *DB) loop(every time.Duration, wake <-chan struct{}, step func()) {
	ticker := db.opts.Clock.NewTicker(every)
	db.loops.Go(func() {
		defer ticker.Stop()
		for {
			select {
			case <-db.stop:
				return
			case <-ticker.C():
			case <-wake:
			}
			step()
		}
	})
}

// syncLog keeps the promise of SyncInterval. A failure poisons the log, which the
// next Commit reports.
func (db *DB) syncLog() {
	log, err := db.head.writable()
	if err != nil || log.Err() != nil {
		return
	}
	if err := log.Sync(); err != nil {
		db.opts.Logger.Error("sync log", "error", err)
	}
}

// writeChunks moves full chunks into files. When that fails they stay in memory and
// are tried again.
func (db *DB) writeChunks() {
	if err := db.head.writeChunks(); err != nil {
		db.head.stats.chunkWriteErrors.Add(1)
		db.opts.Logger.Warn("write head chunks", "error", err)
	}
}

// finishRecovery tries again to make room for what recovery must write.
func (db *DB) finishRecovery() {
	if db.head.log.Load() != nil {
		return
	}
	if err := db.head.finishRecovery(); err == nil {
		db.opts.Logger.Info("recovery finished, database takes writes", "dir", db.dir)
	}
}
