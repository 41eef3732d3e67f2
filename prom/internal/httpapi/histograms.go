package httpapi

import (
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/promql"
)

// Rules for the bounds of a bucket, as the API numbers them: which ends belong to it.
const (
	upperBelongs = '0'
	lowerBelongs = '1'
	noneBelongs  = '2'
	bothBelong   = '3'
)

// histogramPoint writes a time and a histogram.
func (e *encoder) histogramPoint(t int64, h *histogram.FloatHistogram) {
	e.raw("[")
	e.buf = appendTime(e.buf, t)
	e.raw(",")
	e.histogram(h)
	e.raw("]")
}

func (e *encoder) histogramPoints(list []promql.HPoint) {
	e.raw("[")
	for i, p := range list {
		if i > 0 {
			e.raw(",")
		}
		e.histogramPoint(p.T, p.H)
	}
	e.raw("]")
}

// histogram writes what is counted, and the buckets that are not empty from the lowest one on: the
// rule for their bounds, both bounds, and the count.
func (e *encoder) histogram(h *histogram.FloatHistogram) {
	e.raw(`{"count":`)
	e.quoted(h.Count)
	e.raw(`,"sum":`)
	e.quoted(h.Sum)
	before := `,"buckets":[`
	for it := h.AllBucketIterator(); it.Next(); {
		b := it.At()
		if b.Count == 0 {
			continue
		}
		e.raw(before)
		e.bucket(b)
		before = ","
	}
	if before == "," {
		e.raw("]")
	}
	e.raw("}")
	e.room()
}

func (e *encoder) bucket(b histogram.Bucket[float64]) {
	e.buf = append(e.buf, '[', boundsRule(b), ',')
	e.quoted(b.Lower)
	e.raw(",")
	e.quoted(b.Upper)
	e.raw(",")
	e.quoted(b.Count)
	e.raw("]")
	e.room()
}

func boundsRule(b histogram.Bucket[float64]) byte {
	switch {
	case b.LowerInclusive && b.UpperInclusive:
		return bothBelong
	case b.LowerInclusive:
		return lowerBelongs
	case b.UpperInclusive:
		return upperBelongs
	default:
		return noneBelongs
	}
}

// quoted writes a value as the API does: as a string.
func (e *encoder) quoted(v float64) {
	e.buf = append(e.buf, '"')
	e.buf = appendValue(e.buf, v)
	e.buf = append(e.buf, '"')
}
