package index

import (
	"context"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Shape is what a look at every series entry of a block shows: where its chunks lie, and whether
// readers may rely on the order of what stands there.
type Shape struct {
	MinT, MaxT int64 // closed bounds of all chunks, milliseconds; MinT > MaxT: there are none
	// Disorder is the first place where labels, series or the chunks of a series are not in order,
	// or repeat: encbuf.ErrCorrupt with its place. Nil: there is none. Sorted reads such a block.
	Disorder error
	// Ambiguous is the first series that has two values of one label, of which Sorted takes the
	// first one; nil: there is none.
	Ambiguous error
	// Empty: a series has no chunks, so that it is in lists of labels, and no sample is there.
	Empty bool
	// Damaged entries could not be read, and nothing is known of them.
	Damaged bool
}

// shaper finds out the shape of a block.
type shaper struct {
	r     *Reader
	shape Shape
	order seriesOrder
}

func (s *shaper) run(ctx context.Context) error {
	var ls []SymbolPair
	var cs []ChunkMeta
	all := s.r.AllSeries()
	for n := 0; all.Next(); n++ {
		if n%pollEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		var err error
		if ls, cs, err = s.r.Series(all.At(), ls[:0], cs[:0]); err != nil {
			if err = s.damaged(err); err != nil {
				return err
			}
			continue
		}
		s.see(all.At(), ls, cs)
	}
	return s.damaged(all.Err())
}

// damaged notes damage, and returns other errors.
func (s *shaper) damaged(err error) error {
	if err == nil || !isDamage(err) {
		return err
	}
	s.shape.Damaged = true
	return nil
}

// see adds what one series shows.
func (s *shaper) see(id uint64, ls []SymbolPair, cs []ChunkMeta) {
	sh := &s.shape
	if reason := s.order.relied(ls, cs); reason != "" {
		off, _ := s.r.series.offset(id)
		if sh.Disorder == nil {
			sh.Disorder = s.r.file.corrupt(int(off), reason)
		}
		if sh.Ambiguous == nil && ambiguous(ls) {
			sh.Ambiguous = s.r.file.corrupt(int(off), "a series has two values of one label")
		}
	}
	s.order.acceptLabels(ls)
	sh.Empty = sh.Empty || len(cs) == 0
	for _, c := range cs {
		sh.MinT, sh.MaxT = min(sh.MinT, c.MinT), max(sh.MaxT, c.MaxT)
	}
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
