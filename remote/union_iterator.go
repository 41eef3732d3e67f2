package remote

import (
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
)

// unionIterator gives the float samples of several series as one, in the order of times. Of samples of
// the same time that of the first series counts.
type unionIterator struct {
	in     []chunkenc.Iterator // once it has begun each stands on a sample; who is at its end goes
	begun  bool
	stands bool // on (t, v)
	t      int64
	v      float64
	st     int64          // start timestamp
	one    chunkenc.Batch // a sample on its way to a batch
	err    error
}

var _ chunkenc.Iterator = (*unionIterator)(nil)

// newUnion returns an iterator before the first sample.
func newUnion(in ...chunkenc.Iterator) *unionIterator {
	return &unionIterator{in: in, one: *chunkenc.NewBatch(1)}
}

// unionOf returns an iterator before the first sample of some series.
func unionOf(group []*tsdb.Series) *unionIterator {
	in := make([]chunkenc.Iterator, len(group))
	for i, s := range group {
		in[i] = s.Iterator(nil)
	}
	return newUnion(in...)
}

// Next implements chunkenc.Iterator.
func (u *unionIterator) Next() chunkenc.ValueType {
	begun, last := u.begun, u.t
	u.move(func(it chunkenc.Iterator) chunkenc.ValueType {
		if begun && it.AtT() > last {
			return chunkenc.ValFloat // it waits
		}
		return it.Next()
	})
	return u.choose()
}

// Seek implements chunkenc.Iterator.
func (u *unionIterator) Seek(t chunkenc.Timestamp) chunkenc.ValueType {
	if u.stands && u.t >= t {
		return chunkenc.ValFloat
	}
	u.move(func(it chunkenc.Iterator) chunkenc.ValueType { return it.Seek(t) })
	return u.choose()
}

// move moves each iterator, and drops those that are at their end; an error is the end of all.
func (u *unionIterator) move(one func(chunkenc.Iterator) chunkenc.ValueType) {
	left := u.in[:0]
	for _, it := range u.in {
		switch one(it) {
		case chunkenc.ValFloat:
			left = append(left, it)
		case chunkenc.ValNone:
			u.fail(it.Err())
		default:
			u.fail(errors.WithMessage(tsdb.ErrUnsupported, "sample that is no float"))
		}
	}
	clear(u.in[len(left):])
	u.in, u.begun = left, true
	if u.err != nil {
		u.in = nil
	}
}

func (u *unionIterator) fail(err error) {
	if u.err == nil {
		u.err = err
	}
}

// choose stands on the oldest sample. At the end what it stood on last is kept.
func (u *unionIterator) choose() chunkenc.ValueType {
	u.stands = len(u.in) > 0
	if !u.stands {
		return chunkenc.ValNone
	}
	oldest := u.in[0]
	for _, it := range u.in[1:] {
		if it.AtT() < oldest.AtT() {
			oldest = it
		}
	}
	u.t, u.v = oldest.At()
	u.st = oldest.AtST()
	return chunkenc.ValFloat
}

// NextBatch implements chunkenc.Iterator.
func (u *unionIterator) NextBatch(b *chunkenc.Batch) chunkenc.ValueType {
	open(b)
	for b.Len() < min(cap(b.T), cap(b.V)) && u.Next() == chunkenc.ValFloat {
		u.one.T, u.one.V, u.one.ST = append(u.one.T[:0], u.t), append(u.one.V[:0], u.v), u.one.ST[:0]
		if u.st != 0 {
			u.one.ST = append(u.one.ST, u.st)
		}
		b.Append(&u.one, 0, 1)
	}
	u.stands = b.Len() > 0 // on the last of them, also if that is the last one of all
	if !u.stands {
		return chunkenc.ValNone
	}
	return chunkenc.ValFloat
}

// At implements chunkenc.Iterator.
func (u *unionIterator) At() (t int64, v float64) { return u.t, u.v }

// AtT implements chunkenc.Iterator.
func (u *unionIterator) AtT() int64 { return u.t }

// AtST implements chunkenc.Iterator.
func (u *unionIterator) AtST() int64 { return u.st }

// Err implements chunkenc.Iterator.
func (u *unionIterator) Err() error { return u.err }
