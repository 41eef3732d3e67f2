// Package samplemerge merges the samples that several sources have of one series, by time. It knows
// which sample counts where two sources have the same time, what of a chunk is left out, where a
// chunk is alone and may pass as it is, and that what it decodes is in order. It does not know
// where chunks come from, or what becomes of the samples.
//
// A Merger belongs to one goroutine.
package samplemerge

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
)

// Source gives the chunks that one place has of a series, by time. None of them overlaps another
// one of it.
type Source interface {
	// Next fills c with the next chunk, which is valid until the next call; false: there is none.
	// One that ends before from, which never falls, may be passed over. c is what Due returns when
	// the turn of the chunk has come.
	Next(from int64, c *Chunk) (bool, error)
	// Place says in an error where the chunk is that Next gave last: it cannot be decoded.
	Place(err error) error
}

// Merger puts the samples of sources in the order of their times. The zero value has no source. It
// keeps its memory from one series to the next.
//
// Next gives samples. For who can take chunks as they are, or adds sources on the way, Step stops
// at each chunk before it is decoded: Due tells about it, and Open or Pass goes on. It stops at
// each sample that is no float: Other has it, and Take goes on.
type Merger struct {
	// Repeats: where several sources have a sample at one time all of them are given, in the order
	// of sources, for who decides between them. Otherwise it is that of the first source alone.
	Repeats bool

	heap  []entry // by time, those of one time by source
	lanes []*lane // of a source each
	free  int     // no lane before it is free
	added uint32  // sources, since there was none

	from   int64 // if sought: samples before it are passed over
	sought bool
	last   int64 // time of the newest sample that was given
	begun  bool
}

// entry is a lane that may have samples. It has no pointer: the collector would want to know of
// each move.
type entry struct {
	head int64  // time of the first one that was not given; of a chunk that is not decoded, or before it
	rank uint32 // of the source: smaller ones come first where two have a sample at one time
	lane uint32
}

// Reset lets go of all sources.
func (m *Merger) Reset() {
	for _, l := range m.lanes {
		l.src = nil
	}
	m.heap, m.free, m.sought, m.begun = m.heap[:0], 0, false, false
}

// Add adds a source, behind those that were added before. What it has must not be older than what
// was given. Errors are those of the source.
func (m *Merger) Add(src Source) error {
	for m.free < len(m.lanes) && m.lanes[m.free].src != nil {
		m.free++
	}
	if m.free == len(m.lanes) {
		m.lanes = append(m.lanes, &lane{})
	}
	if len(m.heap) == 0 {
		m.added = 0
	}
	l := m.lanes[m.free]
	l.src, l.runs = src, Runs{}
	l.samples.Cut(0)
	l.at = 0
	head, more, err := l.pull(m.start())
	if more {
		m.push(entry{head, m.added, uint32(m.free)})
		m.added++
	} else {
		l.src = nil
	}
	return err
}

// start is the time before which nothing counts.
func (m *Merger) start() int64 {
	if m.sought {
		return m.from
	}
	return math.MinInt64
}

// Seek passes over samples before t. Chunks that end before t are not decoded. Errors are those of
// Next.
func (m *Merger) Seek(t chunkenc.Timestamp) error {
	if t <= m.start() {
		return nil
	}
	m.from, m.sought = t, true
	for len(m.heap) > 0 && m.heap[0].head < t {
		if err := m.settle(m.lanes[m.heap[0].lane].seek(t)); err != nil {
			return err
		}
	}
	return nil
}

// release makes the lane of a source that is at its end free.
func (m *Merger) release(lane uint32) {
	m.lanes[lane].src = nil
	m.free = min(m.free, int(lane))
}

// Stop says why Step has stopped.
type Stop uint8

// The reasons.
const (
	AtEnd   Stop = iota // there are no more samples, or there is no room for them
	AtChunk             // the next sample is in a chunk that is due: nothing of it is decoded
	AtOther             // the next sample is no float
	AtFloat             // the next sample is a float; Step goes on instead
)

// Next replaces b's content by the next floats by time, as many as b has capacity for; none is the
// end, or a sample that is no float stands next. b gets room if it has none.
//
// Errors are those of a source, and what is wrong with a chunk, placed by its source:
// encbuf.ErrCorrupt, chunkenc.ErrUnknownEncoding. The samples in b are good, and the Merger must be
// reset.
func (m *Merger) Next(b *chunkenc.Batch) (Stop, error) {
	b.Cut(0)
	for {
		stop, err := m.Step(b)
		if stop != AtChunk || err != nil {
			return stop, err
		}
		if err := m.Open(); err != nil {
			return AtEnd, err
		}
	}
}

