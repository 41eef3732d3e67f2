// Package headblock writes what a head has of a range of time into a block.
//
// It knows how series lie in the head and in what order a block wants them: symbols first, then
// series sorted by labels. It does not know when that is due, which range, nor what becomes of head
// and log behind it; and chunks come ready from internal/read. A block is written by one goroutine,
// beside commits and queries, to which it gives way.
package headblock

import (
	"context"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/read"
)

const (
	// wayEvery is how many series are written before others go first, about a hundred
	// microseconds.
	wayEvery = 16
	// pollEvery is the same of series or values that are only looked at.
	pollEvery = 1024
	// waySteps is the same of steps that take some ten nanoseconds, comparisons and the like.
	waySteps = 4096
)

// Part is what becomes a block: some samples of some series.
type Part struct {
	Series *memseries.Directory
	Has    func(s *memseries.Series) bool // samples, as far as is known without a look at them
	Walk   func(series []*memseries.Series) Walk
}

// Walk goes through series.
type Walk interface {
	// Next moves to the next series, which must be there, and returns its chunks.
	Next() *read.ChunkIterator
}

// Of returns the samples in order of a closed range, as a snapshot has them.
func Of(src *read.Head, mint, maxt int64) Part {
	return Part{src.Series, func(s *memseries.Series) bool { return src.Past.Visible(s, mint, maxt) },
		func(series []*memseries.Series) Walk { return src.Walk(series, mint, maxt) }}
}

// OfLate is Of for late samples.
func OfLate(src *read.Late, mint, maxt int64) Part {
	return Part{src.Series, func(s *memseries.Series) bool { return src.Store.Overlaps(s.Ref(), mint, maxt) },
		func(series []*memseries.Series) Walk { return src.Walk(series, mint, maxt) }}
}

// Write writes symbols and series of a part of the head, which no commit changes any more. Deletes
// are applied. The caller ends the block. Errors are those of the head's files, of the block and of
// the context.
func Write(ctx context.Context, w *blockdir.Writer, src Part) error {
	var found []*memseries.Series
	way := foreground.NewPoll(ctx)
	for s := range src.Series.All() {
		if !way.Step(pollEvery) {
			return way.Err()
		}
		if src.Has(s) {
			found = append(found, s)
		}
	}
	syms, err := writeSymbols(w, src.Series, found, way)
	if err != nil {
		return err
	}
	if err := (&labelOrder{series: src.Series, syms: syms, way: way}).sort(found); err != nil {
		return err
	}
	walk := src.Walk(found)
	var pairs []index.SymbolPair
	for _, s := range found {
		if !way.Step(wayEvery) {
			return way.Err()
		}
		chunks := walk.Next()
		for chunks.Next() {
			c := chunks.At()
			err := w.AddChunk(blockdir.Chunk{MinT: c.MinT, MaxT: c.MaxT, Num: c.Chunk.NumSamples(), Encoding: c.Chunk.Encoding(), Data: c.Chunk.Bytes()})
			if err != nil {
				return err
			}
		}
		if err := chunks.Err(); err != nil {
			return errors.WithMessage(err, "read head chunk")
		}
		pairs = pairs[:0]
		for _, p := range src.Series.Pairs(s) {
			pairs = append(pairs, syms[p])
		}
		if err := w.AddSeries(pairs); err != nil {
			return err
		}
	}
	return nil
}
