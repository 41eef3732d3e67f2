package read

import "github.com/seed347100a3/tsdb/internal/memseries"

// HeadWalk reads the chunks of some series of a head, one series after the other, as a flush does.
// It belongs to one goroutine, and whoever makes it keeps the files.
type HeadWalk struct {
	gate   Gate // which nobody closes
	cursor headCursor
	group  headGroup
	series headSeries // the one that it is at
	chunks ChunkIterator
}

// Walk returns a walk through series that has not begun. Samples in the closed range are read, of
// each series as of when the walk comes to it or to one shortly before.
func (h *Head) Walk(series []*memseries.Series, mint, maxt int64) *HeadWalk {
	w := &HeadWalk{cursor: headCursor{r: &headReader{Head: *h, mint: mint, maxt: maxt}, found: series, transient: true}}
	w.group.c, w.series.g = &w.cursor, &w.group
	return w
}

// Next moves to the next series, which must be there, and returns its chunks. They are gone with
// the call for the series behind it.
func (w *HeadWalk) Next() *ChunkIterator {
	w.series.s = w.cursor.found[0]
	w.cursor.found = w.cursor.found[1:] // their memory is asked for ahead
	w.chunks.begin(&w.gate, &mergedSeries{first: &w.series})
	return &w.chunks
}
