package histchunk

import (
	"encoding/binary"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// Decoder walks the samples of one chunk. The zero value is an empty chunk. It may be reset
// to other chunks, and then uses its memory again; it must not be copied while it is used.
//
//	err := d.Reset(enc, data)
//	for d.Next() {
//		d.Histogram(&h) // or FloatHistogram
//	}
//	err = d.Err()
type Decoder struct {
	r bitReader
	newest
	starts starts
	size   int // of the chunk in bytes
	num    int
	index  int // of the present sample; -1 before the first one
	enc    Encoding
	header Header
	err    error
}

// Reset begins a chunk, which data must hold from its first byte on and as long as it is
// decoded. Bytes behind the last sample are not looked at. An encoding that is not of this
// package is an error; it stays, as that of damage does.
func (d *Decoder) Reset(enc Encoding, data []byte) error {
	*d = Decoder{newest: d.newest, enc: enc, size: len(data), index: -1}
	*d.time() = column{}
	if !Known(enc) {
		d.err = errors.Errorf("BUG: encoding %d is not of histograms", uint8(enc))
		return d.err
	}
	if len(data) < headerSize {
		d.err = encbuf.Corrupt(len(data), "histogram chunk is shorter than its header")
		return d.err
	}
	d.num = int(binary.BigEndian.Uint16(data))
	if d.withStarts() {
		d.header = Header(d.num >> 14)
		d.num &= MaxSamplesST
		d.starts.flags = data[2]
	} else {
		d.header = Header(data[2] >> 6)
	}
	if d.num == 0 {
		return nil
	}
	d.r = bitReader{data: data, pos: headerSize}
	bucketBits := 1
	if d.Floats() {
		bucketBits = 64
	}
	if wrong := d.layout.read(&d.r, bucketBits); wrong != "" || d.r.short {
		d.fail(wrong)
		return d.err
	}
	d.open()
	return nil
}

// fail ends the chunk. Bits that are not there come before everything else that is wrong.
func (d *Decoder) fail(wrong string) {
	at := d.size - (d.r.left()+7)/8
	if d.r.short {
		at, wrong = d.size, "histogram chunk ends inside a sample or its layout"
	}
	d.err = encbuf.Corrupt(at, wrong)
}

func (d *Decoder) withStarts() bool { return d.enc == EncIntsST || d.enc == EncFloatsST }

// Floats reports whether the chunk is one of float histograms.
func (d *Decoder) Floats() bool { return d.enc == EncFloats || d.enc == EncFloatsST }

// Header returns the chunk's counter reset header.
func (d *Decoder) Header() Header { return d.header }

// NumSamples returns how many samples the chunk's header promises.
func (d *Decoder) NumSamples() int { return d.num }

// Err returns nil, or what ended the walk: *encbuf.CorruptError for damage. Samples before
// it are good.
func (d *Decoder) Err() error { return d.err }

// Next moves to the next sample. False means the end of the chunk or damage, see Err.
func (d *Decoder) Next() bool {
	if d.err != nil || d.index+1 >= d.num {
		return false
	}
	d.index++
	before := d.T()
	good := true
	switch {
	case d.index == 0:
		d.first()
	case d.Floats():
		good = d.nextFloats()
	default:
		good = d.nextInts()
	}
	if good && d.withStarts() {
		d.starts.read(&d.r, d.index, d.T(), before)
	}
	if !good || d.r.short {
		d.fail("histogram chunk: window of more than 64 bits")
		return false
	}
	return true
}

// first reads sample 0, in which everything is whole.
func (d *Decoder) first() {
	r := &d.r
	*d.time() = column{v: uint64(r.varbit())}
	if d.Floats() {
		*d.count(), *d.zero() = column{v: r.take(64)}, column{v: r.take(64)}
	} else {
		*d.count(), *d.zero() = column{v: r.uvarbit()}, column{v: r.uvarbit()}
	}
	d.sum = column{v: r.take(64)}
	clear(d.cols)
	switch {
	case d.Stale():
	case d.Floats():
		for i := range d.cols {
			d.cols[i].v = r.take(64)
		}
	default:
		for i := range d.cols {
			d.cols[i].v = uint64(r.varbit())
		}
	}
}

// nextInts reads a later sample of integers.
func (d *Decoder) nextInts() bool {
	r := &d.r
	r.dods(d.front[:])
	if !r.xor(&d.sum) {
		return false
	}
	if d.Stale() {
		return true
	}
	r.dods(d.cols)
	return true
}

// nextFloats reads a later sample of floats.
func (d *Decoder) nextFloats() bool {
	r := &d.r
	r.dod(d.time())
	if !r.xor(d.count()) || !r.xor(d.zero()) || !r.xor(&d.sum) {
		return false
	}
	if d.Stale() {
		return true
	}
	for i := range d.cols {
		if !r.xor(&d.cols[i]) {
			return false
		}
	}
	return true
}

// T returns the time of the present sample in milliseconds.
func (d *Decoder) T() int64 { return int64(d.time().v) }

// ST returns the start timestamp of the present sample in milliseconds, 0 for none.
func (d *Decoder) ST() int64 { return d.starts.st }

// Stale reports whether the present sample is a stale marker.
func (d *Decoder) Stale() bool { return d.stale() }

// Hint returns what is known of the present sample against the one before it. Nothing is
// known of the first one of a chunk, whatever the chunk's header says: a reader may come from
// elsewhere.
func (d *Decoder) Hint() histogram.ResetHint {
	switch {
	case d.Stale():
		return histogram.HintUnknown
	case d.header == HeaderGauge:
		return histogram.HintGauge
	case d.index == 0:
		return histogram.HintUnknown
	default:
		return histogram.HintNotReset
	}
}

// Histogram makes dst the present sample. It allocates only what dst has no room for. A
// chunk of floats has no such samples: then it panics. Schemas above histogram.MaxSchema
// are reduced to that.
func (d *Decoder) Histogram(dst *histogram.Histogram) {
	if d.Floats() {
		panic("BUG: integer histogram of a chunk of float histograms")
	}
	d.ints(dst, d.Hint())
}

// FloatHistogram makes dst the present sample, of a chunk of either kind. It allocates only
// what dst has no room for. Schemas above histogram.MaxSchema are reduced to that.
func (d *Decoder) FloatHistogram(dst *histogram.FloatHistogram) {
	d.floats(dst, d.Hint(), d.Floats())
}
