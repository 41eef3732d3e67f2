package remote

import (
	"math"
	"time"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/marks"
)

// writerBatch is what goes into one request: samples by series, in the order in which these came.
// One goroutine fills it, and another one sends it. It keeps its memory.
type writerBatch struct {
	number    uint64
	since     time.Time         // when the first sample came
	first     tsdb.TailPosition // all before it is in earlier batches
	doubt     uint32            // its samples may be there already, all of a group or none; 0: there is no doubt
	version   writeVersion      // that it was filled for; another one may send it
	groups    []batchGroup
	samples   []batchSample
	exemplars []batchExemplar
	ints      []histogram.Histogram
	floats    []histogram.FloatHistogram

	symbols   []string // that the request needs, the first of them empty
	symbolsOf []uint32 // of the table; by the numbers in symbols
	refs      []uint32 // of names and values in symbols, of one group after the other
	seen      []uint32 // numbers in symbols, by those of the table; 0: it is not there
}

// batchGroup is a series in a batch, with samples of one kind.
type batchGroup struct {
	id         uint32 // of the mark of its series
	histograms bool
	count      int32
	samples    batchList
	exemplars  batchList
	refs       batchList // of its labels: from, and behind
	encoded    []byte    // its labels as 1.0 has them; none: they are encoded each time
	meta       shippedMetadata
}

// batchList is a list of what belongs to a group: its first and last place.
type batchList struct{ first, last int32 }

type batchSample struct {
	t, st int64
	v     float64
	hist  int32 // place in ints, or of floats behind -1; 0 is none of both for floats
	next  int32 // of the same group, -1: it is the last
}

type batchExemplar struct {
	exemplar.Exemplar
	refs batchList
	next int32
}

func (b *writerBatch) len() int { return len(b.samples) }

// reset empties a batch and gives it a number.
func (b *writerBatch) reset(number uint64) {
	clear(b.groups)
	clear(b.exemplars)
	for _, symbol := range b.symbolsOf {
		if symbol != 0 {
			b.seen[symbol] = 0
		}
	}
	clear(b.symbols)
	*b = writerBatch{
		number: number, groups: b.groups[:0], samples: b.samples[:0], exemplars: b.exemplars[:0], ints: b.ints[:0], floats: b.floats[:0],
		symbols: append(b.symbols[:0], ""), symbolsOf: append(b.symbolsOf[:0], 0), refs: b.refs[:0], seen: b.seen,
	}
}

// add adds a sample of a series.
func (b *writerBatch) add(s *shippedSeries, sample *tsdb.TailSample, table *symbols) {
	one := batchSample{t: sample.T, st: sample.ST, v: sample.V, next: -1}
	switch {
	case sample.H != nil:
		n := len(b.ints)
		b.ints = grown(b.ints)
		sample.H.CopyTo(&b.ints[n])
		one.hist = int32(n) + 1
	case sample.FH != nil:
		n := len(b.floats)
		b.floats = grown(b.floats)
		sample.FH.CopyTo(&b.floats[n])
		one.hist = -int32(n) - 1
	}
	g := b.group(s, one.hist != 0, table)
	at := int32(len(b.samples))
	b.samples = append(b.samples, one)
	if g.count == 0 {
		g.samples.first = at
	} else {
		b.samples[g.samples.last].next = at
	}
	g.samples.last = at
	g.count++
}

// grown is one longer, and what is there again keeps its memory.
func grown[T any](list []T) []T {
	if n := len(list); n < cap(list) {
		return list[:n+1]
	}
	var zero T
	return append(list, zero)
}

// addExemplar adds an exemplar of a series.
func (b *writerBatch) addExemplar(s *shippedSeries, e exemplar.Exemplar, table *symbols) {
	g := b.group(s, b.has(s) && b.groups[s.group].histograms, table)
	at := int32(len(b.exemplars))
	from := int32(len(b.refs))
	for l := range e.Labels.All() {
		b.refs = append(b.refs, b.use(table.add(l.Name), table), b.useText(l.Value))
	}
	b.exemplars = append(b.exemplars, batchExemplar{Exemplar: e, refs: batchList{from, int32(len(b.refs))}, next: -1})
	if g.exemplars.last < 0 {
		g.exemplars.first = at
	} else {
		b.exemplars[g.exemplars.last].next = at
	}
	g.exemplars.last = at
}

