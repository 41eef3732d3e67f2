package remote

import (
	"iter"
	"math"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// sampleReader reads the samples of series. It keeps its memory.
type sampleReader struct {
	it     chunkenc.Iterator
	ints   histogram.Histogram
	floats histogram.FloatHistogram
	err    error // why the last series ended early
}

// after yields the samples of a series behind a time. Each is good until the next one.
func (sr *sampleReader) after(s *tsdb.Series, t int64) iter.Seq[*tsdb.TailSample] {
	return func(yield func(*tsdb.TailSample) bool) {
		it := s.Iterator(sr.it)
		sr.it, sr.err = it, nil
		kind := chunkenc.ValNone
		if t == math.MinInt64 {
			kind = it.Next()
		} else {
			kind = it.Seek(t + 1)
		}
		for ; kind != chunkenc.ValNone; kind = it.Next() {
			sample := tsdb.TailSample{ST: it.AtST()}
			switch kind {
			case chunkenc.ValHistogram:
				sample.H = &sr.ints
				sample.T = it.AtHistogram(sample.H)
			case chunkenc.ValFloatHistogram:
				sample.FH = &sr.floats
				sample.T = it.AtFloatHistogram(sample.FH)
			default:
				sample.T, sample.V = it.At()
			}
			if !yield(&sample) {
				return
			}
		}
		sr.err = it.Err()
	}
}
