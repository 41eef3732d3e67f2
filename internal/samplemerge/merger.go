// Package samplemerge merges the samples that several sources have of one series, by time. It knows
// which sample counts where two sources have the same time, what of a chunk is left out, and that
// what it decodes is in order. It does not know where chunks come from, when one may pass as it is,
// or what becomes of the samples.
//
// A Merger belongs to one goroutine.
package samplemerge

import (
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// Source gives the chunks that one place has of a series, by time. None of them overlaps another one
// of it.
type Source interface {
	// Next fills c with the next chunk, whose data is valid until the next call; false: there is none.
	Next(c *Chunk) (bool, error)
	// Place says in an error where the chunk is that Next gave last: it cannot be decoded.
	Place(err error) error
}

// Chunk is a chunk with what of it counts.
type Chunk struct {
	Encoding   chunkenc.Encoding
	Data       []byte
	MinT, MaxT int64 // closed bounds of its samples: one outside of them is damage

	From, To int64                // closed: samples outside are left out
	Deleted  tombstones.Intervals // and those in these
}

// Merger puts the samples of sources in the order of their times. The zero value has no source. It
// keeps its memory from one series to the next.
type Merger struct {
	// Repeats: where several sources have a sample at one time all of them are given, in the order of
	// sources, for who decides between them. Otherwise it is that of the first source alone.
	Repeats bool

	heap  []entry // by time, those of one time by source
	lanes []*lane // one for each source, then those that are not used now
	added int

	last  int64 // time of the newest sample that was given
	begun bool
}

// entry is a lane that has a sample. It has no pointer: the collector would want to know of each move.
type entry struct {
	head int64 // time of the first one that was not given
	rank int   // of the lane: smaller ones come first where two have a sample at one time
}

// lane is a source with the samples that were decoded of it.
type lane struct {
	src     Source
	samples chunkenc.Batch // to keep; at most a run of the chunk
	at      int            // the first one that was not given
	chunk   Chunk
	runs    Runs // of the chunk
}

// Reset lets go of all sources.
func (m *Merger) Reset() { m.heap, m.added, m.begun = m.heap[:0], 0, false }

// Add adds a source, behind those that were added before. Errors are those of the source, and damage of
// its first chunks.
func (m *Merger) Add(src Source) error {
	if m.added == len(m.lanes) {
		m.lanes = append(m.lanes, &lane{})
	}
	l := m.lanes[m.added]
	l.src, l.runs = src, Runs{}
	more, err := l.fill()
	if more {
		m.push(entry{l.samples.T[0], m.added})
	}
	m.added++
	return err
}

// Next replaces b's content by the next samples by time, as many as b has capacity for; none is the end.
// b gets room if it has none.
//
// Errors are those of a source, and what is wrong with a chunk, placed by its source: encbuf.ErrCorrupt,
// chunkenc.ErrUnknownEncoding. The samples in b are good, and the Merger must be reset.
//
// It is one piece because its variables stay in registers: in parts it was a tenth slower.
func (m *Merger) Next(b *chunkenc.Batch) error {
	if cap(b.T) == 0 {
		*b = *chunkenc.NewBatch(chunkenc.BatchSize)
	}
	b.Cut(0)
	room := min(cap(b.T), cap(b.V))
	to, vs, k := b.T[:room], b.V[:room], 0
	for k < room && len(m.heap) > 0 {
		if len(m.heap) == 2 && m.plain(b) {
			var ended bool
			if k, ended = m.two(to, vs, k); !ended {
				break // for want of room
			}
			if err := m.refill(); err != nil {
				b.T, b.V = to[:k], vs[:k]
				return err
			}
			continue
		}
		h := m.heap
		l := m.lanes[h[0].rank]
		second, until := 0, int64(math.MaxInt64) // the lane whose turn is next, and the time of its sample
		if len(h) > 1 {
			second, until = 1, h[1].head
			if len(h) > 2 && h[2].before(h[1]) {
				second, until = 2, h[2].head
			}
		}
		i, ts := l.at, l.samples.T
		n := i + 1
		for end := min(len(ts), i+room-k); n < end && ts[n] < until; {
			n++
		}
		l.at = n
		if ts[i] == m.last && m.begun && !m.Repeats {
			i++ // the rest is later: a source has one sample of each time
		}
		m.last, m.begun = ts[n-1], true
		if len(l.samples.ST) > 0 || len(b.ST) > 0 {
			b.T, b.V = to[:k], vs[:k]
			b.Append(&l.samples, i, n)
			k = len(b.T)
		} else {
			for ; i < n; i, k = i+1, k+1 {
				to[k], vs[k] = ts[i], l.samples.V[i]
			}
		}
		if n == len(ts) {
			if err := m.refill(); err != nil {
				b.T, b.V = to[:k], vs[:k]
				return err
			}
			continue
		}
		if h[0].head = ts[n]; ts[n] >= until {
			m.sink(second)
		}
	}
	b.T, b.V = to[:k], vs[:k]
	return nil
}

// plain reports whether neither b nor any of the first two lanes has start timestamps.
func (m *Merger) plain(b *chunkenc.Batch) bool {
	return len(b.ST) == 0 && len(m.lanes[m.heap[0].rank].samples.ST) == 0 && len(m.lanes[m.heap[1].rank].samples.ST) == 0
}

// two takes samples of two lanes by turns, as long as both have some and there is room, and returns how
// many there are then, and whether those of a lane have ended, which stands first then. Most merges are of two
// lanes, and whose turn it is then is one comparison.
func (m *Merger) two(to []int64, vs []float64, k int) (int, bool) {
	first, second := m.heap[0].rank, m.heap[1].rank
	if first > second {
		first, second = second, first
	}
	x, y := m.lanes[first], m.lanes[second]
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
	switch {
	case i == len(xs):
		m.heap[0], m.heap[1] = entry{rank: first}, entry{ys[j], second}
		return k, true
	case j == len(ys):
		m.heap[0], m.heap[1] = entry{rank: second}, entry{xs[i], first}
		return k, true
	}
	m.heap[0], m.heap[1] = entry{xs[i], first}, entry{ys[j], second}
	m.sink(1)
	return k, false
}

// refill decodes the next samples of the first lane, or takes it away at its end.
func (m *Merger) refill() error {
	l := m.lanes[m.heap[0].rank]
	more, err := l.fill()
	if more {
		m.heap[0].head = l.samples.T[0]
	} else {
		end := len(m.heap) - 1
		m.heap[0] = m.heap[end]
		m.heap = m.heap[:end]
	}
	second := 1
	if len(m.heap) > 2 && m.heap[2].before(m.heap[1]) {
		second = 2
	}
	m.sink(second)
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

// sink puts the first lane where it belongs; least is the lesser one of the two behind it. Package minheap
// does the same by a call of a function for each comparison, which for samples would cost more than
// the rest.
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

// fill decodes the next samples to keep; false: there are none.
func (l *lane) fill() (bool, error) {
	for {
		if err := l.runs.Next(&l.samples); err != nil {
			return false, l.src.Place(err)
		}
		if l.samples.Len() > 0 {
			if l.keep(); l.samples.Len() > 0 {
				l.at = 0
				return true, nil
			}
			continue
		}
		if more, err := l.src.Next(&l.chunk); !more || err != nil {
			return false, err
		}
		if err := l.runs.Reset(l.chunk.Encoding, l.chunk.Data, l.chunk.MinT, l.chunk.MaxT); err != nil {
			return false, l.src.Place(err)
		}
	}
}

// keep takes what does not count out of the samples.
func (l *lane) keep() {
	ts, c := l.samples.T, &l.chunk
	first, last := ts[0], ts[len(ts)-1]
	if first >= c.From && last <= c.To && !c.Deleted.Overlaps(first, last) {
		return
	}
	deleted := c.Deleted.From(first)
	kept := 0
	for i, t := range ts {
		for len(deleted) > 0 && deleted[0].Maxt < t {
			deleted = deleted[1:]
		}
		if t < c.From || t > c.To || len(deleted) > 0 && deleted[0].Contains(t) {
			continue
		}
		l.samples.Move(kept, i)
		kept++
	}
	l.samples.Cut(kept)
}
