package blockmerge

import (
	"context"
	"iter"
	"path/filepath"

	"github.com/pkg/errors"

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
		c := newSymbolCursor(in.dir, i)
		defer c.stop()
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
		if uint64(c.number) >= uint64(len(numbers[c.input])) {
			return nil, indexDamage(c.dir, "symbol has a number that there is not")
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

	next  func() (*symbolBatch, error, bool)
	stop  func()
	batch *symbolBatch
	pos   int

	symbol string
	number uint32 // in its own block
}

// symbolBatch is a run of symbols. The reader shows one at a time during a call, which
// is a coroutine here: to change between the two for each symbol would cost more than
// all the rest.
type symbolBatch struct {
	text    string // all of them
	ends    []int  // in text
	numbers []uint32
	buf     []byte
}

// symbolBatchBytes is when a batch is full; as much text is held of each block.
const symbolBatchBytes = 16 << 10

func newSymbolCursor(d *blockdir.Dir, input int) *symbolCursor {
	c := &symbolCursor{dir: d, input: input, batch: &symbolBatch{}}
	c.next, c.stop = iter.Pull2(func(yield func(*symbolBatch, error) bool) {
		stopped := errors.New("stopped")
		b := &symbolBatch{}
		show := func() bool {
			b.text = string(b.buf)
			more := yield(b, nil)
			b.buf, b.ends, b.numbers = b.buf[:0], b.ends[:0], b.numbers[:0]
			return more
		}
		err := d.Index().Symbols(func(n uint32, s []byte) error {
			if len(b.buf)+len(s) > symbolBatchBytes && len(b.ends) > 0 && !show() {
				return stopped
			}
			b.buf = append(b.buf, s...)
			b.ends = append(b.ends, len(b.buf))
			b.numbers = append(b.numbers, n)
			return nil
		})
		switch {
		case errors.Is(err, stopped):
		case err != nil:
			yield(nil, err)
		case len(b.ends) > 0:
			show()
		}
	})
	return c
}

// advance moves to the next symbol; false: there is none.
func (c *symbolCursor) advance() (bool, error) {
	if c.pos == len(c.batch.ends) {
		b, err, ok := c.next()
		if !ok || err != nil {
			return false, err
		}
		c.batch, c.pos = b, 0
	}
	start := 0
	if c.pos > 0 {
		start = c.batch.ends[c.pos-1]
	}
	c.symbol = c.batch.text[start:c.batch.ends[c.pos]]
	c.number = c.batch.numbers[c.pos]
	c.pos++
	return true, nil
}

// indexDamage is damage of a block's index that only shows when it is used.
func indexDamage(d *blockdir.Dir, reason string) error {
	return encbuf.Corrupt(0, reason).At(filepath.Join(d.Path(), "index"), 0)
}
