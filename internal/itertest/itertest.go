// Package itertest holds an iterator against a slice: whatever sequence of Next, Seek and NextBatch
// is called, it gives what the slice says, and at its end it stays. It is for the tests of every
// package that has iterators.
package itertest

import (
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
)

// Sample is one sample of the slice. Values are compared by their bits.
type Sample struct {
	T  int64
	V  float64
	ST int64 // start timestamp; 0: none
}

// Move is one call that moves an iterator.
type Move struct {
	Kind Kind
	T    int64 // of Seek
	Room int   // capacity of the batch of NextBatch; 0: a zero Batch
}

// Kind says which call it is.
type Kind int

// The calls.
const (
	Next Kind = iota
	Seek
	NextBatch
)

// String returns the call as code has it.
func (m Move) String() string {
	switch m.Kind {
	case Next:
		return "Next()"
	case Seek:
		return fmt.Sprintf("Seek(%d)", m.T)
	default:
		return fmt.Sprintf("NextBatch(room %d)", m.Room)
	}
}

// Moves returns the calls that are worth trying on a slice: Next, batches of one, of two, of more
// than there is and of none, and a Seek to each sample, in front of it and behind it, as well as to
// the first and the last instant.
func Moves(want []Sample) []Move {
	moves := []Move{{Kind: Next}, {Kind: NextBatch, Room: 1}, {Kind: NextBatch, Room: 2},
		{Kind: NextBatch, Room: len(want) + 1}, {Kind: NextBatch}}
	times := []int64{math.MinInt64, math.MaxInt64}
	for _, s := range want {
		times = append(times, s.T-1, s.T, s.T+1)
	}
	slices.Sort(times)
	for _, t := range slices.Compact(times) {
		moves = append(moves, Move{Kind: Seek, T: t})
	}
	return moves
}

// CheckAll tries all sequences of n moves, each on a new iterator, and every move once more where a
// sequence has led to the end. It returns what went wrong first.
func CheckAll(want []Sample, n int, open func() chunkenc.Iterator) error {
	moves := Moves(want)
	sequence := make([]Move, n)
	for number := 0; ; number++ {
		rest := number
		for i := range sequence {
			sequence[i], rest = moves[rest%len(moves)], rest/len(moves)
		}
		if rest > 0 {
			return nil
		}
		if err := Check(want, open(), sequence); err != nil {
			return err
		}
	}
}

// Check makes one sequence of moves. If they lead to the end it makes every move there.
func Check(want []Sample, it chunkenc.Iterator, sequence []Move) error {
	c := cursor{want: want, at: -1, it: it}
	for i, m := range sequence {
		if err := c.step(m); err != nil {
			return errors.WithMessagef(err, "%v", sequence[:i+1])
		}
	}
	if c.at < len(want) {
		return nil
	}
	for _, m := range Moves(want) {
		if err := c.step(m); err != nil {
			return errors.WithMessagef(err, "at the end, after %v, %v", sequence, m)
		}
	}
	return nil
}

// cursor is an iterator and where it has to stand.
type cursor struct {
	want []Sample
	at   int // -1 before the first one; len(want) at the end
	it   chunkenc.Iterator
}

// step makes a move and compares.
func (c *cursor) step(m Move) error {
	var got chunkenc.ValueType
	switch m.Kind {
	case Next:
		c.at = min(c.at+1, len(c.want))
		got = c.it.Next()
	case Seek:
		c.at = c.seek(m.T)
		got = c.it.Seek(m.T)
	default:
		b := chunkenc.Batch{}
		if m.Room > 0 {
			b = *chunkenc.NewBatch(m.Room)
		}
		got = c.it.NextBatch(&b)
		if err := c.compareBatch(&b, m.Room); err != nil {
			return err
		}
	}
	return c.stands(got)
}

// seek is where a Seek leads: never backwards, and not away from the end.
func (c *cursor) seek(t int64) int {
	from := max(c.at, 0)
	return from + sort.Search(len(c.want)-from, func(i int) bool { return c.want[from+i].T >= t })
}

// compareBatch compares what a batch got, and moves behind it. How many it gets is up to the
// iterator, at least one.
func (c *cursor) compareBatch(b *chunkenc.Batch, room int) error {
	n, left := b.Len(), max(len(c.want)-c.at-1, 0)
	switch {
	case len(b.V) != n || len(b.ST) != 0 && len(b.ST) != n:
		return errors.Errorf("a batch of %d times, %d values, %d start timestamps", n, len(b.V), len(b.ST))
	case room > 0 && n > room:
		return errors.Errorf("a batch of %d samples has room for %d", n, room)
	case n > left, n == 0 && left > 0:
		return errors.Errorf("a batch of %d samples, %d are left", n, left)
	case n == 0:
		c.at = len(c.want)
	}
	for i := range n {
		c.at++
		if got, want := (Sample{b.T[i], b.V[i], b.StartOf(i)}), c.want[c.at]; !same(got, want) {
			return errors.Errorf("sample %d of a batch is %v, want %v", i, got, want)
		}
	}
	return nil
}

// stands compares what a move returned and where the iterator is.
func (c *cursor) stands(got chunkenc.ValueType) error {
	if err := c.it.Err(); err != nil {
		return errors.WithMessage(err, "error of the iterator")
	}
	if c.at == len(c.want) {
		if got != chunkenc.ValNone {
			return errors.Errorf("%s, want none: it is at its end", got)
		}
		return nil
	}
	want := c.want[c.at]
	if got != chunkenc.ValFloat {
		return errors.Errorf("%s, want a float at %d", got, want.T)
	}
	t, v := c.it.At()
	if at := (Sample{t, v, c.it.AtST()}); !same(at, want) || c.it.AtT() != t {
		return errors.Errorf("stands on %v (AtT: %d), want %v", at, c.it.AtT(), want)
	}
	return nil
}

// same compares two samples.
func same(a, b Sample) bool {
	return a.T == b.T && a.ST == b.ST && math.Float64bits(a.V) == math.Float64bits(b.V)
}

// HistogramAt copies the histogram on which an iterator stands: one of both, or none if it stands
// on a sample of another kind.
func HistogramAt(it chunkenc.Iterator, kind chunkenc.ValueType) (h *histogram.Histogram, fh *histogram.FloatHistogram) {
	switch kind {
	case chunkenc.ValHistogram:
		h = &histogram.Histogram{}
		it.AtHistogram(h)
	case chunkenc.ValFloatHistogram:
		fh = &histogram.FloatHistogram{}
		it.AtFloatHistogram(fh)
	}
	return h, fh
}
