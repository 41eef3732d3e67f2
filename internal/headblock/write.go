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

// Write writes symbols and series of the closed range [mint, maxt], which no commit changes any
// more, as the snapshot of src has them. Deletes are applied. The caller ends the block. Errors are
// those of the head's files, of the block and of the context.
func Write(ctx context.Context, w *blockdir.Writer, src *read.Head, mint, maxt int64) error {
	var found []*memseries.Series
	way := foreground.NewPoll(ctx)
	for s := range src.Series.All() {
		if !way.Step(pollEvery) {
			return way.Err()
		}
		if src.Past.Visible(s, mint, maxt) {
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
	walk := src.Walk(found, mint, maxt)
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
