package tsdb

import (
	"github.com/seed347100a3/tsdb/internal/checkpoint"
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/wal"
)

// stagedExemplars are the exemplars of one commit. Those of of[i] are in list[i], until Reserve
// has taken repeats out of list.
type stagedExemplars struct {
	of   []*memseries.Series
	list []exemplars.Entry
}

// reserveLocked takes the places of exemplars in the ring, and leaves those that are logged.
func (sx *stagedExemplars) reserveLocked(sg *staging) {
	if len(sx.list) == 0 {
		return
	}
	for _, s := range sx.of {
		sg.logLocked(s)
	}
	sx.list = sg.h.commits.exemplars.Reserve(sg.commit.Seq(), sx.list)
}

// encode writes the record of all exemplars.
func (sx *stagedExemplars) encode(c *wal.Commit) {
	if len(sx.list) > 0 {
		c.End(checkpoint.EncodeExemplars(c.Begin(), sx.list))
	}
}

// applyLocked notes that the log has the series, which may have no sample.
func (sx *stagedExemplars) applyLocked(sg *staging) {
	for _, s := range sx.of {
		sg.h.series.Shards.NoteAppliedLocked(s, sg.commit.Seq())
	}
}

// published puts exemplars into the ring, behind those of all commits before.
func (sx *stagedExemplars) published(h *head) {
	if len(sx.list) > 0 {
		h.commits.exemplars.Settle(h.iso.Published())
	}
}

// undo forgets what was reserved.
func (sx *stagedExemplars) undo(sg *staging) {
	if len(sx.list) > 0 {
		sg.h.commits.exemplars.Cancel(sg.commit.Seq())
	}
}

func (sx *stagedExemplars) clear() {
	if len(sx.of) > 0 {
		clear(sx.of)
		clear(sx.list[:cap(sx.list)])
		sx.of, sx.list = sx.of[:0], sx.list[:0]
	}
}
