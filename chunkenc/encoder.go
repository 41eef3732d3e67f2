package chunkenc

import (
	"unsafe"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histchunk"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// Encoder builds a chunk of the encoding that its samples need: XOR for floats, XOR2 if one of them
// has a start timestamp, as XOR has no place for it, and those of histograms. The first sample
// decides which kind it is. The zero value is ready. It is for one goroutine.
//
// Where a sample cannot be in the chunk of those before it, Append and the like return
// ErrChunkFull: the chunk ends, and the sample is the first one behind a Reset.
type Encoder struct {
	xor  xorchunk.Encoder
	xor2 *xorchunk.Encoder2 // made when it is needed, and kept
	hist *histogramEncoder  // likewise
	kind encoderKind        // which of them has the samples
	next histchunk.Header   // of the chunk behind this one, if a histogram was refused
}

// encoderKind says which encoder of several has the samples.
type encoderKind uint8

const (
	ofXOR encoderKind = iota // or there is no sample
	ofXOR2
	ofHistograms
)

// histogramEncoder is an encoder of histograms with what is on its way to it.
type histogramEncoder struct {
	histchunk.Encoder
	ints   histogram.Histogram
	floats histogram.FloatHistogram
}

// Append adds one float, whatever its time and value; st is its start timestamp in
// milliseconds, 0 for none. It returns ErrChunkFull if the chunk has MaxSamples samples, or
// histograms.
func (e *Encoder) Append(t int64, v float64, st int64) error {
	switch {
	case e.kind == ofHistograms:
		return ErrChunkFull
	case e.kind == ofXOR2:
	case st == 0:
		return e.xor.Append(t, v)
	default:
		if err := e.change(); err != nil {
			return err
		}
	}
	return e.xor2.Append(t, v, st)
}

// change encodes again what is there.
func (e *Encoder) change() error {
	if e.Len() == MaxSamples {
		return ErrChunkFull
	}
	if e.xor2 == nil {
		e.xor2 = &xorchunk.Encoder2{}
	}
	var it chunkIterator
	it.reset(Chunk{enc: EncXOR, data: e.xor.AppendTo(nil)})
	for it.Next() != ValNone {
		t, v := it.At()
		if err := e.xor2.Append(t, v, 0); err != nil {
			return err
		}
	}
	e.xor.Reset()
	e.kind = ofXOR2
	return it.Err()
}

// AppendHistogram adds one histogram with integer counts, which is valid, as Append does it. It
// returns ErrChunkFull where a chunk ends by the rules of the format, too: a change of the layout
// that cannot be recoded, or a counter reset.
func (e *Encoder) AppendHistogram(t int64, h *histogram.Histogram, st int64) error {
	enc := e.histograms()
	if enc == nil {
		return ErrChunkFull
	}
	return e.taken(enc.Append(t, st, h))
}

// AppendFloatHistogram is AppendHistogram for one with float counts.
func (e *Encoder) AppendFloatHistogram(t int64, h *histogram.FloatHistogram, st int64) error {
	enc := e.histograms()
	if enc == nil {
		return ErrChunkFull
	}
	return e.taken(enc.AppendFloat(t, st, h))
}

// AppendOther adds the sample that a Decoder has moved to, which is no float.
func (e *Encoder) AppendOther(d *Decoder) error {
	enc := e.histograms()
	if enc == nil {
		return ErrChunkFull
	}
	if d.Kind() == ValHistogram {
		d.Histogram(&enc.ints)
		return e.taken(enc.Append(d.T(), d.ST(), &enc.ints))
	}
	d.FloatHistogram(&enc.floats)
	return e.taken(enc.AppendFloat(d.T(), d.ST(), &enc.floats))
}

// EndBefore says that the chunk ends before a histogram although that may fit it, by size or by
// time.
func (e *Encoder) EndBefore(h *histogram.Histogram) {
	if e.kind == ofHistograms {
		e.next = e.hist.HeaderAfter(h)
	}
}

// EndBeforeFloat is EndBefore for a float histogram.
func (e *Encoder) EndBeforeFloat(h *histogram.FloatHistogram) {
	if e.kind == ofHistograms {
		e.next = e.hist.HeaderAfterFloat(h)
	}
}

// histograms returns the encoder of histograms, nil if the chunk has floats.
func (e *Encoder) histograms() *histogramEncoder {
	if e.xor.Len() > 0 || e.kind == ofXOR2 {
		return nil
	}
	if e.hist == nil {
		e.hist = &histogramEncoder{}
	}
	if e.kind != ofHistograms {
		e.hist.Reset(e.next)
		e.next = histchunk.HeaderUnknown
	}
	return e.hist
}

// taken keeps how the next chunk begins if a histogram was refused.
func (e *Encoder) taken(next histchunk.Header, taken bool) error {
	if taken {
		e.kind = ofHistograms
		return nil
	}
	e.next = next
	return ErrChunkFull
}

// Encoding returns the encoding of the chunk so far.
//
//go:noinline
func (e *Encoder) Encoding() Encoding {
	switch e.kind {
	case ofHistograms:
		return Encoding(e.hist.Encoding())
	case ofXOR2:
		return EncXOR2
	default:
		return EncXOR
	}
}

// Len returns the number of samples in the chunk. It is asked once a chunk or so, and not inlined.
//
//go:noinline
func (e *Encoder) Len() int {
	switch e.kind {
	case ofHistograms:
		return e.hist.NumSamples()
	case ofXOR2:
		return e.xor2.Len()
	default:
		return e.xor.Len()
	}
}

// SizeBytes returns the length of the chunk that AppendTo gives.
func (e *Encoder) SizeBytes() int {
	switch e.kind {
	case ofHistograms:
		return e.hist.SizeBytes()
	case ofXOR2:
		return e.xor2.SizeBytes()
	default:
		return e.xor.SizeBytes()
	}
}

// MemoryBytes returns how many bytes of memory the encoder holds beside itself, without what
// AppendOther has read last. They stay over a Reset.
func (e *Encoder) MemoryBytes() int {
	n := e.xor.MemoryBytes()
	if e.xor2 != nil {
		n += int(unsafe.Sizeof(*e.xor2)) + e.xor2.MemoryBytes()
	}
	if e.hist != nil {
		n += int(unsafe.Sizeof(*e.hist)) + e.hist.MemoryBytes()
	}
	return n
}

// AppendTo appends the chunk's bytes to dst. The encoder can go on afterwards.
func (e *Encoder) AppendTo(dst []byte) []byte {
	switch e.kind {
	case ofHistograms:
		return e.hist.AppendTo(dst)
	case ofXOR2:
		return e.xor2.AppendTo(dst)
	default:
		return e.xor.AppendTo(dst)
	}
}

// Reset begins a new chunk. If a histogram was refused, that is the first one of it.
// It is called once a chunk, and not inlined.
//
//go:noinline
func (e *Encoder) Reset() {
	switch e.kind {
	case ofHistograms:
		e.hist.Reset(histchunk.HeaderUnknown)
	case ofXOR2:
		e.xor2.Reset()
	}
	e.xor.Reset()
	e.kind = ofXOR
}
