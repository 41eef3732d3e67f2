package index

import (
	"context"
	"math"
)

// Verify reads the whole index and makes sure of everything that can be: each checksum, the order
// of symbols, labels, chunks and series, padding, and that the lists have exactly the series that
// they should have. It calls fn, which may be nil, for each series, in order. What fn is given is
// valid during the call; its error ends the work. The context is looked at every thousand series or
// lists.
//
// It takes about 16 bytes of memory for each symbol and 24 for each list.
func (r *Reader) Verify(ctx context.Context, fn func(id uint64, ls []SymbolPair, cs []ChunkMeta) error) error {
	return r.VerifyDisorder(ctx, nil, fn)
}

// VerifyDisorder is Verify that goes on where labels, series or chunks are not in order, or repeat:
// what Sorted and Lanes can read all the same. Each such place is an encbuf.ErrCorrupt for
// disorder.
func (r *Reader) VerifyDisorder(ctx context.Context, disorder func(error), fn func(id uint64, ls []SymbolPair, cs []ChunkMeta) error) error {
	if fn == nil {
		fn = func(uint64, []SymbolPair, []ChunkMeta) error { return nil }
	}
	v := newVerifier(ctx, r, disorder)
	return r.file.guard(func() error { return v.run(fn) })
}

// Shape looks at all series. An error is the context's, or ErrClosed.
func (r *Reader) Shape(ctx context.Context) (Shape, error) {
	s := shaper{r: r, shape: Shape{MinT: math.MaxInt64, MaxT: math.MinInt64}}
	s.order.emptyFirst = r.symbols.empty
	err := s.run(ctx)
	return s.shape, err
}

// Sorted reads the labels of series, which ids gives one after the other. An entry that cannot be
// read is left out if damaged returns nil; any other error ends the work. The context is looked at
// every thousand series.
func (r *Reader) Sorted(ctx context.Context, ids func() (id uint64, ok bool), damaged func(id uint64, err error) error) (*Sorted, error) {
	s := &Sorted{}
	if err := s.read(ctx, r, ids, damaged); err != nil {
		return nil, err
	}
	s.sort()
	return s, nil
}
