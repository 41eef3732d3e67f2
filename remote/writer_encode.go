package remote

import (
	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/seed347100a3/tsdb/histogram"
)

// writerEncoder makes request bodies of batches. It keeps its memory, and belongs to one
// goroutine.
type writerEncoder struct {
	hist    histogramEncoder
	series  []byte // a message TimeSeries
	part    []byte // of that
	message []byte
	body    []byte
	numbers []uint32 // of symbols in a part; 0: it has them not yet
	texts   []uint32 // symbols of the part, by those numbers
}

// encode returns the body of a request with a part of a batch, good until the next call.
func (e *writerEncoder) encode(b *writerBatch, p batchPart, version writeVersion) []byte {
	e.message = e.message[:0]
	field := byte(1)
	if version == writeV2 {
		field = 5
		e.appendSymbols(b, p)
	}
	for i := p.from; i < p.to; i++ {
		g := &b.groups[i]
		e.series = e.series[:0]
		if version == writeV2 {
			e.appendV2(b, g, p)
		} else {
			e.appendV1(b, g, p)
		}
		e.message = appendBytes(e.message, field, e.series)
	}
	e.body = snappy.Encode(e.body[:cap(e.body)], e.message)
	return e.body
}

// appendSymbols appends the symbols that a part needs.
func (e *writerEncoder) appendSymbols(b *writerBatch, p batchPart) {
	e.numbers, e.texts = e.numbers[:0], append(e.texts[:0], 0)
	if p == b.whole() {
		for _, text := range b.symbols {
			e.message = appendBytes(e.message, 4, text)
		}
		return
	}
	e.numbers = append(e.numbers, make([]uint32, len(b.symbols))...)
	use := func(symbol uint32) {
		if symbol != 0 && e.numbers[symbol] == 0 {
			e.numbers[symbol] = uint32(len(e.texts))
			e.texts = append(e.texts, symbol)
		}
	}
	for i := p.from; i < p.to; i++ {
		g := &b.groups[i]
		for _, ref := range b.refs[g.refs.first:g.refs.last] {
			use(ref)
		}
		use(g.meta.unit)
		use(g.meta.help)
		for at := e.exemplars(g, p); at >= 0; at = b.exemplars[at].next {
			for _, ref := range b.refs[b.exemplars[at].refs.first:b.exemplars[at].refs.last] {
				use(ref)
			}
		}
	}
	for _, symbol := range e.texts {
		e.message = appendBytes(e.message, 4, b.symbols[symbol])
	}
}

// number is the one of a symbol in the request.
func (e *writerEncoder) number(symbol uint32) uint32 {
	if len(e.numbers) == 0 {
		return symbol
	}
	return e.numbers[symbol]
}

// appendBytes appends a field of bytes, also where there are none.
func appendBytes[B ~string | ~[]byte](dst []byte, field byte, b B) []byte {
	return append(appendVarint(append(dst, bytesTag(field)), uint64(len(b))), b...)
}

// appendV1 appends a TimeSeries of 1.0:
//
//	1 labels   2 samples (1 value, 2 timestamp)   3 exemplars (1 labels, 2 value, 3 timestamp)
//	4 histograms
func (e *writerEncoder) appendV1(b *writerBatch, g *batchGroup, p batchPart) {
	if e.series = append(e.series, g.encoded...); g.encoded == nil {
		e.series = b.appendLabels(e.series, g.refs)
	}
	e.samples(b, g, p, writeV1)
	for at := e.exemplars(g, p); at >= 0; at = b.exemplars[at].next {
		x := &b.exemplars[at]
		e.part = appendDouble(b.appendLabels(e.part[:0], x.refs), 2, x.Value)
		e.series = appendBytes(e.series, 3, appendInt(e.part, 3, x.T))
	}
}

