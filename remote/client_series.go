package remote

import (
	"io"
	"iter"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

// SeriesSet is the answer of a server, read as it arrives, by one goroutine:
//
//	defer set.Close()
//	for set.Next() {
//		s := set.At()
//		...
//	}
//	if set.Err() != nil ...
//
// Series and samples that came before an error are as the server sent them; that the
// answer is complete is known only when Next has returned false and Err is nil.
type SeriesSet struct {
	body   *answerBody
	source answerSource // nil when there is nothing to read any more

	released func() // may be nil

	mint, maxt int64
	limit      int            // series to return; 0: all
	drop       []labels.Label // external labels that are taken off

	cur      *Series
	returned int
	turn     int // counts series and what is done with each
	last     int64
	any      bool // the series had a sample, at last
	warnings tsdb.Warnings
	err      error
}

// Next moves to the next series, past what is left of the present one. At the end, and on
// an error, the connection is given back.
func (ss *SeriesSet) Next() bool {
	if ss.err != nil || ss.source == nil {
		return false
	}
	ss.turn++
	ss.cur, ss.any = nil, false
	ls, err := ss.source.nextSeries()
	if err == io.EOF {
		if ss.body.res.Trailer.Get(warningTrailer) != "" {
			ss.warnings = append(ss.warnings, tsdb.ErrMissing)
		}
		ss.release()
		return false
	}
	if err == nil && ss.limit > 0 && ss.returned == ss.limit {
		ss.warnings = append(ss.warnings, tsdb.ErrTruncated)
		ss.release()
		return false
	}
	var set labels.Labels
	if err == nil {
		set, err = ss.labels(ls)
	}
	if err != nil {
		ss.fail(err)
		return false
	}
	ss.cur = &Series{set: ss, turn: ss.turn, labels: set}
	ss.returned++
	return true
}

// labels makes the label set of a series of what came.
func (ss *SeriesSet) labels(ls []labels.Label) (labels.Labels, error) {
	set := labels.New(ls...)
	if err := set.Validate(); err != nil {
		return labels.Labels{}, errors.WithMessagef(errMalformed, "labels %s: %v", set, err)
	}
	if len(ss.drop) == 0 {
		return set, nil
	}
	return labels.New(slices.DeleteFunc(slices.Clone(ls), func(l labels.Label) bool {
		return slices.ContainsFunc(ss.drop, func(d labels.Label) bool { return d.Name == l.Name })
	})...), nil
}

// fail ends the set.
func (ss *SeriesSet) fail(err error) {
	ss.err = named(err)
	ss.release()
}

// release gives the connection back.
func (ss *SeriesSet) release() {
	ss.source = nil
	if ss.body != nil {
		ss.body.close()
	}
	if ss.released != nil {
		ss.released()
		ss.released = nil
	}
}

// onRelease has f called when the set is at its end, at once if it is.
func (ss *SeriesSet) onRelease(f func()) {
	if ss.source == nil {
		f()
		return
	}
	ss.released = f
}

// At returns the series that the set stands on.
func (ss *SeriesSet) At() *Series { return ss.cur }

// Err returns what ended the set, nil for its end: ErrAnswer, *StatusError,
// tsdb.ErrUnsupported, tsdb.ErrLimit, tsdb.ErrClosed, or what the connection or the
// context say.
func (ss *SeriesSet) Err() error { return ss.err }

// Warnings returns what is to be known about the result; ask at its end. It is
// tsdb.ErrTruncated, when there were more series than the hints allow, or tsdb.ErrMissing,
// when a ReadHandler says so.
func (ss *SeriesSet) Warnings() tsdb.Warnings { return ss.warnings }

// All ranges over the series that are left and closes the set; an error comes last, with a
// nil series.
func (ss *SeriesSet) All() iter.Seq2[*Series, error] {
	return func(yield func(*Series, error) bool) {
		defer func() { _ = ss.Close() }() // it always returns nil
		for ss.Next() {
			if !yield(ss.At(), nil) {
				return
			}
		}
		if ss.err != nil {
			yield(nil, ss.err)
		}
	}
}

// Close gives up what was not read. Next returns false from then on; a set that was not
// read to its end has the error tsdb.ErrClosed. It always returns nil.
func (ss *SeriesSet) Close() error {
	if ss.source != nil {
		ss.fail(tsdb.ErrClosed)
	}
	return nil
}

// samples fills b with floats of the series of a turn, at least one, that are in the range. If the
// next sample there is no float it moves to that and returns its kind; ValNone is the end of the
// series.
func (ss *SeriesSet) samples(turn int, b *chunkenc.Batch) (chunkenc.ValueType, error) {
	open(b)
	if turn != ss.turn {
		return chunkenc.ValNone, ErrSeriesPassed
	}
	for ss.source != nil {
		open(b)
		kind, err := ss.source.samples(b)
		if errors.Is(err, tsdb.ErrUnsupported) {
			b.Cut(0)
			return chunkenc.ValNone, err
		}
		counts := false
		switch {
		case err != nil:
		case kind == chunkenc.ValNone:
			return kind, nil
		case kind == chunkenc.ValFloat:
			err = ss.clip(b)
			counts = b.Len() > 0
		default:
			counts, err = ss.shows(ss.source.other().T())
		}
		if err != nil {
			b.Cut(0)
			ss.fail(err)
			break
		}
		if counts {
			return kind, nil
		}
	}
	return chunkenc.ValNone, ss.err
}

// other returns the sample of the series of a turn that samples has moved to; nil if the series has
// passed.
func (ss *SeriesSet) other(turn int) otherSample {
	if turn != ss.turn || ss.source == nil {
		return nil
	}
	return ss.source.other()
}

// open empties a batch and sees to it that it has room.
func open(b *chunkenc.Batch) {
	if min(cap(b.T), cap(b.V)) == 0 {
		*b = *chunkenc.NewBatch(chunkenc.BatchSize)
	}
	b.Cut(0)
}

// clip removes samples that are out of the range, and repeated times, which chunks that
// overlap have.
func (ss *SeriesSet) clip(b *chunkenc.Batch) error {
	n := ss.fitting(b.T)
	for i := n; i < len(b.T); i++ {
		t := b.T[i]
		switch {
		case ss.any && t < ss.last:
			return ss.backwards(t)
		case ss.any && t == ss.last:
			continue
		}
		ss.any, ss.last = true, t
		if t < ss.mint || t > ss.maxt {
			continue
		}
		b.Move(n, i)
		n++
	}
	b.Cut(n)
	return nil
}

// fitting returns how many of the times, from the first one on, ascend in the range: all, most
// often.
func (ss *SeriesSet) fitting(ts []int64) (n int) {
	last := ss.last
	for n < len(ts) && ts[n] <= ss.maxt && (ts[n] > last || n == 0 && !ss.any) && ts[n] >= ss.mint {
		last = ts[n]
		n++
	}
	if n > 0 {
		ss.any, ss.last = true, last
	}
	return n
}

// shows is clip for one sample that is no float.
func (ss *SeriesSet) shows(t int64) (bool, error) {
	switch {
	case ss.any && t < ss.last:
		return false, ss.backwards(t)
	case ss.any && t == ss.last:
		return false, nil
	}
	ss.any, ss.last = true, t
	return t >= ss.mint && t <= ss.maxt, nil
}

func (ss *SeriesSet) backwards(t int64) error {
	return errors.WithMessagef(errMalformed, "samples of %s: %d follows %d", ss.cur.labels, t, ss.last)
}

// Series is one series of an answer. Its labels stay; its samples can be read once, while
// the set stands on it.
type Series struct {
	set    *SeriesSet
	turn   int
	labels labels.Labels
}

// Labels returns the labels, without the external ones that the client added. The result
// belongs to the caller for ever.
func (s *Series) Labels() labels.Labels { return s.labels }

// Iterator returns an iterator before the first sample that was not read yet, and ends
// the one that was returned before. A reuse that an earlier call on any series returned is
// used again, with its memory; anything else is ignored. Its error is ErrSeriesPassed, or
// one of SeriesSet.Err; tsdb.ErrUnsupported ends the series only: it has chunks of an encoding that
// is not known, or many floats in front of older histograms.
func (s *Series) Iterator(reuse chunkenc.Iterator) chunkenc.Iterator {
	it, ok := reuse.(*sampleIterator)
	if !ok || it == nil {
		it = &sampleIterator{}
	}
	it.reset(it)
	if s.turn != s.set.turn {
		it.fail(ErrSeriesPassed)
		return it
	}
	s.set.turn++ // older iterators have had their turn
	s.turn = s.set.turn
	it.set, it.turn = s.set, s.turn
	return it
}

// sampleIterator is a cursor over the samples of one series of an answer.
type sampleIterator struct {
	batchIterator
	set  *SeriesSet
	turn int
}

// samples implements batchSource.
func (it *sampleIterator) samples(b *chunkenc.Batch) (chunkenc.ValueType, error) {
	return it.set.samples(it.turn, b)
}

// other implements batchSource. The set may have moved on since.
func (it *sampleIterator) other() otherSample { return it.set.other(it.turn) }

// seek implements batchSource: an answer is read as it comes.
func (it *sampleIterator) seek(int64) error { return nil }
