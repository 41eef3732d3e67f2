package chunkenc

import (
	"slices"

	"github.com/pkg/errors"
)

// FloatDecoder decodes one chunk of floats of any encoding in runs. It is a value, takes
// no memory of its own and can be reset to other chunks. The zero value is an empty
// chunk.
type FloatDecoder struct {
	d    XOR2Decoder // of an XOR chunk only the part that both have
	xor2 bool
}

// Reset begins a chunk, which data must hold from its first byte on and as long as it is
// decoded. An encoding that is not of floats, or not known, is ErrUnknownEncoding.
func (d *FloatDecoder) Reset(enc Encoding, data []byte) error {
	d.xor2 = enc == EncXOR2
	switch enc {
	case EncXOR:
		return d.d.x.Reset(data)
	case EncXOR2:
		return d.d.Reset(data)
	default:
		*d = FloatDecoder{}
		return errUnknown(enc)
	}
}

func errUnknown(enc Encoding) error {
	return errors.WithMessagef(ErrUnknownEncoding, "encoding %d", uint8(enc))
}

// Left returns how many samples are still to be decoded.
func (d *FloatDecoder) Left() int { return d.d.x.left }

// Decode replaces b's content by the next samples, at most room of them and as many as b
// has capacity for; none without an error means that the chunk is at its end or that there
// was no room. With an error, the samples in b are good and the decoder gives nothing
// more.
func (d *FloatDecoder) Decode(b *Batch, room int) error {
	room = min(room, cap(b.T), cap(b.V))
	b.T, b.V, b.ST = b.T[:room], b.V[:room], b.ST[:0]
	if d.xor2 && d.d.hasST {
		return d.decodeST(b, room)
	}
	var n int
	var err error
	if d.xor2 {
		n, err = d.d.Decode(b.T, b.V)
	} else {
		n, err = d.d.x.Decode(b.T, b.V)
	}
	b.T, b.V = b.T[:n], b.V[:n]
	return err
}

// decodeST is Decode of a chunk in which samples may have start timestamps.
func (d *FloatDecoder) decodeST(b *Batch, room int) error {
	b.ST = slices.Grow(b.ST, room)[:room]
	n, err := d.d.DecodeST(b.T, b.V, b.ST)
	b.Cut(n)
	if !slices.ContainsFunc(b.ST, func(st int64) bool { return st != 0 }) {
		b.ST = b.ST[:0]
	}
	return err
}

// FloatEncoder builds a chunk of floats: an XOR chunk, or, if one of its samples has a
// start timestamp, an XOR2 chunk, as XOR has no place for it. The zero value is ready. It
// is for one goroutine.
type FloatEncoder struct {
	xor  XOREncoder
	xor2 *XOR2Encoder // kept; in use if it has samples
}

// Append adds one sample, whatever its time and value; st is its start timestamp in
// milliseconds, 0 for none. It returns ErrChunkFull if the chunk has MaxSamples samples.
func (e *FloatEncoder) Append(t int64, v float64, st int64) error {
	if st == 0 && !e.second() {
		return e.xor.Append(t, v)
	}
	if !e.second() {
		if err := e.change(); err != nil {
			return err
		}
	}
	return e.xor2.Append(t, v, st)
}

// second reports whether the chunk is an XOR2 chunk.
func (e *FloatEncoder) second() bool { return e.xor2 != nil && e.xor2.Len() > 0 }

// change encodes again what is there.
func (e *FloatEncoder) change() error {
	if e.Len() == MaxSamples {
		return ErrChunkFull
	}
	if e.xor2 == nil {
		e.xor2 = &XOR2Encoder{}
	}
	var it FloatIterator
	it.Reset(Chunk{enc: EncXOR, data: e.xor.AppendTo(nil)})
	for it.Next() != ValNone {
		t, v := it.At()
		if err := e.xor2.Append(t, v, 0); err != nil {
			return err
		}
	}
	e.xor.Reset()
	return it.Err()
}

// Encoding returns the encoding of the chunk so far.
func (e *FloatEncoder) Encoding() Encoding {
	if e.second() {
		return EncXOR2
	}
	return EncXOR
}

// Len returns the number of samples in the chunk.
func (e *FloatEncoder) Len() int {
	if e.second() {
		return e.xor2.Len()
	}
	return e.xor.Len()
}

// SizeBytes returns the length of the chunk that AppendTo gives.
func (e *FloatEncoder) SizeBytes() int {
	if e.second() {
		return e.xor2.SizeBytes()
	}
	return e.xor.SizeBytes()
}

// AppendTo appends the chunk's bytes to dst. The encoder can go on afterwards.
func (e *FloatEncoder) AppendTo(dst []byte) []byte {
	if e.second() {
		return e.xor2.AppendTo(dst)
	}
	return e.xor.AppendTo(dst)
}

// Reset begins a new chunk.
func (e *FloatEncoder) Reset() {
	e.xor.Reset()
	if e.xor2 != nil {
		e.xor2.Reset()
	}
}
