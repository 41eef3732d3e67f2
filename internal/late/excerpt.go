package late

import (
	"slices"
	"sort"

	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// Excerpt is what a snapshot sees of the late samples of one series. It is used again from series
// to series, and belongs to one goroutine.
type Excerpt struct {
	Chunks []Chunk // by time, without overlap; a chunk may have samples out of the range

	stored []Chunk
	recent []sample
	tools
}

// Take fills e with what a snapshot sees of a series in a closed range.
func (e *Excerpt) Take(st *Store, ref, snapshot uint64, mint, maxt int64) error {
	e.Chunks = e.Chunks[:0]
	hidden, ok := e.copy(st, ref, snapshot, mint, maxt)
	if !ok {
		return nil
	}
	if len(hidden) == 0 && len(e.recent) == 0 {
		e.Chunks = append(e.Chunks, e.stored...)
		return nil
	}
	e.weaver.encoder.cutting = st.cutting
	var err error
	e.Chunks, err = e.weaver.weave(e.Chunks, e.stored, hidden, e.recent, false)
	return err
}

// copy copies what Take needs with the shard locked; false: there is nothing.
func (e *Excerpt) copy(st *Store, ref, snapshot uint64, mint, maxt int64) (hidden tombstones.Intervals, ok bool) {
	sh := st.lock(ref)
	defer sh.mu.Unlock()
	s := sh.of(ref)
	if s == nil {
		return nil, false
	}
	e.recent, hidden = s.visible(e.recent[:0], snapshot, mint, maxt)
	from := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].MaxT >= mint })
	to := sort.Search(len(s.chunks), func(i int) bool { return s.chunks[i].MinT > maxt })
	e.stored = append(e.stored[:0], s.chunks[min(from, to):to]...)
	if !hidesAny(hidden, e.stored) {
		hidden = nil
	}
	return hidden, true
}

// hidesAny reports whether intervals reach into chunks.
func hidesAny(hidden tombstones.Intervals, chunks []Chunk) bool {
	return len(hidden) > 0 && slices.ContainsFunc(chunks, func(c Chunk) bool { return hidden.Overlaps(c.MinT, c.MaxT) })
}

// Forget lets go of all samples, and keeps the memory.
func (e *Excerpt) Forget() {
	clear(e.Chunks[:cap(e.Chunks)])
	clear(e.stored[:cap(e.stored)])
	clear(e.recent[:cap(e.recent)])
	e.Chunks, e.stored, e.recent = e.Chunks[:0], e.stored[:0], e.recent[:0]
}
