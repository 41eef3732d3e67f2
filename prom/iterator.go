package prom

import (
	"context"

	"github.com/prometheus/prometheus/model/histogram"
	promchunkenc "github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/seed347100a3/tsdb/chunkenc"
)

// iterator is an iterator of ours as one of theirs. It reads runs of floats, so that a step costs
// an addition. A histogram is a run of its own, of a time and no value; the iterator below stands
// on it.
type iterator struct {
	ctx  context.Context // when it is done, so is the iterator
	it   chunkenc.Iterator
	run  chunkenc.Batch // [at:] is still to be read; at is where it stands
	at   int
	kind promchunkenc.ValueType // of what is in the run
	over bool                   // there is nothing behind the run

	lender *lender
	memory *iteratorMemory // what it and run were made of; nil once it is given back
	oneT   [1]int64        // of the run from then on
	oneV   [1]float64

	histograms *histogramReader // nil: nobody has asked for one yet
}

// Runs begin short, which is about what a query of one instant needs: five minutes of samples, one
// each ten seconds. Who reads more gets runs of a usual chunk, which take 2 kB.
const (
	shortRun = 32
	runSize  = 128
)

// reset puts the iterator before the first sample of another one.
func (it *iterator) reset(ctx context.Context, of chunkenc.Iterator) {
	it.ctx = ctx
	it.it, it.at, it.kind, it.over = of, -1, promchunkenc.ValNone, false
	it.run.Cut(0)
}

// Next implements chunkenc.Iterator.
func (it *iterator) Next() promchunkenc.ValueType {
	if it.at+1 < len(it.run.T) {
		it.at++
		return promchunkenc.ValFloat
	}
	return it.refill()
}

func (it *iterator) refill() promchunkenc.ValueType {
	it.endWithContext()
	if it.kind > promchunkenc.ValFloat { // the next one is most likely of that kind, too
		return it.take(it.it.Next())
	}
	if cap(it.run.T) < runSize && it.run.Len() == cap(it.run.T) { // there was more than a short run
		it.run = *chunkenc.NewBatch(runSize)
	}
	switch it.it.NextBatch(&it.run) {
	case chunkenc.ValNone:
		return it.take(chunkenc.ValNone)
	case chunkenc.ValFloat:
		it.at, it.kind = 0, promchunkenc.ValFloat
		return promchunkenc.ValFloat
	default:
		return it.take(it.it.Next())
	}
}

// endWithContext makes a context that is done the end of what is left. Engines look at it between
// series only.
func (it *iterator) endWithContext() {
	if err := it.ctx.Err(); err != nil && !it.over {
		it.it = &ended{err: err}
	}
}

// take makes a run of the sample that the iterator below has moved to; none if it is at its end.
func (it *iterator) take(moved chunkenc.ValueType) promchunkenc.ValueType {
	it.run.Cut(0)
	it.at, it.kind = -1, promchunkenc.ValueType(moved)
	if moved == chunkenc.ValNone {
		it.over = true
		return promchunkenc.ValNone
	}
	t, v := it.it.At() // of a histogram v is NaN
	it.run.T, it.run.V = append(it.run.T, t), append(it.run.V, v)
	if st := it.it.AtST(); st != 0 {
		it.run.ST = append(it.run.ST, st)
	}
	it.at = 0
	return it.kind
}

// Seek implements chunkenc.Iterator.
func (it *iterator) Seek(t chunkenc.Timestamp) promchunkenc.ValueType {
	if it.at < 0 {
		it.at = 0 // the run is empty
	}
	for ; it.at < len(it.run.T); it.at++ {
		if it.run.T[it.at] >= t {
			return it.kind
		}
	}
	it.endWithContext()
	return it.take(it.it.Seek(t)) // what is behind that sample comes with the next run
}

// At implements chunkenc.Iterator.
func (it *iterator) At() (int64, float64) { return it.run.T[it.at], it.run.V[it.at] }

// AtT implements chunkenc.Iterator.
func (it *iterator) AtT() int64 { return it.run.T[it.at] }

// AtST implements chunkenc.Iterator.
func (it *iterator) AtST() int64 { return it.run.StartOf(it.at) }

// AtHistogram implements chunkenc.Iterator. The bounds of custom buckets are never written to
// again.
func (it *iterator) AtHistogram(reuse *histogram.Histogram) (int64, *histogram.Histogram) {
	if reuse == nil {
		reuse = &histogram.Histogram{}
	}
	return it.reader().ints(it.it, reuse), reuse
}

// AtFloatHistogram implements chunkenc.Iterator, as AtHistogram.
func (it *iterator) AtFloatHistogram(reuse *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	if reuse == nil {
		reuse = &histogram.FloatHistogram{}
	}
	return it.reader().floats(it.it, reuse), reuse
}

func (it *iterator) reader() *histogramReader {
	if it.histograms == nil {
		it.histograms = &histogramReader{}
	}
	return it.histograms
}

// Err implements chunkenc.Iterator.
func (it *iterator) Err() error { return it.it.Err() }
