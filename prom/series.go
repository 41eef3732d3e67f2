package prom

import (
	"context"

	promlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	promchunkenc "github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/seed347100a3/tsdb"
)

// seriesSet is a result, a cursor for one goroutine. Its series stay valid when it moves on.
type seriesSet struct {
	set        *tsdb.SeriesSet
	shard      shard
	labelsOnly bool // nobody reads samples
	query      query
	cur        *series
	room       []series // for the next ones
	last       int      // how many there was room for at first
}

// series is one series of a result. Its labels are converted once.
type series struct {
	labels promlabels.Labels
	s      *tsdb.Series // nil: nobody reads samples
	query  *query
}

// query is what the series of a result have in common.
type query struct {
	ctx    context.Context // of the Select: iterators end with it
	lender *lender
}

// seriesSlab is how many series are allocated together at most; engines hold all of a result.
const seriesSlab = 64

// Next implements storage.SeriesSet.
func (set *seriesSet) Next() bool {
	for !set.shard.cut && set.set.Next() {
		s := set.set.At()
		ls := toTheirs(s.Labels())
		if !set.shard.takes(ls) {
			continue
		}
		set.cur = set.place()
		set.cur.labels = ls
		if !set.labelsOnly {
			set.cur.s, set.cur.query = s, &set.query
		}
		return true
	}
	return false
}

// place returns the memory of a series that the caller may hold on to.
func (set *seriesSet) place() *series {
	if len(set.room) == 0 {
		set.last = min(2*set.last+1, seriesSlab)
		set.room = make([]series, set.last)
	}
	s := &set.room[0]
	set.room = set.room[1:]
	return s
}

// At implements storage.SeriesSet.
func (set *seriesSet) At() storage.Series { return set.cur }

// Err implements storage.SeriesSet.
func (set *seriesSet) Err() error { return set.set.Err() }

// Warnings implements storage.SeriesSet.
func (set *seriesSet) Warnings() annotations.Annotations {
	return warningsOf(set.set.Warnings(), set.shard.cut)
}

func warningsOf(ws tsdb.Warnings, cut bool) annotations.Annotations {
	if cut {
		ws = append(ws[:len(ws):len(ws)], tsdb.ErrTruncated)
	}
	return annotate(ws)
}

// Labels implements storage.Series. The result belongs to the caller for ever.
func (s *series) Labels() promlabels.Labels { return s.labels }

// Iterator implements storage.Series.
func (s *series) Iterator(reuse promchunkenc.Iterator) promchunkenc.Iterator {
	if s.s == nil {
		return promchunkenc.NewNopIterator()
	}
	it, ok := reuse.(*iterator)
	if !ok || it.lender != s.query.lender || it.memory == nil {
		it = s.query.lender.newIterator()
	}
	it.reset(s.query.ctx, s.s.Iterator(it.it))
	return it
}
