package read

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// Samples that are no floats are decoded one by one. Each stands in the batch of the iterator as a
// run of one, with its time and without a value; what it is lies in the decoder.

// lookAhead moves the decoder to the next sample of its chunk that counts. False: there is none.
func (it *iterator) lookAhead() bool {
	for !it.ahead {
		ok, err := it.dec.Next()
		if err != nil {
			it.fail(it.src.Place(err))
		}
		if !ok {
			return false
		}
		t := it.dec.T()
		if t > it.chunk.To {
			it.dec.Stop()
			return false
		}
		it.ahead = it.chunk.Shows(t)
		if t >= it.chunk.From && it.lead.note(it.ahead) {
			it.unsure = t
		}
	}
	return true
}

// lead is what became of the first samples of a chunk.
type lead uint8

const (
	nothingGiven lead = iota
	deletedOnly
	someGiven
)

// note notes whether a sample counts that is behind the begin of the bounds, and reports whether
// what it says of the one before it is of no use. A histogram says that it is no reset by the one
// before it in its chunk. If all of those are deleted, that says nothing of the one before the
// chunk: the deleted ones may have begun with a reset.
func (l *lead) note(counts bool) (unsure bool) {
	was := *l
	if counts {
		*l = someGiven
	} else if was == nothingGiven {
		*l = deletedOnly
	}
	return counts && was == deletedOnly
}

// other makes the sample that is ahead the run.
func (it *iterator) other() chunkenc.ValueType {
	it.ahead = false
	b := &it.batch
	b.T, b.V, b.ST = append(b.T[:0], it.dec.T()), append(b.V[:0], math.NaN()), b.ST[:0]
	if st := it.dec.ST(); st != 0 {
		b.ST = append(b.ST, st)
	}
	it.n, it.at, it.kind = 1, 0, it.dec.Kind()
	return it.kind
}

// announce returns the kind of the sample that is ahead, which stays there.
func (it *iterator) announce() chunkenc.ValueType {
	if it.done {
		it.n = 0 // the end is for good
		return chunkenc.ValNone
	}
	return it.dec.Kind()
}

// noteSought notes that a Seek went to a histogram. What its place says of the one before it there
// is of no use where several places are read as one.
func (it *iterator) noteSought() {
	if _, several := it.src.(*mergedChunks); several {
		it.unsure = it.batch.T[0]
	}
}

// hint returns what is said of the histogram that the iterator stands on.
func (it *iterator) hint(stored histogram.ResetHint) histogram.ResetHint {
	if stored != histogram.HintGauge && it.unsure == it.AtT() {
		return histogram.HintUnknown
	}
	return stored
}

// AtHistogram implements chunkenc.Iterator.
func (it *iterator) AtHistogram(dst *histogram.Histogram) int64 {
	it.dec.Histogram(dst)
	dst.Hint = it.hint(dst.Hint)
	return it.AtT()
}

// AtFloatHistogram implements chunkenc.Iterator.
func (it *iterator) AtFloatHistogram(dst *histogram.FloatHistogram) int64 {
	it.dec.FloatHistogram(dst)
	dst.Hint = it.hint(dst.Hint)
	return it.AtT()
}
