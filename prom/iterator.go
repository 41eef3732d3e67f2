package prom

import (
	"github.com/prometheus/prometheus/model/histogram"
	promchunkenc "github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/seed347100a3/tsdb/chunkenc"
)

// iterator is an iterator of ours as one of theirs. It reads runs of floats, so that a step costs
// an addition. A histogram is a run of its own, of a time and no value; the iterator below stands
// on it.
type iterator struct {
	it   chunkenc.Iterator
	run  chunkenc.Batch // [at:] is still to be read; at is where it stands
	at   int
	kind promchunkenc.ValueType // of what is in the run
	ones int32                  // samples that were read one by one
	few  int32                  // short runs of this one
	oneT [1]int64
	oneV [1]float64

	histograms *histogramReader // nil: nobody has asked for one yet
}

// The first samples are read one by one, which is all that a query of one instant needs: five
// minutes of them, one each ten seconds. One that is used again for other series gets short runs,
// and who reads on in one of them gets runs of a usual chunk, which take 2 kB (make bench-promql).
const (
	readAlone = 32
	shortRun  = 32
	shortRuns = 3
	runSize   = 128
)

// reset puts the iterator before the first sample of another one.
func (it *iterator) reset(of chunkenc.Iterator) {
	it.few = 0
	if it.it == nil {
		it.few = shortRuns // the first series
	}
	it.it, it.at, it.kind = of, -1, promchunkenc.ValNone
	it.run.Cut(0)
	if cap(it.run.T) == 0 {
		it.run = chunkenc.Batch{T: it.oneT[:0], V: it.oneV[:0]}
	}
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
	if it.kind > promchunkenc.ValFloat { // the next one is most likely of that kind, too
		return it.take(it.it.Next())
	}
	if cap(it.run.T) < runSize {
		if it.ones++; it.ones <= readAlone {
			return it.take(it.it.Next())
		}
		it.makeRoom()
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

// makeRoom sees to it that there is room for more than one sample.
func (it *iterator) makeRoom() {
	size := shortRun
	if it.few++; it.few > shortRuns {
		size = runSize
	}
	if cap(it.run.T) < size {
		it.run = *chunkenc.NewBatch(size)
	}
}

// take makes a run of the sample that the iterator below has moved to; none if it is at its end.
func (it *iterator) take(moved chunkenc.ValueType) promchunkenc.ValueType {
	it.run.Cut(0)
	it.at, it.kind = -1, promchunkenc.ValueType(moved)
	if moved == chunkenc.ValNone {
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
