package read

import (
	"math/bits"
	"sync/atomic"

	"github.com/seed347100a3/tsdb/index"
)

// symbolCache keeps strings of a block's symbol table, so that the label values that
// many series share are not copied for each. It is a direct-mapped table of at most manySymbols
// slots: a query of any number of series needs no more memory. The zero value has none, and
// gets one when many symbols of many series are asked for.
type symbolCache struct {
	slots atomic.Uint32 // that the table should have; 0 until many series are selected
	asked atomic.Uint32 // symbols, while there is no table
	table atomic.Pointer[symbolTable]
}

type symbolTable []atomic.Pointer[cachedSymbol]

type cachedSymbol struct {
	n uint32
	s string
}

const (
	manySymbols = 1 << 10 // 8 KB of slots
	fewSymbols  = 64      // the labels of some series
)

// expect makes the next table large enough for so many series.
func (c *symbolCache) expect(series int) {
	c.slots.Store(max(c.slots.Load(), uint32(symbolSlots(series)))) // of two at once either will do
}

// symbolSlots is how many slots the table for so many series has.
func symbolSlots(series int) int { return min(manySymbols, 2<<bits.Len(uint(series))) }

// symbol returns a string of the symbol table of r.
func (c *symbolCache) symbol(r *index.Reader, n uint32) (string, error) {
	table := c.current()
	if table == nil {
		return r.Symbol(n)
	}
	slot := &table[n%uint32(len(table))]
	if have := slot.Load(); have != nil && have.n == n {
		return have.s, nil
	}
	s, err := r.Symbol(n)
	if err != nil {
		return "", err
	}
	slot.Store(&cachedSymbol{n, s})
	return s, nil
}

// current returns the table, a larger one if it has become too small; nil if there is none yet.
func (c *symbolCache) current() symbolTable {
	have, slots := c.table.Load(), int(c.slots.Load())
	if have != nil && len(*have) >= slots {
		return *have
	}
	if slots == 0 || have == nil && c.asked.Add(1) <= fewSymbols {
		return nil
	}
	larger := make(symbolTable, slots)
	c.table.CompareAndSwap(have, &larger)
	return larger // another goroutine's may be the one that is kept
}

// ownSymbols is a symbolCache of one goroutine: a value that only one series has is garbage of its
// length, and not of three times that (BenchmarkRead of package remote).
type ownSymbols struct {
	table []cachedSymbol
	slots int // that the table should have; 0 for few series
}

// symbol returns a string of the symbol table of r.
func (o *ownSymbols) symbol(r *index.Reader, n uint32) (string, error) {
	if o.slots == 0 {
		return r.Symbol(n)
	}
	if o.table == nil {
		o.table = make([]cachedSymbol, o.slots)
	}
	slot := &o.table[n%uint32(o.slots)]
	if slot.n == n && slot.s != "" {
		return slot.s, nil
	}
	s, err := r.Symbol(n)
	if err == nil {
		*slot = cachedSymbol{n, s}
	}
	return s, err
}
