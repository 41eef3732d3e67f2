package blockmerge

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sort"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/minheap"
)

// wayMerged is after how many series a merge lets others run, as a flush does
// (foreground.MakeWay).
const wayMerged = 16

// mergeSeries writes the series of all inputs into w, those with equal labels as one, with
// the samples in mint..maxt that are not deleted. Where inputs have different values at
// one time, the first input wins. samplesPerChunk is how many samples a new chunk gets.
//
// It holds four bytes for each symbol of each input and what one series has of chunks; no
// label becomes a string, and a chunk that may stay as it is is not decoded.
// Errors are those of the inputs, encbuf.ErrCorrupt with the file, those of w, and the
// context's.
func mergeSeries(ctx context.Context, w *blockdir.Writer, inputs []input, mint, maxt int64, samplesPerChunk int) (Counts, error) {
	numbers, err := mergeSymbols(ctx, w, inputs)
	if err != nil {
		return Counts{}, err
	}
	heap := &minheap.Heap[*cursor]{Less: (*cursor).before}
	m := &merger{w: w, chunks: chunkMerger{w: w, mint: mint, maxt: maxt, samplesPerChunk: samplesPerChunk}}
	for i, in := range inputs {
		c := &cursor{input: in, rank: i, ids: in.dir.Index().AllSeries(), numbers: numbers[i]}
		if err := c.sort(ctx); err != nil {
			return Counts{}, err
		}
		more, err := c.advance()
		if err != nil {
			return Counts{}, err
		}
		if more {
			heap.Push(c)
		}
	}
	return m.run(ctx, heap)
}

// merger puts series with equal labels together.
type merger struct {
	w      *blockdir.Writer
	labels []index.SymbolPair // of the series that chunks belong to
	listed []inputChunk
	chunks chunkMerger
}

func (m *merger) run(ctx context.Context, heap *minheap.Heap[*cursor]) (Counts, error) {
	counts := &m.chunks.counts
	way := foreground.NewPoll(ctx)
	for begun := false; len(heap.Items) > 0; begun = true {
		c := heap.Items[0]
		if !begun || !slices.Equal(c.labels, m.labels) {
			if err := m.writeSeries(); err != nil {
				return *counts, err
			}
			if !way.Step(wayMerged) {
				return *counts, context.Cause(ctx)
			}
			m.labels = append(m.labels[:0], c.labels...)
		}
		m.listed = c.appendListed(m.listed)
		more, err := c.advance()
		if err != nil {
			return *counts, err
		}
		heap.Advance(more)
	}
	return *counts, m.writeSeries()
}

// writeSeries writes what is gathered, if there is anything.
func (m *merger) writeSeries() error {
	if len(m.listed) == 0 {
		return nil
	}
	m.listed = dropOld(m.listed, &m.chunks.counts)
	if len(m.listed) == 0 {
		return nil
	}
	if err := m.chunks.write(m.listed); err != nil {
		return err
	}
	m.listed = m.listed[:0]
	return m.w.AddSeries(m.labels)
}

// dropOld takes out the chunks that are too old. One stays in whose times another one has samples
// that stays: what counts there would be another sample without it. So chunks that overlap, also
// by way of others, go together or not at all.
func dropOld(listed []inputChunk, counts *Counts) []inputChunk {
	n := 0
	for n < len(listed) && !listed[n].old {
		n++
	}
	if n == len(listed) {
		return listed
	}
	byTime := make([]*inputChunk, len(listed))
	for i := range listed {
		byTime[i] = &listed[i]
	}
	sort.Slice(byTime, func(i, k int) bool { return byTime[i].MinT < byTime[k].MinT })
	for len(byTime) > 0 {
		end, old, n := byTime[0].MaxT, byTime[0].old, 1
		for ; n < len(byTime) && byTime[n].MinT <= end; n++ {
			end, old = max(end, byTime[n].MaxT), old && byTime[n].old
		}
		for _, p := range byTime[:n] {
			p.old = old
		}
		byTime = byTime[n:]
	}
	kept := listed[:0]
	for i := range listed {
		if listed[i].old {
			counts.Dropped++
		} else {
			kept = append(kept, listed[i])
		}
	}
	return kept
}

// cursor goes through the series of one input in the order of their labels.
type cursor struct {
	input
	rank    int // smaller ones win
	ids     index.Postings
	numbers symbolNumbers

	begun        bool
	id           uint64
	labels, prev []index.SymbolPair // as numbers of the new block
	chunks       []index.ChunkMeta

	sorted *index.Sorted // of a block that is not in order; nil: ids are in the order of labels
	listed []inputChunk  // of the present series of such a block
}

