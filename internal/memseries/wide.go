package memseries

import (
	"math"
	"unsafe"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histchunk"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/reftable"
)

// Nearly all samples are a time and a float. They are inline everywhere: in what a commit stages,
// in the record of their series, in what replay sorts. All others are wide: what they have beyond a
// time and 64 bits lies beside, and so does their open chunk. A float with a start timestamp is one
// of them, a histogram another.

// WideSample is a sample of any kind. What is appended to a series has its histogram decoded; Body
// is for who keeps many samples for a while.
type WideSample struct {
	T        int64  // milliseconds
	Sum      uint64 // as in Sample
	ST       int64  // start timestamp in milliseconds, 0 for none
	Ints     *histogram.Histogram
	Floats   *histogram.FloatHistogram
	Body     []byte // of a histogram, as records of the log have it
	Encoding chunkenc.Encoding
}

// Encode appends a histogram to buf as records of the log have it, which becomes Body.
func (w *WideSample) Encode(buf []byte) {
	switch {
	case w.Ints != nil:
		w.Body = record.AppendHistogram(buf, w.Ints)
	case w.Floats != nil:
		w.Body = record.AppendFloatHistogram(buf, w.Floats)
	}
	w.Ints, w.Floats = nil, nil
}

// decode makes a histogram of the body, in room for one. Bodies were looked at before they came
// here.
func (w *WideSample) decode(room *decodedHistogram) {
	var err error
	switch w.Encoding {
	case chunkenc.EncHistogram:
		err = record.ReadHistogram(w.Body, &room.ints)
		w.Ints, w.Sum = &room.ints, room.ints.Digest()
	case chunkenc.EncFloatHistogram:
		err = record.ReadFloatHistogram(w.Body, &room.floats)
		w.Floats, w.Sum = &room.floats, room.floats.Digest()
	}
	if err != nil {
		panic("BUG: histogram in memory is damaged: " + err.Error())
	}
}

