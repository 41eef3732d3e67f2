package chunkenc

import (
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histchunk"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// Decoder decodes one chunk of any encoding that this version reads: floats in runs (Decode),
// samples of other kinds one by one (Next). It can be reset to other chunks. For floats it takes no
// memory of its own. The zero value is an empty chunk of floats. It is for one goroutine.
type Decoder struct {
	floats xorchunk.Decoder2 // of an XOR chunk only First
	hist   *histchunk.Decoder
	left   int       // samples that are still to be decoded
	other  ValueType // kind of the samples if they are no floats
	xor2   bool
}

// Reset begins a chunk, which data must hold from its first byte on and as long as it is
// decoded. An encoding that is not known is ErrUnknownEncoding.
func (d *Decoder) Reset(enc Encoding, data []byte) error {
	var err error
	d.xor2, d.other, d.left = enc == EncXOR2, ValNone, 0
	switch enc {
	case EncXOR:
		err = d.floats.First().Reset(data)
	case EncXOR2:
		err = d.floats.Reset(data)
	case EncHistogram, EncHistogramST:
		return d.resetHistograms(enc, data, ValHistogram)
	case EncFloatHistogram, EncFloatHistogramST:
		return d.resetHistograms(enc, data, ValFloatHistogram)
	default:
		return errUnknown(enc)
	}
	d.left = d.floats.Left()
	return err
}

func (d *Decoder) resetHistograms(enc Encoding, data []byte, kind ValueType) error {
	if d.hist == nil {
		d.hist = &histchunk.Decoder{}
	}
	d.other = kind
	err := d.hist.Reset(uint8(enc), data)
	if err == nil {
		d.left = d.hist.NumSamples()
	}
	return err
}

func errUnknown(enc Encoding) error {
	return errors.WithMessagef(ErrUnknownEncoding, "encoding %d", uint8(enc))
}

// Kind returns what the samples of the chunk are.
func (d *Decoder) Kind() ValueType {
	if d.other == ValNone {
		return ValFloat
	}
	return d.other
}

// Left returns how many samples are still to be decoded.
func (d *Decoder) Left() int { return d.left }

// Decode replaces b's content by the next samples, at most room of them and as many as b has
// capacity for. None without an error means that the chunk is at its end, that there was no room,
// or that its samples are no floats. With an error, the samples in b are good and the decoder gives
// nothing more.
func (d *Decoder) Decode(b *Batch, room int) error {
	room = min(room, cap(b.T), cap(b.V), d.left)
	b.T, b.V, b.ST = b.T[:room], b.V[:room], b.ST[:0]
	if d.other != ValNone || d.left == 0 { // at its end, or stopped
		b.Cut(0)
		return nil
	}
	var n int
	var err error
	switch {
	case !d.xor2:
		n, err = d.floats.First().Decode(b.T, b.V)
	case d.floats.HasST():
		n, err = d.decodeST(b)
	default:
		n, err = d.floats.Decode(b.T, b.V)
	}
	b.T, b.V = b.T[:n], b.V[:n]
	d.left = d.floats.Left()
	return err
}

// decodeST is Decode of a chunk in which samples may have start timestamps.
func (d *Decoder) decodeST(b *Batch) (n int, err error) {
	b.ST = slices.Grow(b.ST, len(b.T))[:len(b.T)]
	n, err = d.floats.DecodeST(b.T, b.V, b.ST)
	b.ST = b.ST[:n]
	if !slices.ContainsFunc(b.ST, func(st int64) bool { return st != 0 }) {
		b.ST = b.ST[:0]
	}
	return n, err
}

// Next moves to the next sample of a chunk that has no floats; false at its end, on damage, which
// is the error, and in a chunk of floats.
func (d *Decoder) Next() (bool, error) {
	if d.other == ValNone || d.left == 0 {
		return false, nil
	}
	if d.hist.Next() {
		d.left--
		return true, nil
	}
	d.left = 0
	return false, d.hist.Err()
}

// Stop forgets the samples that are left.
func (d *Decoder) Stop() { d.left = 0 }

// T returns the time of the sample that Next has moved to.
func (d *Decoder) T() int64 { return d.hist.T() }

// ST returns its start timestamp in milliseconds, 0 for none.
func (d *Decoder) ST() int64 { return d.hist.ST() }

// Stale reports whether it is a stale marker.
func (d *Decoder) Stale() bool { return d.hist.Stale() }

// Histogram makes dst the sample that Next has moved to, of a chunk of ValHistogram. It allocates
// only what dst has no room for. Of a sample of another kind dst becomes empty.
func (d *Decoder) Histogram(dst *histogram.Histogram) {
	if d.other != ValHistogram {
		dst.Clear()
		return
	}
	d.hist.Histogram(dst)
}

// FloatHistogram makes dst the sample that Next has moved to, of a chunk of histograms of either
// kind. Of a float dst becomes empty.
func (d *Decoder) FloatHistogram(dst *histogram.FloatHistogram) {
	if d.other == ValNone {
		dst.Clear()
		return
	}
	d.hist.FloatHistogram(dst)
}
