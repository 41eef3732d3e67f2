package late

import (
	"math"
	"unsafe"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
)

// Sample is a late sample of any kind.
type Sample struct {
	T        int64  // milliseconds
	Sum      uint64 // the bits of a float, the digest of a histogram
	ST       int64  // start timestamp in milliseconds, 0 for none
	Body     []byte // of a histogram, as records of the log have it
	Encoding chunkenc.Encoding
}

// sample is one that is kept as it came.
type sample struct {
	t   int64
	sum uint64
	seq uint64 // the commit that it came with
	// wide is what it has beyond a time and 64 bits; nil: nothing.
	wide *wide
}

type wide struct {
	st       int64
	body     []byte
	encoding chunkenc.Encoding
}

const (
	sampleBytes = int64(unsafe.Sizeof(sample{}))
	wideBytes   = int64(unsafe.Sizeof(wide{}))
)

//go:noinline
func newSample(s *Sample, seq uint64) sample {
	kept := sample{t: s.T, sum: s.Sum, seq: seq}
	if s.Encoding != chunkenc.EncXOR {
		kept.wide = &wide{st: s.ST, body: append([]byte(nil), s.Body...), encoding: s.Encoding}
	}
	return kept
}

// bytes is what it takes beside a sample.
func (s *sample) bytes() int64 {
	if s.wide == nil {
		return 0
	}
	return wideBytes + int64(cap(s.wide.body))
}

// isNewer reports whether it is of a later time, or of the same and a later commit.
func (s *sample) isNewer(t int64, seq uint64) bool { return s.t > t || s.t == t && s.seq > seq }

// encoder makes chunks of samples that ascend in time. It keeps its memory from series to series.
type encoder struct {
	cutting Cutting
	enc     chunkenc.Encoder
	end     int64 // a sample at or after it is of the next chunk
	first   int64
	last    int64
	out     []Chunk

	ints   histogram.Histogram
	floats histogram.FloatHistogram
}

// Cutting is when chunks are cut.
type Cutting struct {
	Range   int64 // milliseconds; no chunk crosses a multiple of it
	Samples int   // the most in a chunk
}

// begin goes to a list of chunks, to which those that follow are appended.
func (e *encoder) begin(out []Chunk) {
	e.out = out
	e.enc.Reset()
}

// done ends the last chunk, and returns the list.
func (e *encoder) done() []Chunk {
	e.cut()
	out := e.out
	e.out = nil
	return out
}

// cut ends the chunk, if it has samples.
func (e *encoder) cut() {
	if n := e.enc.Len(); n > 0 {
		data := e.enc.AppendTo(make([]byte, 0, e.enc.SizeBytes()))
		e.out = append(e.out, Chunk{MinT: e.first, MaxT: e.last, Num: n, Encoding: e.enc.Encoding(), Data: data})
	}
	e.enc.Reset()
}

// pass appends a chunk as it is.
func (e *encoder) pass(c Chunk) {
	e.cut()
	e.out = append(e.out, c)
}

// add appends a sample by a call that adds it to the encoder, and that is made again where the
// chunk before must end.
func (e *encoder) add(t int64, to func() error) error {
	if n := e.enc.Len(); n > 0 && (t >= e.end || n >= e.cutting.Samples) {
		e.cut()
	}
	err := to()
	if err == chunkenc.ErrChunkFull && e.enc.Len() > 0 {
		e.cut()
		err = to()
	}
	if err != nil {
		return err
	}
	if e.enc.Len() == 1 {
		e.first, e.end = t, memseries.RangeEnd(t, e.cutting.Range)
	}
	e.last = t
	return nil
}

func (e *encoder) addFloat(t int64, v float64, st int64) error {
	return e.add(t, func() error { return e.enc.Append(t, v, st) })
}

func (e *encoder) addOther(d *chunkenc.Decoder) error {
	return e.add(d.T(), func() error { return e.enc.AppendOther(d) })
}

// addSample adds one that is kept as it came.
func (e *encoder) addSample(s *sample) error {
	if s.wide == nil {
		return e.addFloat(s.t, math.Float64frombits(s.sum), 0)
	}
	switch s.wide.encoding {
	case chunkenc.EncHistogram:
		if err := record.ReadHistogram(s.wide.body, &e.ints); err != nil {
			return err
		}
		return e.add(s.t, func() error { return e.enc.AppendHistogram(s.t, &e.ints, s.wide.st) })
	case chunkenc.EncFloatHistogram:
		if err := record.ReadFloatHistogram(s.wide.body, &e.floats); err != nil {
			return err
		}
		return e.add(s.t, func() error { return e.enc.AppendFloatHistogram(s.t, &e.floats, s.wide.st) })
	default:
		return e.addFloat(s.t, math.Float64frombits(s.sum), s.wide.st)
	}
}