// appendV2 appends a TimeSeries of 2.0:
//
//	1 labels_refs   2 samples (1 value, 2 timestamp, 3 start_timestamp)   3 histograms
//	4 exemplars (1 labels_refs, 2 value, 3 timestamp)   5 metadata (1 type, 3 help_ref, 4 unit_ref)
func (e *writerEncoder) appendV2(b *writerBatch, g *batchGroup, p batchPart) {
	e.series = e.appendRefs(e.series, b, g.refs)
	e.samples(b, g, p, writeV2)
	for at := e.exemplars(g, p); at >= 0; at = b.exemplars[at].next {
		x := &b.exemplars[at]
		e.part = appendDouble(e.appendRefs(e.part[:0], b, x.refs), 2, x.Value)
		e.series = appendBytes(e.series, 4, appendInt(e.part, 3, x.T))
	}
	if m := g.meta; m != (shippedMetadata{}) {
		e.part = appendInt(appendInt(appendInt(e.part[:0], 1, int64(m.kind)), 3, int64(e.number(m.help))), 4, int64(e.number(m.unit)))
		e.series = appendBytes(e.series, 5, e.part)
	}
}

// exemplars returns the first one of a group. They go with its first samples.
func (e *writerEncoder) exemplars(g *batchGroup, p batchPart) int32 {
	if p.skip > 0 || g.exemplars.last < 0 {
		return -1
	}
	return g.exemplars.first
}

// samples appends the samples of a group.
func (e *writerEncoder) samples(b *writerBatch, g *batchGroup, p batchPart, version writeVersion) {
	if g.count == 0 {
		return
	}
	at := g.samples.first
	for range p.skip {
		at = b.samples[at].next
	}
	for left := p.take; at >= 0 && left > 0; left-- {
		s := &b.samples[at]
		at = s.next
		switch {
		case s.hist == 0:
			e.part = appendInt(appendDouble(e.part[:0], 1, s.v), 2, s.t)
			if version == writeV2 {
				e.part = appendInt(e.part, 3, s.st)
			}
			e.series = appendBytes(e.series, 2, e.part)
		case s.hist > 0:
			e.histogram(&b.ints[s.hist-1], nil, s, version)
		default:
			e.histogram(nil, &b.floats[-s.hist-1], s, version)
		}
	}
}

// startField is the one of a start timestamp in a histogram of 2.0.
const startField protowire.Number = 17

func (e *writerEncoder) histogram(h *histogram.Histogram, fh *histogram.FloatHistogram, s *batchSample, version writeVersion) {
	if h != nil {
		e.hist.encodeInts(h, s.t)
	} else {
		e.hist.encodeFloats(fh, s.t)
	}
	field := byte(4)
	if version == writeV2 {
		field = 3
		if s.st != 0 {
			e.hist.buf = protowire.AppendVarint(protowire.AppendTag(e.hist.buf, startField, protowire.VarintType), uint64(s.st))
		}
	}
	e.series = appendBytes(e.series, field, e.hist.buf)
}

// appendLabels appends labels as 1.0 has them.
func (b *writerBatch) appendLabels(dst []byte, refs batchList) []byte {
	for i := refs.first; i < refs.last; i += 2 {
		name, value := b.symbols[b.refs[i]], b.symbols[b.refs[i+1]]
		dst = appendVarint(append(dst, bytesTag(1)), uint64(sizeString(name)+sizeString(value)))
		dst = appendString(appendString(dst, 1, name), 2, value)
	}
	return dst
}

// appendRefs appends references to symbols, packed.
func (e *writerEncoder) appendRefs(dst []byte, b *writerBatch, refs batchList) []byte {
	size := 0
	list := b.refs[refs.first:refs.last]
	for _, ref := range list {
		size += sizeVarint(uint64(e.number(ref)))
	}
	dst = appendVarint(append(dst, bytesTag(1)), uint64(size))
	for _, ref := range list {
		dst = appendVarint(dst, uint64(e.number(ref)))
	}
	return dst
}
