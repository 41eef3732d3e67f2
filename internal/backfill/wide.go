package backfill

import (
	"encoding/binary"
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histchunk"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
)

// Most samples are a time and a float, which is what the arena has room for. Where one of a series
// is more than that, all of the series lie beside until the next spill, and the arena has their
// places.

// pageBytes is the room of a page; a sample that is larger has one of its own.
const pageBytes = 64 << 10

// pages hold samples that are more than a time and a float:
//
//	| encoding 1 | sum le64 | start timestamp varint | body, to the end of the sample's bytes |
//
// with their length in front, as uvarint.
type pages struct {
	all  [][]byte
	size int64  // bytes that they take
	buf  []byte // of a sample
}

// fits reports whether n samples of as many bytes need no further page.
func (p *pages) fits(n, size int) bool {
	if len(p.all) == 0 {
		return false
	}
	last := p.all[len(p.all)-1]
	return n*(size+overhead) <= cap(last)-len(last)
}

// overhead is the most that a sample has beside its body: its length, encoding, sum and start.
const overhead = 2*binary.MaxVarintLen64 + 9

// add puts a sample into a page and returns its place, as the arena keeps it.
func (p *pages) add(w *memseries.WideSample) float64 {
	b := append(p.buf[:0], byte(w.Encoding))
	b = binary.LittleEndian.AppendUint64(b, w.Sum)
	b = binary.AppendVarint(b, w.ST)
	p.buf = append(b, w.Body...)
	if !p.fits(1, len(p.buf)) {
		room := max(pageBytes, len(p.buf)+overhead)
		p.all = append(p.all, make([]byte, 0, room))
		p.size += int64(room)
	}
	n := len(p.all) - 1
	at := len(p.all[n])
	p.all[n] = append(binary.AppendUvarint(p.all[n], uint64(len(p.buf))), p.buf...)
	return math.Float64frombits(uint64(n)<<32 | uint64(at))
}

// at returns the sample that a run has at a place. Its body is good until the pages are emptied.
func (p *pages) at(x sample) memseries.WideSample {
	place := math.Float64bits(x.v)
	b := p.all[place>>32][uint32(place):]
	size, n := binary.Uvarint(b)
	b = b[n : n+int(size)]
	w := memseries.WideSample{T: x.t, Encoding: chunkenc.Encoding(b[0]), Sum: binary.LittleEndian.Uint64(b[1:])}
	w.ST, n = binary.Varint(b[9:])
	w.Body = b[9+n:]
	return w
}

func (p *pages) reset() { *p = pages{buf: p.buf} }

func floatOf(t int64, v float64) memseries.WideSample {
	return memseries.WideSample{T: t, Sum: math.Float64bits(v), Encoding: chunkenc.EncXOR}
}

// builder makes chunks of samples of one series, which ascend. Chunks of floats end as those of the
// head do that take all the room, chunks of histograms where the head ends them.
type builder struct {
	enc         chunkenc.Encoder
	cut         histchunk.Cut
	first, last int64

	ints   histogram.Histogram
	floats histogram.FloatHistogram
}

// add adds a sample; width is that of the window, which no chunk leaves. False: it is the first one
// of the next chunk.
func (b *builder) add(w *memseries.WideSample, width int64) (bool, error) {
	n := b.enc.Len()
	if n > 0 && b.enc.Encoding().Kind() != w.Encoding.Kind() {
		return false, nil
	}
	var err error
	switch w.Encoding.Kind() {
	case chunkenc.ValFloat:
		if n == chunkenc.TargetSamples || n > 0 && b.enc.SizeBytes() > chunkenc.TargetBytes {
			return false, nil
		}
		err = b.enc.Append(w.T, math.Float64frombits(w.Sum), w.ST)
	case chunkenc.ValHistogram:
		if err = record.ReadHistogram(w.Body, &b.ints); err != nil {
			return false, err
		}
		if n > 0 && b.cut.Due(w.T, b.last, n, b.enc.SizeBytes()) {
			b.enc.EndBefore(&b.ints)
			return false, nil
		}
		err = b.enc.AppendHistogram(w.T, &b.ints, w.ST)
	default:
		if err = record.ReadFloatHistogram(w.Body, &b.floats); err != nil {
			return false, err
		}
		if n > 0 && b.cut.Due(w.T, b.last, n, b.enc.SizeBytes()) {
			b.enc.EndBeforeFloat(&b.floats)
			return false, nil
		}
		err = b.enc.AppendFloatHistogram(w.T, &b.floats, w.ST)
	}
	if n > 0 && errors.Is(err, chunkenc.ErrChunkFull) {
		return false, nil
	}
	if n == 0 {
		b.first = w.T
		b.cut.Begin(w.T, width)
	}
	b.last = w.T
	return true, err
}

// take returns the chunk, in buf, and begins another one.
func (b *builder) take(buf []byte) Chunk {
	c := Chunk{MinT: b.first, MaxT: b.last, Num: b.enc.Len(), Encoding: b.enc.Encoding(), Data: b.enc.AppendTo(buf[:0])}
	b.enc.Reset()
	return c
}

// chunkReader decodes chunks.
type chunkReader struct {
	dec    chunkenc.Decoder
	run    chunkenc.Batch
	ints   histogram.Histogram
	floats histogram.FloatHistogram
	body   []byte
}

// each calls fn with each sample of a chunk; it is valid during the call.
func (r *chunkReader) each(enc chunkenc.Encoding, data []byte, fn func(w *memseries.WideSample) error) error {
	if err := r.dec.Reset(enc, data); err != nil {
		return err
	}
	if r.dec.Kind() != chunkenc.ValFloat {
		return r.eachOther(fn)
	}
	if cap(r.run.T) == 0 {
		r.run = *chunkenc.NewBatch(chunkenc.TargetSamples)
	}
	for r.dec.Left() > 0 {
		if err := r.dec.Decode(&r.run, chunkenc.TargetSamples); err != nil {
			return err
		}
		for i := range r.run.T {
			w := floatIn(&r.run, i)
			if err := fn(&w); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *chunkReader) eachOther(fn func(w *memseries.WideSample) error) error {
	for {
		more, err := r.dec.Next()
		if !more {
			return err
		}
		w := r.read(&r.dec)
		if err := fn(&w); err != nil {
			return err
		}
	}
}

// read returns the sample that a decoder stands on, which is no float. It is good until the next
// one is read.
func (r *chunkReader) read(d *chunkenc.Decoder) memseries.WideSample {
	w := memseries.WideSample{T: d.T(), ST: d.ST()}
	if d.Kind() == chunkenc.ValHistogram {
		d.Histogram(&r.ints)
		w.Encoding, w.Sum, w.Ints = chunkenc.EncHistogram, r.ints.Digest(), &r.ints
	} else {
		d.FloatHistogram(&r.floats)
		w.Encoding, w.Sum, w.Floats = chunkenc.EncFloatHistogram, r.floats.Digest(), &r.floats
	}
	w.Encode(r.body[:0])
	r.body = w.Body
	return w
}

// floatIn returns a sample of a run.
func floatIn(run *chunkenc.Batch, i int) memseries.WideSample {
	st := run.StartOf(i)
	return memseries.WideSample{T: run.T[i], Sum: math.Float64bits(run.V[i]), ST: st, Encoding: memseries.FloatEncoding(st)}
}
