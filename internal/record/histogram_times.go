package record

import (
	"math"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// Histograms are not read yet, but when they are from: what is older than all that the head takes
// is in a block, and nothing is lost without it.

// customBuckets is the schema of histograms that list the bounds of their buckets.
const customBuckets = -53

// least bytes of what lists have.
const (
	minSpanBytes = 2
	float64Bytes = 8
)

// NewestHistogram returns the time in milliseconds of the newest sample of a record of histograms,
// of whatever type; of none math.MinInt64. ok is false if the record is of another type, or
// makes no sense.
func NewestHistogram(rec []byte) (newest int64, ok bool) {
	newest = math.MinInt64
	typ := TypeOf(rec)
	var w histogramWalk
	switch typ {
	case TypeHistograms, TypeCustomHistograms:
	case TypeHistogramsV2:
		w.v2 = true
	case TypeFloatHistograms, TypeCustomFloats:
		w.floats = true
	case TypeFloatsV2:
		w.floats, w.v2 = true, true
	default:
		return newest, false
	}
	w.Dec = encbuf.NewDec(rec[1:])
	for first := true; w.Len() > 0 && w.Err() == nil; first = false {
		newest = max(newest, w.time(first))
		w.body()
	}
	return newest, w.Err() == nil
}

// histogramWalk goes through the entries of a record.
type histogramWalk struct {
	encbuf.Dec
	floats, v2 bool
	base       int64 // time that those of entries are relative to
}

// time reads what an entry has before its body. The base of a record of version 1 need not be
// the first entry.
func (w *histogramWalk) time(first bool) int64 {
	switch {
	case !w.v2 && first:
		w.BE64() // base ref
		w.base = int64(w.BE64())
		fallthrough
	case !w.v2:
		w.Varint() // ref
		return w.base + w.Varint()
	case first:
		w.Varint() // ref
		w.base = w.Varint()
		w.Varint() // start timestamp
		return w.base
	}
	w.Varint() // ref
	t := w.base + w.Varint()
	if marker := w.Byte(); marker > 1 {
		w.Varint() // start timestamp
	}
	return t
}

// body passes over a histogram.
func (w *histogramWalk) body() {
	w.Byte() // counter reset hint
	schema := w.Varint()
	w.Float64() // zero threshold
	w.count()   // of the zero bucket
	w.count()   // of all
	w.Float64() // sum
	for range 2 {
		for range w.Count(minSpanBytes) {
			w.Varint()  // offset
			w.Uvarint() // length
		}
	}
	for range 2 {
		w.buckets()
	}
	if schema == customBuckets {
		w.Bytes(float64Bytes * w.Count(float64Bytes))
	}
}

func (w *histogramWalk) count() {
	if w.floats {
		w.Float64()
	} else {
		w.Uvarint()
	}
}

// buckets passes over the positive or the negative ones.
func (w *histogramWalk) buckets() {
	if w.floats {
		w.Bytes(float64Bytes * w.Count(float64Bytes))
		return
	}
	for range w.Count(1) {
		w.Varint()
	}
}
