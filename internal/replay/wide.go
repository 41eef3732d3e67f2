package replay

import (
	"math"
	"sort"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
)

// Wide samples (memseries.WideSample) go the way of the others: each has its place among them, with
// its time, and what it has beyond a time and 64 bits lies beside. So the order of the log stays,
// and floats pay nothing for what is rare.

// wideList are the wide samples of a part.
type wideList struct {
	at      []widePlace // in the order of their places
	samples memseries.WideSamples
}

// widePlace says of a sample of a part that it is wide.
type widePlace struct {
	at       int    // in all
	number   uint32 // in samples
	bytes    int    // that samples had with it
	encoding chunkenc.Encoding
}

// maxKeptWide is how many bytes a part keeps room for: there are many parts.
const maxKeptWide = 256 << 10

func (l *wideList) clear() {
	l.at = l.at[:0]
	if l.samples.Bytes() > maxKeptWide {
		l.samples = memseries.WideSamples{}
	}
	l.samples.Reset()
}

// addWide appends a sample that has a number among the wide ones of the part. It is not inlined:
// the least program has little room.
//
//go:noinline
func (p *samplePart) addWide(ref uint64, t int64, sum uint64, enc chunkenc.Encoding, number uint32) {
	p.wide.at = append(p.wide.at, widePlace{len(p.all), number, p.wide.samples.Bytes(), enc})
	p.add(ref, t, math.Float64frombits(sum))
}

// addStart appends a float that may have a start timestamp.
func (p *samplePart) addStart(ref uint64, t int64, v float64, st int64) {
	if st == 0 {
		p.add(ref, t, v)
		return
	}
	p.addWide(ref, t, math.Float64bits(v), chunkenc.EncXOR2, p.wide.samples.AddStart(st))
}

// addHistogram appends a histogram, which is copied, and returns its digest.
func (p *samplePart) addHistogram(ref uint64, t, st int64, h *histogram.Histogram) (sum uint64) {
	sum = h.Digest()
	p.addWide(ref, t, sum, chunkenc.EncHistogram, p.wide.samples.AddHistogram(st, h))
	return sum
}

// addFloatHistogram is addHistogram of one with float counts.
func (p *samplePart) addFloatHistogram(ref uint64, t, st int64, h *histogram.FloatHistogram) (sum uint64) {
	sum = h.Digest()
	p.addWide(ref, t, sum, chunkenc.EncFloatHistogram, p.wide.samples.AddFloatHistogram(st, h))
	return sum
}

// splitHistograms is split for a record of histograms. Those that make no sense are left out; it
// returns how many, and what is wrong with the first of them.
func (ps *partSet) splitHistograms(rec []byte, dups map[uint64]uint64) (invalid int, _ error) {
	var dec record.HistogramDecoder
	var ints histogram.Histogram
	var floats histogram.FloatHistogram
	var first error
	for dec.Reset(rec); dec.Next(); {
		ref := dec.Ref()
		if of, ok := dups[ref]; ok {
			ref = of
		}
		part := &ps.parts[ref%uint64(len(ps.parts))]
		var err error
		if dec.Floats() {
			if err = dec.DecodeFloat(&floats); err == nil {
				part.addFloatHistogram(ref, dec.T(), dec.ST(), &floats)
			}
		} else if err = dec.DecodeInt(&ints); err == nil {
			part.addHistogram(ref, dec.T(), dec.ST(), &ints)
		}
		if err != nil {
			if invalid++; first == nil {
				first = err
			}
		}
	}
	if dec.Err() != nil {
		return invalid, dec.Err()
	}
	return invalid, first
}

// splitStarts is split for a record whose samples may have start timestamps.
func (ps *partSet) splitStarts(dec *record.SampleDecoder, dups map[uint64]uint64) error {
	var buf [decodeLen]record.Sample
	var starts [decodeLen]int64
	for {
		got, err := dec.DecodeStarts(buf[:], starts[:])
		renumber(buf[:got], dups)
		for i := range buf[:got] {
			s := &buf[i]
			ps.parts[s.Ref%uint64(len(ps.parts))].addStart(s.Ref, s.T, s.V, starts[i])
		}
		if err != nil || got < len(buf) {
			return err
		}
	}
}

