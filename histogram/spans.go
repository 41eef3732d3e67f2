package histogram

import "math"

// Span is a run of neighbouring buckets. Offset of the first span is the index of its
// first bucket; of a later one it is the gap, the number of indexes without a bucket, behind
// the span in front of it. A Length of 0 is legal and has no buckets.
type Span struct {
	Offset int32
	Length uint32
}

// Indexes walks the bucket indexes that spans describe, in their order. It is a value; make
// it with NewIndexes. Indexes are 64 bits wide, so that they are right even where spans
// leave the range of 32 bits.
type Indexes struct {
	spans []Span
	left  uint32 // buckets of the present span that are still to come
	next  int64  // index of the next bucket, or where the present span ended
}

// NewIndexes returns a walk before the first bucket of spans, which must not change
// meanwhile.
func NewIndexes(spans []Span) Indexes { return Indexes{spans: spans} }

// Next returns the next index; ok is false behind the last one.
//
//go:noinline
func (x *Indexes) Next() (index int64, ok bool) {
	for x.left == 0 {
		if len(x.spans) == 0 {
			return x.next, false
		}
		x.next += int64(x.spans[0].Offset)
		x.left = x.spans[0].Length
		x.spans = x.spans[1:]
	}
	x.left--
	x.next++
	return x.next - 1, true
}

// SpanBuilder writes spans for ascending indexes, as few as there can be. The zero value is
// ready; a caller may give it a slice without elements to append to.
type SpanBuilder struct {
	Spans []Span
	next  int64 // the index behind the newest one
}

// Add adds the bucket of an index, which is larger than all before it.
func (b *SpanBuilder) Add(index int64) { b.AddRun(index, 1) }

// AddRun adds n buckets from an index on, which is larger than all before it. n may be 0.
//
//go:noinline
func (b *SpanBuilder) AddRun(index int64, n uint32) {
	if n == 0 {
		return
	}
	gap := index - b.next
	b.next = index + int64(n)
	if last := len(b.Spans) - 1; last >= 0 && gap == 0 {
		b.Spans[last].Length += n
		return
	}
	for gap > math.MaxInt32 { // only from one end of the range to the other
		b.Spans = append(b.Spans, Span{Offset: math.MaxInt32})
		gap -= math.MaxInt32
	}
	b.Spans = append(b.Spans, Span{Offset: int32(gap), Length: n})
}

// NumBuckets returns how many buckets spans describe.
func NumBuckets(spans []Span) int {
	n := 0
	for _, s := range spans {
		n += int(s.Length)
	}
	return n
}

// EqualSpans reports whether two lists of spans are literally the same. It is no slices.Equal:
// around that one, callers are not inlined any more.
func EqualSpans(a, b []Span) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// compactSpans writes spans, in place, as few as there can be for the same indexes.
func compactSpans(spans []Span) []Span {
	if !loose(spans) {
		return spans
	}
	b := SpanBuilder{Spans: spans[:0]}
	at := int64(0)
	for _, s := range spans { // what is written is never in front of what is read
		at += int64(s.Offset)
		b.AddRun(at, s.Length)
		at += int64(s.Length)
	}
	return b.Spans
}

// loose reports whether there is a shorter list for the same indexes.
func loose(spans []Span) bool {
	for i, s := range spans {
		if s.Length == 0 || i > 0 && s.Offset == 0 {
			return true
		}
	}
	return false
}
