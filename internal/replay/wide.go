package replay

import (
	"encoding/binary"
	"math"
	"slices"
	"sort"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/wal"
)

// Wide samples (memseries.WideSample) go the way of the others: each has its place among them, with
// its time, and what it has beyond a time and 64 bits lies beside. So the order of the log stays,
// and floats pay nothing for what is rare.

// payloads is what wide samples have beyond a time and 64 bits, one behind the other. Histograms
// are the bytes of their records, which the worker decodes, and only those that it appends.
//
//	| start timestamp le64 | length of the body uvarint | body |
type payloads []byte

const startBytes = 8

// add adds a start timestamp and a body, and returns where they are.
func (p *payloads) add(st int64, body []byte) (at uint32) {
	at = uint32(len(*p))
	*p = binary.LittleEndian.AppendUint64(*p, uint64(st))
	*p = binary.AppendUvarint(*p, uint64(len(body)))
	*p = append(*p, body...)
	return at
}

// at returns what is at a place. The body is good as long as p is.
func (p payloads) at(place uint32) (st int64, body []byte) {
	rest := p[place:]
	st = int64(binary.LittleEndian.Uint64(rest))
	n, begin := binary.Uvarint(rest[startBytes:])
	rest = rest[startBytes+begin:]
	return st, rest[:n:n]
}

// wideList are the wide samples of a part.
type wideList struct {
	at       []widePlace // in the order of their places
	payloads payloads
}

// widePlace says of a sample of a part that it is wide.
type widePlace struct {
	at       int // in all
	payload  uint32
	encoding chunkenc.Encoding
}

// maxKeptPayload is how many bytes of histograms a part keeps room for: there are many parts.
const maxKeptPayload = 256 << 10

func (l *wideList) clear() {
	l.at, l.payloads = l.at[:0], l.payloads[:0]
	if cap(l.payloads) > maxKeptPayload {
		l.payloads = nil
	}
}

// makeWideRoom prepares an empty set for the histograms of records, as makeRoom does.
func (ps *partSet) makeWideRoom(records []wal.Record) {
	bytes := 0
	for _, rec := range records {
		if record.TypeOf(rec.Data).HoldsHistograms() {
			bytes += len(rec.Data)
		}
	}
	share := min((bytes+bytes/4)/len(ps.parts), maxKeptPayload) // they take a little more than in their records
	for i := range ps.parts {
		if l := &ps.parts[i].wide; cap(l.payloads) < share {
			l.payloads = make(payloads, 0, share)
		}
	}
}

// addWide appends a sample that is no plain float: v is its value, or anything if it has a body.
// What it points to is copied.
func (p *samplePart) addWide(ref uint64, t int64, v float64, enc chunkenc.Encoding, st int64, body []byte) {
	p.wide.at = append(p.wide.at, widePlace{len(p.all), p.wide.payloads.add(st, body), enc})
	p.add(ref, t, v)
}

// addStart appends a float that may have a start timestamp.
func (p *samplePart) addStart(ref uint64, t int64, v float64, st int64) {
	if st == 0 {
		p.add(ref, t, v)
		return
	}
	p.addWide(ref, t, v, chunkenc.EncXOR2, st, nil)
}