// Peek says what Step would come to next. Errors are those of Next.
func (m *Merger) Peek() (Stop, error) {
	for len(m.heap) > 0 {
		l := m.lanes[m.heap[0].lane]
		switch {
		case l.at == l.samples.Len() && l.pending:
			return AtChunk, nil
		case l.at == l.samples.Len():
			if err := m.refill(); err != nil {
				return AtEnd, err
			}
		case l.samples.T[l.at] == m.last && m.begun && !m.Repeats:
			if l.at++; l.at < l.samples.Len() {
				m.heap[0].head = l.samples.T[l.at]
				m.sink(m.lesser(1))
			}
		case l.other:
			return AtOther, nil
		default:
			return AtFloat, nil
		}
	}
	return AtEnd, nil
}

// Other returns the decoder that stands on the sample at which Step has stopped, which is no float.
// It is good until Take.
func (m *Merger) Other() *chunkenc.Decoder { return m.lanes[m.heap[0].lane].runs.Other() }

// Take takes that sample for given.
func (m *Merger) Take() {
	l := m.lanes[m.heap[0].lane]
	m.last, m.begun = l.samples.T[l.at], true
	l.at++
}

// Step adds the next floats by time to b, until something stops it. b gets room if it has none.
// Errors are those of Next.
//
// It is one piece because its variables stay in registers: in parts it was a tenth slower.
func (m *Merger) Step(b *chunkenc.Batch) (Stop, error) {
	if cap(b.T) == 0 {
		*b = *chunkenc.NewBatch(chunkenc.BatchSize)
	}
	room := min(cap(b.T), cap(b.V))
	to, vs, k := b.T[:room], b.V[:room], len(b.T)
	for k < room && len(m.heap) > 0 {
		if len(m.heap) == 2 && m.plain(b) {
			var ended bool
			if k, ended = m.two(to, vs, k); !ended {
				break // for want of room
			}
			continue
		}
		h := m.heap
		l := m.lanes[h[0].lane]
		i, ts := l.at, l.samples.T
		if i == len(ts) {
			if l.pending {
				b.T, b.V = to[:k], vs[:k]
				return AtChunk, nil
			}
			if err := m.refill(); err != nil {
				b.T, b.V = to[:k], vs[:k]
				return AtEnd, err
			}
			continue
		}
		if l.other {
			if ts[i] != m.last || !m.begun || m.Repeats {
				b.T, b.V = to[:k], vs[:k]
				return AtOther, nil
			}
			l.at++
			continue
		}
		second, until := 0, int64(math.MaxInt64) // the lane whose turn is next, and the time of its sample
		if len(h) > 1 {
			second, until = 1, h[1].head
			if len(h) > 2 && h[2].before(h[1]) {
				second, until = 2, h[2].head
			}
		}
		from, begin := i, k
		if ts[i] == m.last && m.begun && !m.Repeats {
			from++ // the rest is later: a source has one sample of each time
		} else {
			to[k], vs[k] = ts[i], l.samples.V[i]
			k++
		}
		for i++; i < len(ts) && ts[i] < until && k < room; i, k = i+1, k+1 {
			to[k], vs[k] = ts[i], l.samples.V[i]
		}
		l.at, m.last, m.begun = i, ts[i-1], true
		if len(l.samples.ST) > 0 || len(b.ST) > 0 {
			b.T, b.V = to[:begin], vs[:begin]
			b.Append(&l.samples, from, i)
		}
		if i == len(ts) {
			continue
		}
		if h[0].head = ts[i]; ts[i] >= until {
			if until == m.last && !m.Repeats {
				second = m.skip(until)
			}
			m.sink(second)
		}
	}
	b.T, b.V = to[:k], vs[:k]
	return AtEnd, nil
}

// Due returns the chunk at which Step has stopped; alone says that no other source reaches into
// what of it counts, nor what was given. It is valid until the next Step.
func (m *Merger) Due() (c *Chunk, alone bool) {
	c = &m.lanes[m.heap[0].lane].chunk
	last := c.last()
	alone = !m.begun || c.first() > m.last
	for _, e := range m.heap[1:min(3, len(m.heap))] { // the least one of the others is among these
		alone = alone && e.head > last
	}
	return c, alone
}

// Open has the chunk that is due decoded. Errors are those of Next.
func (m *Merger) Open() error {
	return m.settle(m.lanes[m.heap[0].lane].open(m.start()))
}

// Pass takes a chunk that is due, and alone, for given.
func (m *Merger) Pass() {
	l := m.lanes[m.heap[0].lane]
	l.pending = false
	m.last, m.begun = l.chunk.last(), true
}

