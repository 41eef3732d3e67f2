package tsdb

import (
	"fmt"
	"slices"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/encbuf"
)

// runReader decodes a chunk in runs, and checks that its samples ascend within the bounds
// that the index has for it.
type runReader struct {
	dec        chunkenc.FloatDecoder
	mint, maxt int64 // closed: what the next samples may be
	begun      bool
}

// next decodes the next run; an empty one is the end.
func (r *runReader) next(b *chunkenc.Batch) error {
	if cap(b.T) == 0 {
		*b = *chunkenc.NewBatch(chunkenc.BatchSize)
	}
	if err := r.dec.Decode(b, chunkenc.BatchSize); err != nil {
		return err
	}
	for _, t := range b.T {
		if t < r.mint || t > r.maxt || t == r.mint && r.begun {
			return encbuf.Corrupt(0, fmt.Sprintf("chunk has a sample at %d, want %d to %d in ascending order", t, r.mint, r.maxt))
		}
		r.mint, r.begun = t, true
	}
	return nil
}

// mergeLanes are chunks that overlap, put into lanes in which none does: one for each
// input, several for one whose chunks overlap each other.
type mergeLanes struct {
	active []*lane // in the order of inputs, each with a sample
	pool   []*lane
}

// lane is chunks of one input, one behind the other.
type lane struct {
	input int64
	ps    []piece
	next  int // index into ps of the first one that is not begun

	samples chunkenc.Batch // to keep; at most a run of the chunk that is begun
	at      int            // the first one that was not taken

	run runReader
	cur piece // whose samples run has
	buf []byte
}

// t is the time of the earliest sample.
func (l *lane) t() int64 { return l.samples.T[l.at] }

// begin starts with pieces sorted by start.
func (ls *mergeLanes) begin(m *chunkMerger, ps []piece) error {
	ls.active = ls.active[:0]
	for _, p := range ps {
		l := ls.laneOf(p.input)
		l.ps = append(l.ps, p)
	}
	for i := range ls.active { // few
		for k := i; k > 0 && ls.active[k].input < ls.active[k-1].input; k-- {
			ls.active[k], ls.active[k-1] = ls.active[k-1], ls.active[k]
		}
	}
	for i := 0; i < len(ls.active); {
		more, err := ls.active[i].fill(m)
		if err != nil {
			return err
		}
		if more {
			i++
		} else {
			ls.active = slices.Delete(ls.active, i, i+1)
		}
	}
	return nil
}

// laneOf returns the lane of an input, a new one if there is none.
func (ls *mergeLanes) laneOf(input int64) *lane {
	for _, l := range ls.active {
		if l.input == input {
			return l
		}
	}
	n := len(ls.active)
	if n == len(ls.pool) {
		ls.pool = append(ls.pool, &lane{})
	}
	l := ls.pool[n]
	l.input, l.ps, l.next, l.at, l.run = input, l.ps[:0], 0, 0, runReader{}
	l.samples.Cut(0)
	ls.active = append(ls.active, l)
	return l
}

// least returns the lane with the earliest sample, the first one of equal ones; nil at the
// end.
func (ls *mergeLanes) least() *lane {
	if len(ls.active) == 0 {
		return nil
	}
	least := ls.active[0]
	for _, l := range ls.active[1:] {
		if l.t() < least.t() {
			least = l
		}
	}
	return least
}

// advance drops the first sample of l.
func (ls *mergeLanes) advance(m *chunkMerger, l *lane) error {
	if l.at++; l.at < l.samples.Len() {
		return nil
	}
	more, err := l.fill(m)
	if err == nil && !more {
		i := slices.Index(ls.active, l)
		ls.active = slices.Delete(ls.active, i, i+1)
	}
	return err
}

// fill decodes the next samples to keep; false: there are none.
func (l *lane) fill(m *chunkMerger) (bool, error) {
	for {
		if err := l.run.next(&l.samples); err != nil {
			return false, l.cur.damage(err)
		}
		if l.samples.Len() > 0 {
			if l.keep(m); l.samples.Len() > 0 {
				l.at = 0
				return true, nil
			}
			continue
		}
		if l.next == len(l.ps) {
			return false, nil
		}
		l.cur = l.ps[l.next]
		l.next++
		if err := l.open(m); err != nil {
			return false, err
		}
	}
}

// open begins with the samples of l.cur.
func (l *lane) open(m *chunkMerger) error {
	l.run = runReader{mint: l.cur.MinT, maxt: l.cur.MaxT}
	if m.gone(&l.cur) {
		m.counts.Dropped++
		return nil
	}
	enc, data, err := l.cur.dir.Chunks().Read(l.cur.Ref, l.buf)
	if err != nil {
		return err
	}
	l.buf = data
	if err := l.run.dec.Reset(enc, data); err != nil {
		return l.cur.damage(err)
	}
	if l.run.dec.Left() == 0 {
		return l.cur.damage(errNoSamples())
	}
	m.counts.Reencoded++
	return nil
}

// keep takes what is deleted or out of bounds out of the samples.
func (l *lane) keep(m *chunkMerger) {
	ts := l.samples.T
	first, last := ts[0], ts[len(ts)-1]
	if first >= m.mint && last <= m.maxt && !l.cur.deleted.Overlaps(first, last) {
		return
	}
	deleted := l.cur.deleted.From(first)
	kept := 0
	for i, t := range ts {
		for len(deleted) > 0 && deleted[0].Maxt < t {
			deleted = deleted[1:]
		}
		if t < m.mint || t > m.maxt || len(deleted) > 0 && deleted[0].Contains(t) {
			continue
		}
		l.samples.Move(kept, i)
		kept++
	}
	l.samples.Cut(kept)
}
