package remote

import (
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
)

// mergedOther is the sample, no float, that a merger has stopped at. It is read from the decoder of
// its chunk. The zero value stands on none.
type mergedOther struct {
	*chunkenc.Decoder // nil: it stands on none; else the merger does not know that it is taken
	// before is the decoder of the sample before it, if that stands before it in the chunk, too,
	// as far as is known; else nil.
	before *chunkenc.Decoder
}

// leave takes the sample for given, if it stands on one.
func (o *mergedOther) leave(m *samplemerge.Merger) {
	if o.Decoder != nil {
		m.Take()
		*o = mergedOther{before: o.Decoder}
	}
}

// stopped returns the kind of what comes next, now that a merger has stopped: floats in b, or the
// sample that it stands on.
func (o *mergedOther) stopped(m *samplemerge.Merger, at samplemerge.Stop, b *chunkenc.Batch) chunkenc.ValueType {
	switch {
	case b.Len() > 0:
		o.before = nil
		return chunkenc.ValFloat
	case at == samplemerge.AtOther:
		o.Decoder = m.Other()
		return o.Kind()
	default:
		return chunkenc.ValNone
	}
}

// other implements batchSource and answerSource.
func (o *mergedOther) other() otherSample { return o }

// Histogram implements otherSample. A hint compares with the sample before it in its chunk. If that
// is not the one before it in the series, nothing is known.
func (o *mergedOther) Histogram(dst *histogram.Histogram) {
	o.Decoder.Histogram(dst)
	dst.Hint = o.hint(dst.Hint)
}

// FloatHistogram implements otherSample.
func (o *mergedOther) FloatHistogram(dst *histogram.FloatHistogram) {
	o.Decoder.FloatHistogram(dst)
	dst.Hint = o.hint(dst.Hint)
}

func (o *mergedOther) hint(of histogram.ResetHint) histogram.ResetHint {
	if o.before != o.Decoder && of != histogram.HintGauge {
		return histogram.HintUnknown
	}
	return of
}
