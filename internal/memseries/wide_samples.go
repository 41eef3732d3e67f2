package memseries

import (
	"unsafe"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/record"
)

// WideSamples have what wide samples of a commit, or of a part of the log, have beyond a time and
// 64 bits. Sample.Wide says which of them is whose. Histograms are copied here once, and go from
// here to the log and to their chunks without being encoded in between
// (BenchmarkAppendHistograms). The zero value is ready. It is for one goroutine at a time.
type WideSamples struct {
	rows  []wideRow // behind their end are others, whose memory is used again
	bytes int
	most  int // bytes that all of rows took, about
}

// wideRow is what one sample has: its start timestamp, and a histogram or none.
type wideRow struct {
	st     int64
	bytes  int // that it takes
	ints   *histogram.Histogram
	floats *histogram.FloatHistogram
}

// Len returns how many samples there are.
func (p *WideSamples) Len() int { return len(p.rows) }

// Kinds counts samples by their kind.
func (p *WideSamples) Kinds(samples []Sample) (n [chunkenc.ValFloatHistogram + 1]int) {
	n[chunkenc.ValFloat] = len(samples)
	for i := 0; p.Len() > 0 && i < len(samples); i++ {
		n[chunkenc.ValFloat]--
		n[samples[i].Encoding.Kind()]++
	}
	return n
}

// Bytes returns about how many bytes of memory they take.
func (p *WideSamples) Bytes() int { return p.bytes }

// keptWideBytes is how many bytes Reset keeps in any case: those of some thousand histograms.
const keptWideBytes = 4 << 20

// Reset forgets all samples. Their memory is for others, but for that of very many which was used
// to less than a fourth since.
func (p *WideSamples) Reset() {
	p.most = max(p.most, p.bytes)
	if p.most > max(keptWideBytes, 4*p.bytes) {
		p.rows, p.most = nil, 0
	}
	p.rows, p.bytes = p.rows[:0], 0
}

// Cut forgets the newest sample.
func (p *WideSamples) Cut() {
	last := len(p.rows) - 1
	p.bytes -= p.rows[last].bytes
	p.rows = p.rows[:last]
}

const (
	rowBytes  = int(unsafe.Sizeof(wideRow{}) + unsafe.Sizeof(histogram.Histogram{}))
	listBytes = 8 // a number, or a span
)

// add adds a row for a sample with that many numbers in lists.
func (p *WideSamples) add(st int64, numbers int) *wideRow {
	n := len(p.rows)
	if n == cap(p.rows) {
		p.rows = append(p.rows, wideRow{})
	}
	p.rows = p.rows[:n+1]
	r := &p.rows[n]
	r.st, r.bytes = st, rowBytes+listBytes*numbers
	p.bytes += r.bytes
	return r
}

// AddStart adds a float, of which there is only a start timestamp, and returns its number.
func (p *WideSamples) AddStart(st int64) uint32 {
	p.add(st, 0)
	return uint32(len(p.rows) - 1)
}

// AddHistogram adds a histogram with its start timestamp, and returns its number.
func (p *WideSamples) AddHistogram(st int64, h *histogram.Histogram) uint32 {
	r := p.add(st, len(h.PositiveSpans)+len(h.NegativeSpans)+len(h.PositiveBuckets)+len(h.NegativeBuckets)+len(h.CustomValues))
	if r.ints == nil {
		r.ints = &histogram.Histogram{}
	}
	h.CopyTo(r.ints)
	return uint32(len(p.rows) - 1)
}

// AddFloatHistogram is AddHistogram of one with float counts.
func (p *WideSamples) AddFloatHistogram(st int64, h *histogram.FloatHistogram) uint32 {
	r := p.add(st, len(h.PositiveSpans)+len(h.NegativeSpans)+len(h.PositiveBuckets)+len(h.NegativeBuckets)+len(h.CustomValues))
	if r.floats == nil {
		r.floats = &histogram.FloatHistogram{}
	}
	h.CopyTo(r.floats)
	return uint32(len(p.rows) - 1)
}

// End makes a float that is a stale marker the histogram that it is behind one of a kind. So the
// log has it, which may not have that one any more. Other samples stay.
func (p *WideSamples) End(s *Sample, kind chunkenc.ValueType) {
	if kind == chunkenc.ValFloat || s.Sum != histogram.StaleNaN || s.Encoding.Kind() != chunkenc.ValFloat {
		return
	}
	if st := p.Start(s); kind == chunkenc.ValHistogram {
		s.Encoding, s.Wide = chunkenc.EncHistogram, p.AddHistogram(st, &staleInts)
	} else {
		s.Encoding, s.Wide = chunkenc.EncFloatHistogram, p.AddFloatHistogram(st, &staleFloats)
	}
}

// Digest returns the Sum of a histogram.
func (p *WideSamples) Digest(s *Sample) uint64 {
	if s.Encoding == chunkenc.EncHistogram {
		return p.rows[s.Wide].ints.Digest()
	}
	return p.rows[s.Wide].floats.Digest()
}

// Start returns the start timestamp of a sample.
func (p *WideSamples) Start(s *Sample) int64 {
	if s.Encoding == chunkenc.EncXOR {
		return 0
	}
	return p.rows[s.Wide].st
}

// Custom reports whether a histogram has custom buckets.
func (p *WideSamples) Custom(s *Sample) bool {
	r := &p.rows[s.Wide]
	if s.Encoding == chunkenc.EncHistogram {
		return r.ints.Custom()
	}
	return r.floats.Custom()
}

// AppendBody appends a histogram as records of the log have it.
func (p *WideSamples) AppendBody(dst []byte, s *Sample) []byte {
	if s.Encoding == chunkenc.EncHistogram {
		return record.AppendHistogram(dst, p.rows[s.Wide].ints)
	}
	return record.AppendFloatHistogram(dst, p.rows[s.Wide].floats)
}

// Fill makes w a sample with what it has here. It is good until the next Reset. It is filled in its
// place: a copy of what was just written would wait for it (BenchmarkAppendHistograms: 4%).
func (p *WideSamples) Fill(w *WideSample, s *Sample) {
	r := &p.rows[s.Wide]
	w.T, w.Sum, w.ST, w.Encoding = s.T, s.Sum, r.st, s.Encoding
	w.Ints, w.Floats, w.Body = nil, nil, nil
	if s.Encoding == chunkenc.EncHistogram {
		w.Ints = r.ints
	} else if s.Encoding == chunkenc.EncFloatHistogram {
		w.Floats = r.floats
	}
}
