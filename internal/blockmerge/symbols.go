package blockmerge

import (
	"context"
	"path/filepath"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/minheap"
)

// symbolNumbers translates the numbers of one block's symbols into those of the block that
// is being written. From then on labels are compared as numbers: the symbols of both
// ascend.
type symbolNumbers []uint32

// of returns the number of old; false: there is no such symbol.
func (n symbolNumbers) of(old uint32) (uint32, bool) {
	if uint64(old) >= uint64(len(n)) {
		return 0, false
	}
	return n[old], true
}

// wayMergedSymbols is after how many symbols a merge lets others run, and looks at its context.
const wayMergedSymbols = 1024

// mergeSymbols gives w the symbols of all blocks, and returns the numbers that those of
// each have there. Symbols that no series uses any more stay; the next merge would have
// to look at each series first to leave them out.
func mergeSymbols(ctx context.Context, w *blockdir.Writer, inputs []input) ([]symbolNumbers, error) {
	numbers := make([]symbolNumbers, len(inputs))
	heap := minheap.Heap[*symbolCursor]{Less: func(a, b *symbolCursor) bool {
		return a.symbol < b.symbol || a.symbol == b.symbol && a.input < b.input
	}}
	for i, in := range inputs {
		numbers[i] = make(symbolNumbers, in.dir.Index().NumSymbols())
		c := &symbolCursor{dir: in.dir, input: i}
		if more, err := c.advance(); err != nil {
			return nil, err
		} else if more {
			heap.Push(c)
		}
	}
	count, last := uint32(0), ""
	way := foreground.NewPoll(ctx)
	for len(heap.Items) > 0 {
		if !way.Step(wayMergedSymbols) {
			return nil, way.Err()
		}
		c := heap.Items[0]
		if count == 0 || c.symbol != last {
			if err := w.AddSymbol(c.symbol); err != nil {
				return nil, err
			}
			last = c.symbol
			count++
		}
		numbers[c.input][c.number] = count - 1
		more, err := c.advance()
		if err != nil {
			return nil, err
		}
		heap.Advance(more)
	}
	return numbers, nil
}

// symbolCursor goes through the symbols of one block.
type symbolCursor struct {
	dir   *blockdir.Dir
	input int

	symbol string
	number uint32 // in its own block
	batch  symbolBatch
}

// symbolBatch is a run of symbols. To ask the reader for each of them would cost more than all the
// rest.
type symbolBatch struct {
	text string // all of them
	ends []int  // in text
	pos  int    // of the next one
	buf  []byte
}

// symbolBatchBytes is how much text is held of each block.
const symbolBatchBytes = 16 << 10

// advance moves to the next symbol, the first one at first; false: there is none.
func (c *symbolCursor) advance() (bool, error) {
	b := &c.batch
	if b.pos > 0 {
		c.number++
	}
	if b.pos == len(b.ends) {
		var err error
		if b.buf, b.ends, err = c.dir.Index().AppendSymbols(b.buf[:0], b.ends[:0], c.number, symbolBatchBytes); err != nil || len(b.ends) == 0 {
			return false, err
		}
		b.text, b.pos = string(b.buf), 0
	}
	start := 0
	if b.pos > 0 {
		start = b.ends[b.pos-1]
	}
	c.symbol = b.text[start:b.ends[b.pos]]
	b.pos++
	return true, nil
}

// indexDamage is damage of a block's index that only shows when it is used.
func indexDamage(d *blockdir.Dir, reason string) error {
	return encbuf.Corrupt(0, reason).At(filepath.Join(d.Path(), "index"), 0)
}