// wideSpan are the wide samples of a span: some of a part, of whose samples the span begins with
// number from.
type wideSpan struct {
	from    int
	at      []widePlace
	samples *memseries.WideSamples
}

// span returns the wide samples among [from, end) of the part; nil if there are none.
func (l *wideList) span(from, end int) *wideSpan {
	if len(l.at) == 0 {
		return nil
	}
	first := sort.Search(len(l.at), func(i int) bool { return l.at[i].at >= from })
	last := sort.Search(len(l.at), func(i int) bool { return l.at[i].at >= end })
	if first == last {
		return nil
	}
	return &wideSpan{from: from, at: l.at[first:last], samples: &l.samples}
}

// weight is how many plain samples take as much memory as those of the span.
func (sp *sampleSpan) weight() int {
	n := len(sp.samples)
	if w := sp.wide; w != nil && len(w.at) > 0 {
		n += (w.at[len(w.at)-1].bytes - w.at[0].bytes) / usualBytes
	}
	return n
}

// cut takes the first n samples from the span and returns them.
func (sp *sampleSpan) cut(n int) sampleSpan {
	first := *sp
	first.samples, sp.samples = sp.samples[:n], sp.samples[n:]
	if w := sp.wide; w != nil {
		k := sort.Search(len(w.at), func(i int) bool { return w.at[i].at >= w.from+n })
		first.wide = &wideSpan{w.from, w.at[:k], w.samples}
		sp.wide = &wideSpan{w.from + n, w.at[k:], w.samples}
	}
	return first
}

// next returns what sample i of the span is if it is wide. It is asked for all of them in turn.
func (w *wideSpan) next(i int, sp *sampleSpan) (s memseries.WideSample, ok bool) {
	if w == nil || len(w.at) == 0 || w.at[0].at-w.from != i {
		return s, false
	}
	plain, place := sp.sampleOf(sp.samples[i]), w.at[0]
	w.at = w.at[1:]
	at := memseries.Sample{T: plain.T, Sum: math.Float64bits(plain.V), Wide: place.number, Encoding: place.encoding}
	return w.samples.Of(&at), true
}

// appendOne appends the samples of a span as they stand in the log.
func (w *worker) appendSpan(sp sampleSpan, seq uint64) {
	wide := sp.wide
	for i, s := range sp.samples {
		run := memseries.Run{Ref: sp.refOf(s), Samples: w.one[:]}
		w.one[0] = sp.sampleOf(s)
		if sample, ok := wide.next(i, &sp); ok {
			w.wide[0] = memseries.WideAt{Sample: sample}
			run.Wide = w.wide[:]
		}
		w.restorer.AppendOne(&run, seq)
	}
}

// placeWide puts the samples of a span where they belong, and notes which of them are wide.
func (rs *runSorter) placeWide(span *sampleSpan, first uint64) {
	wide := *span.wide
	for i, s := range span.samples {
		end := &rs.ends[first+uint64(s.ref)]
		rs.sorted[*end] = span.sampleOf(s)
		if sample, ok := wide.next(i, span); ok {
			rs.wide = append(rs.wide, memseries.WideAt{At: int(*end), Sample: sample})
		}
		*end++
	}
}

// sortWide sorts what placeWide has noted.
func (rs *runSorter) sortWide() {
	sort.Slice(rs.wide, func(i, k int) bool { return rs.wide[i].At < rs.wide[k].At })
	rs.left = rs.wide
}

// takeWide returns the wide ones of the sorted samples [begin, end), counted from begin.
func (rs *runSorter) takeWide(begin, end uint32) []memseries.WideAt {
	n := 0
	for n < len(rs.left) && rs.left[n].At < int(end) {
		rs.left[n].At -= int(begin)
		n++
	}
	taken := rs.left[:n]
	rs.left = rs.left[n:]
	return taken
}