// splitHistograms is split for a record of histograms. Those that make no sense are left out; it
// returns how many, and what is wrong with the first of them.
func (ps *partSet) splitHistograms(rec []byte, dups map[uint64]uint64) (invalid int, _ error) {
	var dec record.HistogramDecoder
	var first error
	for dec.Reset(rec); dec.Next(); {
		if err := dec.Check(); err != nil {
			if invalid++; first == nil {
				first = err
			}
			continue
		}
		ref := dec.Ref()
		if of, ok := dups[ref]; ok {
			ref = of
		}
		enc := chunkenc.EncHistogram
		if dec.Floats() {
			enc = chunkenc.EncFloatHistogram
		}
		ps.parts[ref%uint64(len(ps.parts))].addWide(ref, dec.T(), 0, enc, dec.ST(), dec.Entry())
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
	from     int
	at       []widePlace
	payloads payloads
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
	return &wideSpan{from: from, at: l.at[first:last], payloads: l.payloads}
}

// weight is how many samples without a payload take as much memory as those of the span.
func (sp *sampleSpan) weight() int {
	n := len(sp.samples)
	if w := sp.wide; w != nil && len(w.at) > 0 {
		n += int(w.at[len(w.at)-1].payload-w.at[0].payload) / usualBytes
	}
	return n
}

// cut takes the first n samples from the span and returns them.
func (sp *sampleSpan) cut(n int) sampleSpan {
	first := *sp
	first.samples, sp.samples = sp.samples[:n], sp.samples[n:]
	if w := sp.wide; w != nil {
		k := sort.Search(len(w.at), func(i int) bool { return w.at[i].at >= w.from+n })
		first.wide = &wideSpan{w.from, w.at[:k], w.payloads}
		sp.wide = &wideSpan{w.from + n, w.at[k:], w.payloads}
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
	s = memseries.WideSample{T: plain.T, Sum: math.Float64bits(plain.V), Encoding: place.encoding}
	s.ST, s.Body = w.payloads.at(place.payload)
	return s, true
}

// appendOne appends the samples of a span as they stand in the log.
func (w *worker) appendSpan(sp sampleSpan, seq uint64) {
	wide := sp.wide
	for i, s := range sp.samples {
		run := memseries.Run{Ref: sp.refOf(s), Samples: w.one[:]}
		w.one[0] = sp.sampleOf(s)
		w.oldest = min(w.oldest, w.one[0].T)
		if sample, ok := wide.next(i, &sp); ok {
			w.wide[0] = memseries.WideAt{Sample: sample}
			run.Wide = w.wide[:]
		}
		w.restorer.AppendOne(&run, seq)
	}
}

// sortedWide says of a sorted sample that it is wide.
type sortedWide struct {
	payload uint32 // in its payloads
	of      uint32 // their number << 8, and the encoding; 0: it is not wide
}

// beginWide makes room for what is wide of n samples.
func (rs *runSorter) beginWide(parts []work, n int) {
	rs.wide, rs.payloads = rs.wide[:0], rs.payloads[:0]
	if !slices.ContainsFunc(parts, func(w work) bool { return w.span.wide != nil }) {
		return
	}
	if cap(rs.wide) < n {
		rs.wide = make([]sortedWide, n+n/8)
	}
	rs.wide = rs.wide[:n]
	clear(rs.wide)
}

// placeWide puts the samples of a span where they belong, and notes which of them are wide.
func (rs *runSorter) placeWide(span *sampleSpan, first uint64) {
	from, rest := span.wide.from, span.wide.at
	of := uint32(len(rs.payloads)) << 8
	rs.payloads = append(rs.payloads, span.wide.payloads)
	for i, s := range span.samples {
		end := &rs.ends[first+uint64(s.ref)]
		rs.sorted[*end] = span.sampleOf(s)
		if len(rest) > 0 && rest[0].at-from == i {
			rs.wide[*end] = sortedWide{rest[0].payload, of | uint32(rest[0].encoding)}
			rest = rest[1:]
		}
		*end++
	}
}

// takeWide returns the wide ones of the sorted samples [begin, end), counted from begin.
func (rs *runSorter) takeWide(begin, end uint32) []memseries.WideAt {
	from := len(rs.taken)
	for i, w := range rs.wide[begin:end] {
		if w.of == 0 {
			continue
		}
		plain := &rs.sorted[begin+uint32(i)]
		sample := memseries.WideSample{T: plain.T, Sum: math.Float64bits(plain.V), Encoding: chunkenc.Encoding(w.of)}
		sample.ST, sample.Body = rs.payloads[w.of>>8].at(w.payload)
		rs.taken = append(rs.taken, memseries.WideAt{At: i, Sample: sample})
	}
	return rs.taken[from:]
}