// Place says in an error where the chunk is that was taken by Pass last: it cannot be decoded. It
// is for who gets one until the next Step.
func (m *Merger) Place(err error) error { return m.lanes[m.heap[0].lane].src.Place(err) }

// plain reports whether the first two lanes have samples, and neither they nor b start timestamps.
func (m *Merger) plain(b *chunkenc.Batch) bool {
	x, y := m.lanes[m.heap[0].lane], m.lanes[m.heap[1].lane]
	return len(b.ST) == 0 && len(x.samples.ST) == 0 && len(y.samples.ST) == 0 && !x.other && !y.other &&
		x.at < len(x.samples.T) && y.at < len(y.samples.T)
}

// two takes samples of two lanes by turns, as long as both have some and there is room, and returns
// how many there are then, and whether those of a lane have ended, which stands first then. Most
// merges are of two lanes, and whose turn it is then is one comparison.
func (m *Merger) two(to []int64, vs []float64, k int) (int, bool) {
	first, second := m.heap[0], m.heap[1]
	if first.rank > second.rank {
		first, second = second, first
	}
	x, y := m.lanes[first.lane], m.lanes[second.lane]
	xs, ys, xv, yv := x.samples.T, y.samples.T, x.samples.V, y.samples.V
	i, j, last, skip := x.at, y.at, m.last, m.begun && !m.Repeats
	for k < len(to) && i < len(xs) && j < len(ys) {
		t := xs[i]
		if u := ys[j]; u < t {
			vs[k], t = yv[j], u
			j++
		} else {
			vs[k] = xv[i]
			i++
		}
		to[k] = t
		if t != last || !skip {
			k++
		}
		last, skip = t, !m.Repeats
	}
	x.at, y.at, m.last, m.begun = i, j, last, true
	if j < len(ys) {
		second.head = ys[j]
	}
	if i < len(xs) {
		first.head = xs[i]
	}
	switch {
	case i == len(xs):
		m.heap[0], m.heap[1] = first, second
		return k, true
	case j == len(ys):
		m.heap[0], m.heap[1] = second, first
		return k, true
	}
	m.heap[0], m.heap[1] = first, second
	m.sink(1)
	return k, false
}

// skip passes over samples of a time that the first lane has given, of the two lanes behind it if
// they are the last ones, and returns the lesser of these then. Places that have the same are few.
func (m *Merger) skip(t int64) (second int) {
	h := m.heap
	for i := 1; i < min(len(h), 3); i++ {
		l := m.lanes[h[i].lane]
		if h[i].head == t && l.at+1 < len(l.samples.T) && 2*i+1 >= len(h) {
			l.at++
			h[i].head = l.samples.T[l.at]
		}
	}
	return m.lesser(1)
}

// refill finds what the first lane has next, or takes it away at its end.
func (m *Merger) refill() error {
	return m.settle(m.lanes[m.heap[0].lane].advance(m.start()))
}

// settle puts the first lane where it belongs now, or takes it away.
func (m *Merger) settle(head int64, more bool, err error) error {
	if more {
		m.heap[0].head = head
	} else {
		m.release(m.heap[0].lane)
		end := len(m.heap) - 1
		m.heap[0] = m.heap[end]
		m.heap = m.heap[:end]
	}
	m.sink(m.lesser(1))
	return err
}

// before orders lanes by time, then by source.
func (e entry) before(o entry) bool {
	return e.head < o.head || e.head == o.head && e.rank < o.rank
}

func (m *Merger) push(e entry) {
	m.heap = append(m.heap, e)
	for i := len(m.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !m.heap[i].before(m.heap[parent]) {
			return
		}
		m.heap[i], m.heap[parent] = m.heap[parent], m.heap[i]
		i = parent
	}
}

// lesser returns which of two lanes side by side comes first.
func (m *Merger) lesser(i int) int {
	if i+1 < len(m.heap) && m.heap[i+1].before(m.heap[i]) {
		return i + 1
	}
	return i
}

// sink puts the first lane where it belongs; least is the lesser one of the two behind it. Package
// minheap does the same by a call of a function for each comparison, which for samples would cost
// more than the rest.
func (m *Merger) sink(least int) {
	h := m.heap
	if least >= len(h) {
		return
	}
	top, i := h[0], 0
	for least < len(h) && h[least].before(top) {
		h[i] = h[least]
		i, least = least, 2*least+1
		if right := least + 1; right < len(h) && h[right].before(h[least]) {
			least = right
		}
	}
	h[i] = top
}
