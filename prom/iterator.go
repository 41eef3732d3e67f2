package prom

import (
	"github.com/prometheus/prometheus/model/histogram"
	promchunkenc "github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/seed347100a3/tsdb/chunkenc"
)

// iterator is an iterator of ours as one of theirs. It reads runs, so that a step costs an addition.
type iterator struct {
	it   chunkenc.Iterator
	run  chunkenc.Batch // [at:] is still to be read; at is where it stands
	at   int
	ones int // samples that were read one by one
	oneT [1]int64
	oneV [1]float64
}

// The first samples are read one by one, which is all that a query of one instant needs: five minutes of
// them, one each ten seconds. Who reads on gets runs of a usual chunk, which take 2 kB.
const (
	readAlone = 32
	runSize   = 128
)

// reset puts the iterator before the first sample of another one.
func (it *iterator) reset(of chunkenc.Iterator) {
	it.it, it.at = of, -1
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
	if cap(it.run.T) < runSize {
		if it.ones++; it.ones <= readAlone {
			return it.take(it.it.Next())
		}
		it.run = *chunkenc.NewBatch(runSize)
	}
	if it.it.NextBatch(&it.run) != chunkenc.ValFloat {
		return it.take(chunkenc.ValNone)
	}
	it.at = 0
	return promchunkenc.ValFloat
}

// take makes a run of the sample that the iterator below has moved to; none if it is at its end.
func (it *iterator) take(moved chunkenc.ValueType) promchunkenc.ValueType {
	it.run.Cut(0)
	it.at = -1
	if moved != chunkenc.ValFloat {
		return promchunkenc.ValNone
	}
	t, v := it.it.At()
	it.run.T, it.run.V = append(it.run.T, t), append(it.run.V, v)
	if st := it.it.AtST(); st != 0 {
		it.run.ST = append(it.run.ST, st)
	}
	it.at = 0
	return promchunkenc.ValFloat
}

// Seek implements chunkenc.Iterator.
func (it *iterator) Seek(t chunkenc.Timestamp) promchunkenc.ValueType {
	if it.at < 0 {
		it.at = 0 // the run is empty
	}
	for ; it.at < len(it.run.T); it.at++ {
		if it.run.T[it.at] >= t {
			return promchunkenc.ValFloat
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

// AtHistogram implements chunkenc.Iterator. No sample is a histogram, so nobody may call it.
func (it *iterator) AtHistogram(*histogram.Histogram) (int64, *histogram.Histogram) {
	panic("prom: AtHistogram of a float sample")
}

// AtFloatHistogram implements chunkenc.Iterator. No sample is a histogram, so nobody may call it.
func (it *iterator) AtFloatHistogram(*histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	panic("prom: AtFloatHistogram of a float sample")
}

// Err implements chunkenc.Iterator.
func (it *iterator) Err() error { return it.it.Err() }
