package tsdb

// snapshotTask takes a snapshot of the head when the log behind the last one is long.
type snapshotTask struct {
	db       *DB
	unmended bool // damaged chunks could not be set aside, and it was told
}

func (t *snapshotTask) step() {
	db := t.db
	h := db.head
	if h.snapshots.Waits() && !h.queries.mender.Damaged() || h.log.Load() == nil {
		return
	}
	db.flushing.Lock()
	defer db.flushing.Unlock()
	t.mend()
	if !holdsDeleted(db) {
		h.snapshots.Step(db.ctx, h.forSnapshot(db.headStart))
	}
}

// holdsDeleted reports whether the head has samples, for a Querier that is open, from before where
// it begins, and no block says that it begins there, as all of that was deleted. A snapshot would
// bring them back.
func holdsDeleted(db *DB) bool {
	v := db.blocks.Current()
	return v.Start > v.StartWithout(nil) && db.head.trunc.done < v.Start
}

// mend sets chunks aside that readers found damaged. A failure is told once, and tried again.
func (t *snapshotTask) mend() {
	db := t.db
	_, err := db.head.mend(db.ctx, db.blocks.Current().Start)
	if err != nil && !t.unmended && db.ctx.Err() == nil {
		db.opts.Logger.Warn("set aside damaged head chunks", "error", logged(err))
	}
	t.unmended = err != nil
}

// headStart is where the head begins by the blocks alone: what a snapshot of it builds on.
func (db *DB) headStart() int64 { return db.blocks.Current().StartWithout(nil) }