func (b *writerBatch) has(s *shippedSeries) bool { return s.batch == b.number }

// group returns the group of a series to which samples of a kind are added.
func (b *writerBatch) group(s *shippedSeries, histograms bool, table *symbols) *batchGroup {
	if b.has(s) && b.groups[s.group].histograms == histograms {
		return &b.groups[s.group]
	}
	from := int32(len(b.refs))
	for _, symbol := range s.symbols {
		b.refs = append(b.refs, b.use(symbol, table))
	}
	g := batchGroup{id: s.id, histograms: histograms, exemplars: batchList{last: -1}, refs: batchList{from, int32(len(b.refs))}}
	if b.version == writeV1 {
		if s.encoded == nil {
			s.encoded = b.appendLabels(nil, g.refs)
		}
		g.encoded = s.encoded
	}
	if s.hasMeta {
		g.meta = shippedMetadata{s.meta.kind, b.use(s.meta.unit, table), b.use(s.meta.help, table)}
	}
	s.batch, s.group = b.number, int32(len(b.groups))
	b.groups = append(b.groups, g)
	return &b.groups[s.group]
}

// use returns the number that a symbol has in the request.
func (b *writerBatch) use(symbol uint32, table *symbols) uint32 {
	if symbol == 0 {
		return 0
	}
	if int(symbol) >= len(b.seen) {
		b.seen = append(b.seen, make([]uint32, len(table.text)-len(b.seen))...)
	}
	if n := b.seen[symbol]; n != 0 {
		return n
	}
	n := uint32(len(b.symbols))
	b.symbols, b.symbolsOf = append(b.symbols, table.text[symbol]), append(b.symbolsOf, symbol)
	b.seen[symbol] = n
	return n
}

// useText returns the number of a text in the request that only this one has.
func (b *writerBatch) useText(text string) uint32 {
	b.symbols, b.symbolsOf = append(b.symbols, text), append(b.symbolsOf, 0)
	return uint32(len(b.symbols) - 1)
}

// entries are the newest samples of all series of a part.
func (b *writerBatch) entries(p batchPart, dst []marks.Entry) []marks.Entry {
	for i := p.from; i < p.to; i++ {
		if g := &b.groups[i]; g.count > 0 {
			dst = append(dst, marks.Entry{ID: g.id, T: b.lastOf(g, p).t})
		}
	}
	return dst
}

// lastOf is the last sample that a part has of a group.
func (b *writerBatch) lastOf(g *batchGroup, p batchPart) *batchSample {
	if n := p.skip + min(p.take, int(g.count)-p.skip); n < int(g.count) {
		at := g.samples.first
		for range n - 1 {
			at = b.samples[at].next
		}
		return &b.samples[at]
	}
	return &b.samples[g.samples.last]
}

// batchPart is what a request has of a batch: groups, and of the only one some samples.
type batchPart struct {
	from, to   int // groups
	skip, take int // samples of each
}

func (b *writerBatch) whole() batchPart {
	return batchPart{to: len(b.groups), take: math.MaxInt}
}

// halves cuts a part in two. ok is false if it is one sample.
func (b *writerBatch) halves(p batchPart) (first, second batchPart, ok bool) {
	first, second = p, p
	if n := p.to - p.from; n > 1 {
		first.to, second.from = p.from+n/2, p.from+n/2
		return first, second, true
	}
	n := min(p.take, int(b.groups[p.from].count)-p.skip)
	if n < 2 {
		return first, second, false
	}
	first.take, second.skip, second.take = n/2, p.skip+n/2, n-n/2
	return first, second, true
}

// counts are the items of a part.
func (b *writerBatch) counts(p batchPart) (c writtenCounts) {
	for i := p.from; i < p.to; i++ {
		g := &b.groups[i]
		kind := itemSample
		if g.histograms {
			kind = itemHistogram
		}
		c[kind] += min(p.take, int(g.count)-p.skip)
		if p.skip == 0 && g.exemplars.last >= 0 {
			for e := g.exemplars.first; e >= 0; e = b.exemplars[e].next {
				c[itemExemplar]++
			}
		}
	}
	return c
}

// hasSamples reports whether a part has samples of any kind.
func (b *writerBatch) hasSamples(p batchPart) bool {
	counts := b.counts(p)
	return counts[itemSample]+counts[itemHistogram] > 0
}
