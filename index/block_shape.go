package index

import (
	"context"
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Shape is what a look at every series entry of a block shows: where its chunks lie, and whether
// readers may rely on the order of what stands there.
type Shape struct {
	MinT, MaxT int64 // closed bounds of all chunks, milliseconds; MinT > MaxT: there are none
	// Disorder is the first place where labels, series or the chunks of a series are not in order, or
	// repeat: encbuf.ErrCorrupt with its place. Nil: there is none. Sorted reads such a block.
	Disorder error
	// Ambiguous is the first series that has two values of one label, of which Sorted takes the first
	// one; nil: there is none.
	Ambiguous error
	// Empty: a series has no chunks, so that it is in lists of labels, and no sample is there.
	Empty bool
	// Damaged entries could not be read, and nothing is known of them.
	Damaged bool
}

// Shape looks at all series. An error is the context's, or ErrClosed.
func (r *Reader) Shape(ctx context.Context) (Shape, error) {
	s := Shape{MinT: math.MaxInt64, MaxT: math.MinInt64}
	var order seriesOrder
	var ls []SymbolPair
	var cs []ChunkMeta
	first, _ := r.symbols.at(0)
	order.emptyFirst = r.symbols.count > 0 && len(first) == 0
	all := r.AllSeries()
	for n := 0; all.Next(); n++ {
		if n%pollEvery == 0 && ctx.Err() != nil {
			return s, ctx.Err()
		}
		var err error
		if ls, cs, err = r.Series(all.At(), ls[:0], cs[:0]); err != nil {
			if !isDamage(err) {
				return s, err
			}
			s.Damaged = true
			continue
		}
		if reason := order.relied(ls, cs); reason != "" {
			off, _ := r.offset(all.At())
			if s.Disorder == nil {
				s.Disorder = r.corrupt(int(off), reason)
			}
			if s.Ambiguous == nil && ambiguous(ls) {
				s.Ambiguous = r.corrupt(int(off), "a series has two values of one label")
			}
		}
		order.acceptLabels(ls)
		s.Empty = s.Empty || len(cs) == 0
		for _, c := range cs {
			s.MinT, s.MaxT = min(s.MinT, c.MinT), max(s.MaxT, c.MaxT)
		}
	}
	if err := all.Err(); err != nil {
		if !isDamage(err) {
			return s, err
		}
		s.Damaged = true
	}
	return s, nil
}

// ambiguous reports whether two values of one label are among the labels of a series.
func ambiguous(ls []SymbolPair) bool {
	for i, l := range ls {
		for _, before := range ls[:i] {
			if before.Name == l.Name && before.Value != l.Value {
				return true
			}
		}
	}
	return false
}

// isDamage tells damage, of a file or of the memory that it is mapped to, from other errors.
func isDamage(err error) bool {
	return errors.Is(err, encbuf.ErrCorrupt) || errors.Is(err, fileutil.ErrMemoryFault)
}
