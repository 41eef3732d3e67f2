package record

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// A samples record (V1); an empty one is the type byte alone:
//
//	+------+---------------+-------------+----------------------------------+
//	| 0x02 | base_ref be64 | base_t be64 | entries until the end            |
//	+------+---------------+-------------+----------------------------------+
//	entry: ref - base_ref varint | t - base_t varint | value f64
//
// The base is the first sample, which is repeated as the first entry: 00 00 value.
//
// A samples record (V2) has no base. Its first entry is whole, the others follow
// from the entry before them (ref) and from the first (t, start):
//
//	first: ref varint | t varint | start varint | value f64
//	other: ref - previous ref varint | t - first t varint | start | value f64
//	start: 0 none | 1 the previous entry's | other, then start - first start varint

// Markers of start timestamps.
const (
	startNone  = 0
	startSame  = 1 // as that of the entry before
	startOther = 2 // and all above it
)

// Sizes of a V1 entry in bytes: two varints and the value.
const (
	minSampleBytes = 1 + 1 + 8
	maxSampleBytes = 2*encbuf.MaxVarintLen64 + 8
)

// Sample is one float sample: T is in milliseconds, V keeps its bits.
type Sample struct {
	Ref uint64
	T   int64
	V   float64
}

// SampleEncoder builds one samples record (V1) entry by entry. The zero value is
// ready for Begin.
type SampleEncoder struct {
	ref     uint64
	t       int64
	started bool
}

// Begin starts a samples record at the end of dst.
func (e *SampleEncoder) Begin(dst []byte) []byte {
	*e = SampleEncoder{}
	return append(dst, byte(TypeSamples))
}

// Append appends a sample to the record that dst ends with.
func (e *SampleEncoder) Append(dst []byte, ref uint64, t int64, v float64) []byte {
	if !e.started {
		*e = SampleEncoder{ref: ref, t: t, started: true}
		dst = encbuf.AppendBE64(dst, ref)
		dst = encbuf.AppendBE64(dst, uint64(t))
	}
	n := len(dst)
	if cap(dst)-n < maxSampleBytes {
		dst = slices.Grow(dst, maxSampleBytes)
	}
	b := (*[maxSampleBytes]byte)(dst[n : n+maxSampleBytes])
	if zig := encbuf.Zigzag(int64(ref - e.ref)); zig-1<<7 < 1<<14-1<<7 && t == e.t { // a ref of two bytes, and a time of one: most of a scrape
		binary.LittleEndian.PutUint32(b[:], uint32(zig&0x7f|0x80|zig>>7<<8))
		binary.BigEndian.PutUint64(b[3:], math.Float64bits(v))
		return dst[:n+3+8]
	}
	i := binary.PutVarint(b[:], int64(ref-e.ref))
	i += binary.PutVarint(b[i:], t-e.t)
	binary.BigEndian.PutUint64(b[i:], math.Float64bits(v))
	return dst[:n+i+8]
}

// StartEncoder builds one samples record (V2) entry by entry. The zero value is ready for Begin.
type StartEncoder struct {
	ref     uint64 // of the entry before
	start   int64
	t, st   int64 // of the first entry
	started bool
}

// Begin starts a samples record at the end of dst.
func (e *StartEncoder) Begin(dst []byte) []byte {
	*e = StartEncoder{}
	return append(dst, byte(TypeSamplesV2))
}

// Append appends a sample to the record that dst ends with; st is its start timestamp in
// milliseconds, 0 for none.
func (e *StartEncoder) Append(dst []byte, s Sample, st int64) []byte {
	if !e.started {
		*e = StartEncoder{t: s.T, st: st, started: true}
		dst = encbuf.AppendVarint(dst, int64(s.Ref))
		dst = encbuf.AppendVarint(dst, s.T)
		dst = encbuf.AppendVarint(dst, st)
	} else {
		dst = encbuf.AppendVarint(dst, int64(s.Ref-e.ref))
		dst = encbuf.AppendVarint(dst, s.T-e.t)
		dst = e.appendStart(dst, st)
	}
	e.ref, e.start = s.Ref, st
	return encbuf.AppendBE64(dst, math.Float64bits(s.V))
}

// appendStart appends the start timestamp of an entry that is not the first.
func (e *StartEncoder) appendStart(dst []byte, st int64) []byte {
	switch st {
	case 0:
		return append(dst, startNone)
	case e.start:
		return append(dst, startSame)
	default:
		return encbuf.AppendVarint(append(dst, startOther), st-e.st)
	}
}

// AppendSamples appends one samples record (V1) with all of samples, in their order.
func AppendSamples(dst []byte, samples []Sample) []byte {
	var e SampleEncoder
	dst = e.Begin(dst)
	for _, s := range samples {
		dst = e.Append(dst, s.Ref, s.T, s.V)
	}
	return dst
}
