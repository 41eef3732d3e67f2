package prom

import (
	"sync"

	promchunkenc "github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
)

// iteratorMemory is what an iterator needs most memory for: the iterator below, with what that
// decodes from and into, and a run. Engines throw iterators away at the end of a query; for one of
// a few series they were a fifth of its memory (make bench-promql).
type iteratorMemory struct {
	it  chunkenc.Iterator // of no series yet if nil
	run chunkenc.Batch
}

// spareMemory is memory that is lent to nobody. One that lies here keeps what its last querier
// knew from being collected, as long as a sync.Pool keeps it: two collections at most.
var spareMemory = sync.Pool{New: func() any { return &iteratorMemory{run: *chunkenc.NewBatch(shortRun)} }}

// lender lends memory to the iterators of one querier, and takes it back when that is closed. It
// is safe for concurrent use; iterators are not to be used beside close, as nothing of a querier is.
type lender struct {
	mu     sync.Mutex
	closed bool
	lent   []*iterator // at most maxLent
}

// maxLent is of how many iterators a querier takes memory back: 4 MB. It knows of them for as long
// as it is open, so others keep theirs, and are collected with it.
const maxLent = 1000

// newIterator returns an iterator of no series.
func (l *lender) newIterator() *iterator {
	it := &iterator{lender: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || len(l.lent) == maxLent {
		it.memory = &iteratorMemory{run: *chunkenc.NewBatch(shortRun)}
	} else {
		it.memory = spareMemory.Get().(*iteratorMemory)
		l.lent = append(l.lent, it)
	}
	it.it, it.run = it.memory.it, it.memory.run
	return it
}

// close takes all memory back.
func (l *lender) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range l.lent {
		it.giveBack()
	}
	l.closed, l.lent = true, nil
}

// giveBack leaves the iterator the float that it stands on, and no more; one that stands on a
// histogram keeps its memory, as the histogram lies there.
func (it *iterator) giveBack() {
	if it.kind > promchunkenc.ValFloat {
		return
	}
	*it.memory = iteratorMemory{it.it, it.run}
	if err := it.it.Err(); err != nil || it.over {
		it.it = &ended{err: err}
	} else {
		it.it = closedIterator
	}
	it.run = chunkenc.Batch{}
	if of := &it.memory.run; it.at >= 0 && it.at < of.Len() {
		it.oneT[0], it.oneV[0] = of.T[it.at], of.V[it.at]
		it.run.T, it.run.V = it.oneT[:], it.oneV[:]
		if st := of.StartOf(it.at); st != 0 {
			it.run.ST = []int64{st}
		}
		it.at = 0
	}
	spareMemory.Put(it.memory)
	it.memory = nil
}

// ended is an iterator behind its last sample.
type ended struct {
	chunkenc.Iterator // nil: there is no sample to ask for
	err               error
}

var closedIterator = &ended{err: tsdb.ErrClosed}

func (e *ended) Next() chunkenc.ValueType                       { return chunkenc.ValNone }
func (e *ended) Seek(chunkenc.Timestamp) chunkenc.ValueType     { return chunkenc.ValNone }
func (e *ended) NextBatch(b *chunkenc.Batch) chunkenc.ValueType { b.Cut(0); return chunkenc.ValNone }
func (e *ended) Err() error                                     { return e.err }
