package histchunk

import (
	"math"

	"github.com/seed347100a3/tsdb/histogram"
)

// Encoder builds chunks of histograms in a buffer of its own, which is kept for the next
// chunk. The first sample says whether a chunk is one of integers or of floats. If a sample
// has a start timestamp, the chunk becomes one that has room for it. The zero value is ready.
// It is for one goroutine.
//
//	next, taken := e.Append(t, st, h)
//	if !taken {
//		full = e.AppendTo(full)
//		e.Reset(next)
//		e.Append(t, st, h) // an empty encoder takes everything
//	}
//
// Histograms are valid (Validate), or were read by a Decoder.
type Encoder struct {
	stream
	firstT int64
	other  *another // for samples with other buckets than the chunk; made when needed
}

// Append adds one sample at time t, whatever that is; st is its start timestamp, 0 for none,
// both in milliseconds. If it is not taken, the chunk ends before it, and next is the counter
// reset header of the chunk that the sample begins.
//
// What is read back may have more buckets than h, and its spans may be written in another
// way: buckets that are new in h are added to all samples of the chunk, and h gets those that
// only the others have, with counts of 0.
func (e *Encoder) Append(t, st int64, h *histogram.Histogram) (next Header, taken bool) {
	if st == 0 && !e.st && e.num > 0 && e.num < MaxSamples && e.goesOn(h) {
		e.writeInts(uint64(t), h.Count, h.ZeroCount, math.Float64bits(h.Sum), h.PositiveBuckets, h.NegativeBuckets)
		e.num++
		return e.header, true
	}
	s := fromInts(h)
	return e.append(t, st, &s)
}

// AppendFloat is Append of a float histogram.
func (e *Encoder) AppendFloat(t, st int64, h *histogram.FloatHistogram) (next Header, taken bool) {
	s := fromFloats(h)
	return e.append(t, st, &s)
}

func (e *Encoder) append(t, st int64, s *sample) (next Header, taken bool) {
	if !s.whole() {
		panic("BUG: spans and buckets of a histogram differ in number")
	}
	if e.num == 0 {
		e.begin(t, st != 0 || e.st, s)
		e.write(t, st, s)
		return e.header, true
	}
	v := e.judge(s)
	limit := MaxSamples
	if e.st || st != 0 {
		limit = MaxSamplesST
	}
	switch {
	case !v.fits:
		return v.header, false
	case e.num >= limit:
		return e.follow(v, s), false
	case v.grown || st != 0 && !e.st:
		e.recode(s, v.grown, st != 0)
	}
	if v.other {
		s = e.other.widened(s)
	}
	e.write(t, st, s)
	return e.header, true
}

// HeaderAfter returns the counter reset header of a chunk that h begins, if this chunk ends
// here although h may fit it: by size, or by time.
func (e *Encoder) HeaderAfter(h *histogram.Histogram) Header {
	s := fromInts(h)
	return e.follow(e.judge(&s), &s)
}

// HeaderAfterFloat is HeaderAfter of a float histogram.
func (e *Encoder) HeaderAfterFloat(h *histogram.FloatHistogram) Header {
	s := fromFloats(h)
	return e.follow(e.judge(&s), &s)
}

// begin begins a chunk with the layout of its first sample.
func (e *Encoder) begin(t int64, st bool, s *sample) {
	e.header = byHint(s.hint, e.header)
	if e.header == HeaderGauge && s.hint != histogram.HintGauge {
		e.header = HeaderUnknown // it was meant for another sample
	}
	e.firstT, e.float, e.st = t, s.float, st
	l := &e.layout
	l.schema, l.threshold = s.schema, s.threshold
	l.custom = append(l.custom[:0], s.custom...)
	for side, spans := range s.spans {
		l.setSpans(side, spans)
	}
	e.restart()
}

// Header returns the counter reset header of the chunk.
func (e *Encoder) Header() Header { return e.header }

// NumSamples returns the number of samples in the chunk.
func (e *Encoder) NumSamples() int { return e.num }

// FirstT returns the time of the first sample in milliseconds; undefined if there is none.
func (e *Encoder) FirstT() int64 { return e.firstT }

// LastT returns the time of the newest sample in milliseconds; undefined if there is none.
func (e *Encoder) LastT() int64 { return int64(e.time().v) }

// SizeBytes returns the length of the chunk so far.
func (e *Encoder) SizeBytes() int { return e.w.sizeBytes() }

// MemoryBytes returns how many bytes of memory the encoder holds beside itself: its buffers, which
// stay over a Reset. It takes no time to speak of.
func (e *Encoder) MemoryBytes() int {
	n := cap(e.w.buf) + e.newest.memoryBytes()
	if e.other != nil {
		n += e.other.memoryBytes()
	}
	return n
}

// Floats reports whether the chunk is one of float histograms.
func (e *Encoder) Floats() bool { return e.float }

// Reset begins a new chunk, whose header is that which Append or HeaderAfter gave for its
// first sample, or HeaderUnknown. A sample that says itself that it is a gauge, or that there
// was a reset, changes the header.
// It is called once a chunk, and not inlined.
//
//go:noinline
func (e *Encoder) Reset(header Header) {
	w := bitWriter{buf: e.w.buf[:0]}
	*e = Encoder{stream: stream{w: w, newest: e.newest, header: header}, other: e.other}
}
