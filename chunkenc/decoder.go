package chunkenc

import (
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histchunk"
)

// Decoder decodes one chunk of any encoding that this version reads: floats in runs (Decode),
// samples of other kinds one by one (Next). It can be reset to other chunks. For floats it takes no
// memory of its own. The zero value is an empty chunk of floats. It is for one goroutine.
type Decoder struct {
	d     XOR2Decoder // of an XOR chunk only the part that both have
	hist  *histchunk.Decoder
	other ValueType // kind of the samples if they are no floats
	xor2  bool
}

// Reset begins a chunk, which data must hold from its first byte on and as long as it is
// decoded. An encoding that is not known is ErrUnknownEncoding.
func (d *Decoder) Reset(enc Encoding, data []byte) error {
	d.xor2, d.other = enc == EncXOR2, ValNone
	switch enc {
	case EncXOR:
		return d.d.x.Reset(data)
	case EncXOR2:
		return d.d.Reset(data)
	case EncHistogram, EncHistogramST:
		return d.resetHistograms(enc, data, ValHistogram)
	case EncFloatHistogram, EncFloatHistogramST:
		return d.resetHistograms(enc, data, ValFloatHistogram)
	default:
		*d = Decoder{hist: d.hist}
		return errUnknown(enc)
	}
}

func (d *Decoder) resetHistograms(enc Encoding, data []byte, kind ValueType) error {
	if d.hist == nil {
		d.hist = &histchunk.Decoder{}
	}
	*d = Decoder{hist: d.hist, other: kind}
	err := d.hist.Reset(uint8(enc), data)
	if err == nil {
		d.d.x.left = d.hist.NumSamples()
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
func (d *Decoder) Left() int { return d.d.x.left }

// Decode replaces b's content by the next samples, at most room of them and as many as b
// has capacity for; none without an error means that the chunk is at its end, that there
// was no room, or that its samples are no floats. With an error, the samples in b are good and the
// decoder gives nothing more.
func (d *Decoder) Decode(b *Batch, room int) error {
	room = min(room, cap(b.T), cap(b.V))
	b.T, b.V, b.ST = b.T[:room], b.V[:room], b.ST[:0]
	if d.other != ValNone {
		b.Cut(0)
		return nil
	}
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
func (d *Decoder) decodeST(b *Batch, room int) error {
	b.ST = slices.Grow(b.ST, room)[:room]
	n, err := d.d.DecodeST(b.T, b.V, b.ST)
	b.Cut(n)
	if !slices.ContainsFunc(b.ST, func(st int64) bool { return st != 0 }) {
		b.ST = b.ST[:0]
	}
	return err
}

// Next moves to the next sample of a chunk that has no floats; false at its end, on damage, which
// is the error, and in a chunk of floats.
func (d *Decoder) Next() (bool, error) {
	if d.other == ValNone || d.d.x.left == 0 {
		return false, nil
	}
	if d.hist.Next() {
		d.d.x.left--
		return true, nil
	}
	d.d.x.left = 0
	return false, d.hist.Err()
}

// Stop forgets the samples that are left.
func (d *Decoder) Stop() { d.d.x.left = 0 }

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