type decodedHistogram struct {
	ints   histogram.Histogram
	floats histogram.FloatHistogram
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

// histogramEncoding returns the encoding of histograms of a kind, EncXOR for floats.
func histogramEncoding(kind chunkenc.ValueType) chunkenc.Encoding {
	switch kind {
	case chunkenc.ValHistogram:
		return chunkenc.EncHistogram
	case chunkenc.ValFloatHistogram:
		return chunkenc.EncFloatHistogram
	default:
		return chunkenc.EncXOR
	}
}

// wideChunk is the open chunk of a series that is not of EncXOR. The encoder state in the record
// of the series counts its samples and encodes none.
type wideChunk struct {
	enc   chunkenc.Encoder
	cutAt int64         // as that of Series, which is NoTime: so a float finds out in its usual comparison
	cut   histchunk.Cut // of histograms
	held  int64         // memory, as wideChunks counts it
}

// wideChunks are such chunks by ref. A shard has them, and a recovery worker those of its series.
type wideChunks struct {
	open  reftable.Table[*wideChunk]
	bytes int64  // of memory that they hold
	buf   []byte // of a chunk that is being finished
}

// of returns the chunk of a series, nil if it has none. As a call it is a kilobyte less of program.
//
//go:noinline
func (c *wideChunks) of(s *Series) *wideChunk { return c.open.Find(s.ref) }

// appendAny adds one sample of any kind that is newer than all others of the series.
func (f *filler) appendAny(s *Series, w *WideSample) {
	if w.Encoding == chunkenc.EncXOR {
		f.append(s, w.T, math.Float64frombits(w.Sum))
		return
	}
	f.appendWide(s, w)
}

// appendFloatToWide adds a float to a series whose open chunk is wide. It reports whether it did:
// if the chunk is over, the float begins one that is not.
func (f *filler) appendFloatToWide(s *Series, t int64, v float64) bool {
	w := floatSample(t, v, 0)
	if f.endsHistograms(s, &w) {
		f.appendWide(s, &w)
		return true
	}
	if f.beforeFloat(s, &w); !s.isWide() {
		return false
	}
	f.encodeWide(s, f.wide.of(s), &w)
	return true
}

// endsHistograms reports whether a float is a stale marker of a series of histograms.
func (f *filler) endsHistograms(s *Series, w *WideSample) bool {
	return w.Sum == histogram.StaleNaN && w.Encoding.Kind() == chunkenc.ValFloat &&
		f.newestEncoding(s).Kind() != chunkenc.ValFloat
}

// newestEncoding returns that of the chunk with the newest sample of a series. While the log is
// replayed that may be a full one of a file, which the series does not know it of.
func (f *filler) newestEncoding(s *Series) chunkenc.Encoding {
	if n := int(s.numMapped); n > 0 && s.enc.Len() == 0 && f.encodingOf != nil {
		return f.encodingOf(s.mappedAt(n - 1))
	}
	return s.open
}

// StaleHistogram is what a stale marker, a float, becomes that ends a series of histograms. Others
// have its histogram, too.
func StaleHistogram(w WideSample, kind chunkenc.ValueType) WideSample {
	if kind == chunkenc.ValHistogram {
		w.Encoding, w.Ints = chunkenc.EncHistogram, &staleInts
	} else {
		w.Encoding, w.Floats = chunkenc.EncFloatHistogram, &staleFloats
	}
	return w
}

// The stale markers. They are not changed.
var (
	staleInts   = histogram.Histogram{Sum: math.Float64frombits(histogram.StaleNaN)}
	staleFloats = histogram.FloatHistogram{Sum: math.Float64frombits(histogram.StaleNaN)}
)

// encode adds a sample to the open chunk, whatever the rules say of its end.
func (f *filler) encode(s *Series, w *WideSample) {
	if s.isWide() {
		f.encodeWide(s, f.wide.of(s), w)
		return
	}
	if out := s.enc.Append(f.scratch[:0], w.T, math.Float64frombits(w.Sum)); len(out) > 0 {
		s.bytes.add(&f.pieces, out)
	}
}

// appendWide adds one that is not of EncXOR and newer than all others of the series.
func (f *filler) appendWide(s *Series, w *WideSample) {
	if f.endsHistograms(s, w) {
		stale := StaleHistogram(*w, f.newestEncoding(s).Kind())
		w = &stale
	}
	var c *wideChunk
	if w.Encoding.Kind() == chunkenc.ValFloat {
		f.beforeFloat(s, w)
		c = f.wide.of(s)
	} else {
		c = f.beforeHistogram(s, w)
	}
	f.encodeWide(s, c, w)
}

// beforeFloat cuts the open chunk if it is over, or does not take a float with a start timestamp.
func (f *filler) beforeFloat(s *Series, w *WideSample) {
	n := s.enc.Len()
	if n == 0 || s.open != chunkenc.EncXOR2 {
		f.cut(s, w.T, w.Encoding)
		return
	}
	c := f.wide.of(s)
	if n == f.cutting.Samples/4 {
		c.cutAt = min(c.cutAt, endTime(s.enc.FirstT(), s.enc.LastT(), c.cutAt, 4))
	}
	if c.enc.SizeBytes() > chunkenc.TargetBytes || w.T >= c.cutAt || n >= 2*f.cutting.Samples {
		f.cut(s, w.T, w.Encoding)
	}
}

// beforeHistogram cuts the open chunk if it is over, or has samples of another kind. It returns the
// one that is open then.
func (f *filler) beforeHistogram(s *Series, w *WideSample) *wideChunk {
	n := s.enc.Len()
	if n > 0 && s.open == w.Encoding {
		c := f.wide.of(s)
		if w.T < c.cutAt && !c.cut.Due(w.T, s.enc.LastT(), n, c.enc.SizeBytes()) {
			return c
		}
		if w.Encoding == chunkenc.EncHistogram {
			c.enc.EndBefore(w.Ints)
		} else {
			c.enc.EndBeforeFloat(w.Floats)
		}
	}
	f.cut(s, w.T, w.Encoding)
	return f.wide.of(s)
}

// encodeWide adds a sample to the open wide chunk. A histogram may begin a chunk of its own for its
// buckets.
func (f *filler) encodeWide(s *Series, c *wideChunk, w *WideSample) {
	err := w.encode(&c.enc)
	if err != nil && w.Encoding.Kind() != chunkenc.ValFloat {
		f.cut(s, w.T, w.Encoding)
		c = f.wide.of(s)
		err = w.encode(&c.enc)
	}
	if err != nil {
		panic("BUG: chunk in memory takes no sample: " + err.Error())
	}
	held := wideBytes + int64(c.enc.MemoryBytes())
	f.wide.bytes += held - c.held
	c.held = held
	s.enc.Note(w.T, w.Sum)
}

// encode adds a sample to a chunk.
func (w *WideSample) encode(enc *chunkenc.Encoder) error {
	switch w.Encoding {
	case chunkenc.EncHistogram:
		return enc.AppendHistogram(w.T, w.Ints, w.ST)
	case chunkenc.EncFloatHistogram:
		return enc.AppendFloatHistogram(w.T, w.Floats, w.ST)
	default:
		return enc.Append(w.T, math.Float64frombits(w.Sum), w.ST)
	}
}

// openWide begins a chunk behind a wide one, or one that is wide, for a sample at t.
func (f *filler) openWide(s *Series, t int64, enc chunkenc.Encoding) {
	if enc == chunkenc.EncXOR {
		f.wide.close(s)
		return
	}
	c := f.wide.of(s)
	if c == nil {
		c = &wideChunk{}
		f.wide.put(s.ref, c)
	}
	c.enc.Reset()
	c.cutAt, s.cutAt = s.cutAt, NoTime
	if enc.Kind() != chunkenc.ValFloat {
		c.cut.Begin(t, f.cutting.Range)
		if c.cutAt = math.MaxInt64; t < f.limit {
			c.cutAt = f.limit
		}
	}
	s.open = enc
}

// close forgets a wide chunk, if there is one.
func (c *wideChunks) close(s *Series) {
	if s.isWide() {
		c.drop(s)
	}
}

func (c *wideChunks) drop(s *Series) {
	if w := c.of(s); w != nil { // a restored series may have none
		c.bytes -= w.held
		c.open.Remove(s.ref)
	}
	s.open = chunkenc.EncXOR
}

// finish puts the bytes of the wide chunk where those of other full chunks are, and returns its
// encoding.
func (c *wideChunks) finish(s *Series, p *pieces) chunkenc.Encoding {
	enc := &c.of(s).enc
	c.buf = enc.AppendTo(c.buf[:0])
	s.bytes.add(p, c.buf)
	return enc.Encoding()
}

// endAt makes the open chunk of a series, wide or not, end at t, or earlier.
func (c *wideChunks) endAt(s *Series, t int64) {
	cutAt := &s.cutAt
	if s.isWide() {
		cutAt = &c.of(s).cutAt
	}
	*cutAt = min(*cutAt, t)
}

// put adds a chunk, with what was counted of it elsewhere.
func (c *wideChunks) put(ref uint64, w *wideChunk) {
	c.open.Add(ref, w)
	c.bytes += w.held
}

// wideBytes is what a wide chunk takes beside the buffers of its encoder: itself, and its entry.
const wideBytes = int64(unsafe.Sizeof(wideChunk{})) + reftable.EntryBytes
