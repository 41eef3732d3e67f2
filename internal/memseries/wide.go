package memseries

import (
	"encoding/binary"
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
)

// Nearly all samples are a time and a float. They are inline everywhere: in what a commit stages, in
// the record of their series, in what replay sorts. All others are wide: what they have beyond a
// time and 64 bits lies beside, and so does their open chunk. A float with a start timestamp is
// one of them.

// WideSample is a sample of any kind.
type WideSample struct {
	T        int64  // milliseconds
	Sum      uint64 // as in Sample
	ST       int64  // start timestamp in milliseconds, 0 for none
	Encoding chunkenc.Encoding
}

// floatSample returns a float, with its start timestamp if it has one.
func floatSample(t int64, v float64, st int64) WideSample {
	return WideSample{T: t, Sum: math.Float64bits(v), ST: st, Encoding: FloatEncoding(st)}
}

// FloatEncoding returns the encoding of the chunks that a float needs with a start timestamp, or
// without one.
func FloatEncoding(st int64) chunkenc.Encoding {
	if st == 0 {
		return chunkenc.EncXOR
	}
	return chunkenc.EncXOR2
}

// payloadBytes is what a float with a start timestamp has beyond a time and 64 bits.
const payloadBytes = 8

// Payloads is what wide samples have beyond a time and 64 bits, one behind the other.
type Payloads []byte

// Add adds a start timestamp, and returns where it is.
func (p *Payloads) Add(st int64) (at uint32) {
	at = uint32(len(*p))
	*p = binary.LittleEndian.AppendUint64(*p, uint64(st))
	return at
}

// ST returns the start timestamp at a place.
func (p Payloads) ST(at uint32) int64 {
	return int64(binary.LittleEndian.Uint64(p[at : at+payloadBytes]))
}

func (p Payloads) sampleOf(st *Sample) WideSample {
	return WideSample{T: st.T, Sum: st.Sum, ST: p.ST(st.Wide), Encoding: st.Encoding}
}

// wideChunk is the open chunk of a series that is not of EncXOR. The encoder state in the record
// of the series counts its samples and encodes none.
type wideChunk struct {
	enc   chunkenc.Encoder
	cutAt int64 // as that of Series, which is NoTime: so a float finds out in its usual comparison
}

// wideChunks are such chunks by ref. A shard has them, and a recovery worker those of its series.
type wideChunks struct {
	open map[uint64]*wideChunk
	buf  []byte // of a chunk that is being finished
}

// appendAny adds one sample of any kind that is newer than all others of the series.
func (a *appender) appendAny(s *Series, w WideSample) {
	if w.Encoding == chunkenc.EncXOR {
		a.append(s, w.T, math.Float64frombits(w.Sum))
		return
	}
	a.appendWide(s, w)
}

// encode adds a sample to the open chunk, whatever the rules say of its end.
func (a *appender) encode(s *Series, w WideSample) {
	if s.isWide() {
		a.encodeWide(s, w)
		return
	}
	if out := s.enc.Append(a.scratch[:0], w.T, math.Float64frombits(w.Sum)); len(out) > 0 {
		s.bytes.add(&a.pieces, out)
	}
}

// appendWide adds one that is not of EncXOR and is newer than all others of the series.
func (a *appender) appendWide(s *Series, w WideSample) {
	a.beforeWide(s, w.T, w.Encoding)
	a.encodeWide(s, w)
}

// beforeWide cuts the open chunk if it is over, or does not take samples of an encoding.
func (a *appender) beforeWide(s *Series, t int64, enc chunkenc.Encoding) {
	n := s.enc.Len()
	if n == 0 || !s.isWide() {
		a.cut(s, t, enc)
		return
	}
	w := a.wide.open[s.ref]
	if n == a.cutting.Samples/4 {
		w.cutAt = min(w.cutAt, endTime(s.enc.FirstT(), s.enc.LastT(), w.cutAt, 4))
	}
	if w.enc.SizeBytes() > maxChunkBytes || t >= w.cutAt || n >= 2*a.cutting.Samples {
		a.cut(s, t, enc)
	}
}

// encodeWide adds a sample to the open wide chunk, whatever the rules say of its end.
func (a *appender) encodeWide(s *Series, w WideSample) {
	if err := a.wide.open[s.ref].enc.Append(w.T, math.Float64frombits(w.Sum), w.ST); err != nil {
		panic("BUG: chunk in memory takes no sample: " + err.Error())
	}
	s.enc.Note(w.T, w.Sum)
}

// openWide begins a chunk behind a wide one, or one that is wide.
func (a *appender) openWide(s *Series, enc chunkenc.Encoding) {
	if enc == chunkenc.EncXOR {
		a.closeWide(s)
		return
	}
	w := a.wide.open[s.ref]
	if w == nil {
		w = &wideChunk{}
		a.wide.put(s.ref, w)
	}
	w.enc.Reset()
	w.cutAt, s.cutAt = s.cutAt, NoTime
	s.open = enc
}

// closeWide forgets a wide chunk, if there is one.
func (a *appender) closeWide(s *Series) {
	if s.isWide() {
		delete(a.wide.open, s.ref)
		s.open = chunkenc.EncXOR
	}
}

// finishWide puts the bytes of the wide chunk where those of other full chunks are, and returns
// its encoding.
func (a *appender) finishWide(s *Series) chunkenc.Encoding {
	w := a.wide.open[s.ref]
	a.wide.buf = w.enc.AppendTo(a.wide.buf[:0])
	s.bytes.add(&a.pieces, a.wide.buf)
	return w.enc.Encoding()
}

// put adds a chunk.
func (c *wideChunks) put(ref uint64, w *wideChunk) {
	if c.open == nil {
		c.open = map[uint64]*wideChunk{}
	}
	c.open[ref] = w
}

// wideBytes is about what a wide chunk takes: the encoder, its buffers and an entry.
const wideBytes = 1 << 10

func (c *wideChunks) sizeBytes() int64 { return int64(len(c.open)) * wideBytes }