// before orders cursors by labels, those of equal labels by input.
func (c *cursor) before(o *cursor) bool {
	by := compareSymbolPairs(c.labels, o.labels)
	return by < 0 || by == 0 && c.rank < o.rank
}

// compareSymbolPairs orders label sets, given as numbers of sorted symbols, as
// labels.Compare does.
func compareSymbolPairs(a, b []index.SymbolPair) int {
	n := min(len(a), len(b))
	for i, p := range a[:n] {
		if q := b[i]; p != q {
			return cmp.Or(cmp.Compare(p.Name, q.Name), cmp.Compare(p.Value, q.Value))
		}
	}
	return cmp.Compare(len(a), len(b))
}

// advance moves to the next series; false: there is none.
func (c *cursor) advance() (_ bool, err error) {
	if c.sorted != nil {
		return c.advanceSorted()
	}
	if !c.ids.Next() {
		return false, c.ids.Err()
	}
	first := !c.begun
	c.begun = true
	c.id = c.ids.At()
	c.prev, c.labels = c.labels, c.prev
	c.labels, c.chunks, err = c.dir.Index().Series(c.id, c.labels[:0], c.chunks[:0])
	if err != nil {
		return false, err
	}
	if err := c.translate(); err != nil {
		return false, err
	}
	if !first && compareSymbolPairs(c.prev, c.labels) >= 0 {
		return false, indexDamage(c.dir, "series do not ascend by labels")
	}
	for i, meta := range c.chunks {
		if meta.MinT > meta.MaxT || i > 0 && meta.MinT <= c.chunks[i-1].MaxT {
			return false, indexDamage(c.dir, "chunks of a series do not ascend")
		}
	}
	return true, nil
}

// translate makes numbers of the new block of the labels.
func (c *cursor) translate() error {
	for i, p := range c.labels {
		name, ok1 := c.numbers.of(p.Name)
		value, ok2 := c.numbers.of(p.Value)
		if !ok1 || !ok2 {
			return indexDamage(c.dir, "series has a symbol that there is not")
		}
		c.labels[i] = index.SymbolPair{Name: name, Value: value}
	}
	return nil
}

// sort makes the cursor go through the series of a block that is not in order by their labels,
// which it holds.
func (c *cursor) sort(ctx context.Context) (err error) {
	if !c.dir.Disordered() {
		return nil
	}
	next := func() (uint64, bool) {
		more := c.ids.Next()
		return c.ids.At(), more
	}
	c.sorted, err = c.dir.Index().Sorted(ctx, next, func(_ uint64, err error) error { return err })
	if err == nil {
		err = c.ids.Err()
	}
	return err
}

// maxLanes is how many ranks an input of a merge has: one for each list of chunks, of one series,
// that do not overlap.
const maxLanes = 1 << 32

// advanceSorted is advance for such a block. Of samples at one time that of the entry with the
// smaller id counts, and within an entry that of the first lane, as in queries.
func (c *cursor) advanceSorted() (_ bool, err error) {
	if !c.sorted.Next() {
		return false, nil
	}
	c.labels = append(c.labels[:0], c.sorted.Labels()...)
	if err := c.translate(); err != nil {
		return false, err
	}
	c.listed = c.listed[:0]
	lanes := int64(c.rank) * maxLanes
	for _, id := range c.sorted.IDs() {
		if _, c.chunks, err = c.dir.Index().Series(id, nil, c.chunks[:0]); err != nil {
			return false, err
		}
		deleted, from := c.deleted.Of(id), c.from(id)
		for _, lane := range index.Lanes(c.chunks) {
			for _, meta := range lane {
				if meta.MinT > meta.MaxT {
					return false, indexDamage(c.dir, "chunk ends before it begins")
				}
				c.listed = append(c.listed, inputChunk{meta, c.dir, lanes, deleted, meta.MaxT < from})
			}
			lanes++
		}
	}
	return true, nil
}

// appendListed appends the chunks of the present series.
func (c *cursor) appendListed(dst []inputChunk) []inputChunk {
	if c.sorted != nil {
		return append(dst, c.listed...)
	}
	deleted, from := c.deleted.Of(c.id), c.from(c.id)
	for _, meta := range c.chunks {
		dst = append(dst, inputChunk{meta, c.dir, int64(c.rank) * maxLanes, deleted, meta.MaxT < from})
	}
	return dst
}

// from returns from which time on the samples of a series are kept.
func (c *cursor) from(id uint64) int64 {
	if c.keepFrom == nil {
		return math.MinInt64
	}
	return c.keepFrom(id)
}
