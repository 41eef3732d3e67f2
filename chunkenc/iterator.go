package chunkenc

import "github.com/seed347100a3/tsdb/histogram"

// ValueType is the kind of the sample that an iterator stands on.
type ValueType uint8

// Kinds of samples. A caller must expect kinds that it does not know.
const (
	ValNone           ValueType = 0 // no sample: the end, or an error
	ValFloat          ValueType = 1
	ValHistogram      ValueType = 2 // a native histogram with integer counts
	ValFloatHistogram ValueType = 3 // one with float counts
)

// String returns the kind's name.
func (v ValueType) String() string {
	switch v {
	case ValNone:
		return "none"
	case ValFloat:
		return "float"
	case ValHistogram:
		return "histogram"
	case ValFloatHistogram:
		return "float histogram"
	default:
		return "unknown"
	}
}

// Timestamp is milliseconds since 1970; it is int64 by another name, and callers need no
// conversion. A Seek that takes it is not mistaken for that of io.Seeker, by go vet or a reader.
type Timestamp = int64

// Iterator walks samples in the order of their times. It is used by one goroutine
// at a time. Times are milliseconds.
//
// A new iterator stands before the first sample. At and AtT are defined only after
// a call that returned something else than ValNone, and until the next call that
// moves. After ValNone the iterator stays at its end, whichever call came there and whichever
// comes next, a Seek to an earlier time included; Err says whether that is the end of the
// data (nil) or damage, and keeps saying so. Samples in front of damage are given first; a Seek
// may pass over damage that lies before its time.
type Iterator interface {
	// Next moves to the next sample and returns its kind.
	Next() ValueType
	// Seek moves to the first sample whose time is t or later, never backwards:
	// an iterator that already stands on such a sample stays, as it does after a batch
	// whose last sample is one.
	Seek(t Timestamp) ValueType
	// At returns the float sample that the iterator stands on. For a sample of another kind it
	// returns the time and NaN, as the two below make dst empty for one that is not theirs.
	At() (t int64, v float64)
	// AtHistogram makes dst the ValHistogram that the iterator stands on, and returns its time. It
	// copies: dst belongs to the caller, and what it has room for is not allocated.
	AtHistogram(dst *histogram.Histogram) (t int64)
	// AtFloatHistogram does the same of a ValFloatHistogram, and of a ValHistogram with its counts
	// as floats.
	AtFloatHistogram(dst *histogram.FloatHistogram) (t int64)
	// AtT returns its time, whatever its kind.
	AtT() int64
	// AtST returns its start timestamp in milliseconds: since when what it counts has
	// been counted. 0 if it has none.
	AtST() int64
	// Err returns what ended the iteration, nil for the end of the data.
	Err() error
	// NextBatch replaces b's content by the float samples that follow the current
	// one, at least one and at most as many as b has capacity for, and returns
	// ValFloat; the iterator then stands on the last of them. If the next sample is of
	// another kind it returns that kind and b is empty: Next moves to that sample, and what the
	// iterator stands on until then is undefined. At the end it returns ValNone and b is empty.
	NextBatch(b *Batch) ValueType
}

// BatchSize is the capacity of a Batch that has none: two chunks of the usual 120
// samples, 4 KiB, so that a batch stays in the first-level cache.
const BatchSize = 256

// Batch is a run of float samples, times and values side by side: T[i] belongs to
// V[i], and both have the same length. The zero Batch is ready for use: whoever
// fills it first gives it capacity BatchSize. It may be given more.
type Batch struct {
	T []int64 // milliseconds
	V []float64
	// ST are the start timestamps, milliseconds, 0 for none. It is empty if no sample of
	// the run has one, as is usual, and as long as T otherwise.
	ST []int64
}

// NewBatch returns an empty batch for size samples, for BatchSize if size is not
// positive.
func NewBatch(size int) *Batch {
	if size <= 0 {
		size = BatchSize
	}
	return &Batch{T: make([]int64, 0, size), V: make([]float64, 0, size)}
}

// Len returns the number of samples in b.
func (b *Batch) Len() int { return len(b.T) }

// open sets b's length to its capacity, which it makes when there is none.
func (b *Batch) open() {
	n := min(cap(b.T), cap(b.V))
	if n == 0 {
		*b = *NewBatch(BatchSize)
		n = BatchSize
	}
	b.T, b.V, b.ST = b.T[:n], b.V[:n], b.ST[:0]
}

// Cut shortens b to its first n samples.
func (b *Batch) Cut(n int) { b.T, b.V, b.ST = b.T[:n], b.V[:n], b.ST[:min(n, len(b.ST))] }

// Append appends the samples [i, j) of another batch to b.
//
// It is called for runs and not for samples; inlined it took a kilobyte in each place.
//
//go:noinline
func (b *Batch) Append(from *Batch, i, j int) {
	if len(from.ST) > 0 || len(b.ST) > 0 {
		b.ST = append(b.ST, make([]int64, len(b.T)-len(b.ST))...)
		if len(from.ST) > 0 {
			b.ST = append(b.ST, from.ST[i:j]...)
		} else {
			b.ST = append(b.ST, make([]int64, j-i)...)
		}
	}
	b.T, b.V = append(b.T, from.T[i:j]...), append(b.V, from.V[i:j]...)
}

// StartOf returns the start timestamp of sample i, 0 if it has none.
func (b *Batch) StartOf(i int) int64 {
	if len(b.ST) == 0 {
		return 0
	}
	return b.ST[i]
}

// Move puts sample i in the place of sample to.
func (b *Batch) Move(to, i int) {
	b.T[to], b.V[to] = b.T[i], b.V[i]
	if len(b.ST) > 0 {
		b.ST[to] = b.ST[i]
	}
}
