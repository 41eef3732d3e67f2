package read

import (
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// What was asked of series of a set since labelsAhead looked the last time.
const (
	askedNothing uint32 = iota
	askedText           // Labels
	askedPieces         // AppendLabels
)

const (
	labelsAheadLen = 64  // series that are looked ahead at
	pairsAheadLen  = 512 // pairs of theirs that are, at most: what they take fits the second cache
)

// noteAsked is for any goroutine, as each may have a series of the set.
func (c *headCursor) noteAsked(what uint32) {
	if c.asked.Load() != what {
		c.asked.Store(what)
	}
}

// labelsAhead asks for what the labels of the next series are made of, if those of some of the
// series before them were asked for: read one series after the other, each text would be waited for
// (BenchmarkSelectHead/labels-first).
func (c *headCursor) labelsAhead() {
	if c.ahead > 0 {
		c.ahead--
		return
	}
	asked := c.asked.Swap(askedNothing)
	if asked == askedNothing {
		return
	}
	next := c.found[:min(len(c.found), labelsAheadLen)]
	c.ahead = len(next) - 1
	if asked == askedText {
		for _, s := range next {
			c.texts.ahead(s.Ref())
		}
	}
	series := c.r.Series
	var room [pairsAheadLen]index.Pair
	pairs := room[:0] // that the series looked at before does not have at the same place
	var last []index.Pair
	for _, s := range next {
		if asked == askedText {
			if _, kept := c.texts.find(s.Ref()); kept {
				continue
			}
		}
		own := series.Pairs(s)
		if len(pairs)+len(own) > len(room) {
			break
		}
		for i, p := range own {
			if i >= len(last) || last[i] != p {
				pairs = append(pairs, p)
			}
		}
		last = own
	}
	series.Postings().Ahead(pairs)
}

// chunksAhead is how many chunks in files are asked for with the series that they are of: what fits
// the caches next to the processor.
const chunksAhead = 128

// excerpt returns that of a series, and takes those of the next ones with it if they are read in
// their order: what a million series have fits no cache (BenchmarkSelectHead_ManySeries).
func (hs *headSeries) excerpt(src *headChunks) *memseries.Excerpt {
	c, ahead := hs.g.c, memseries.GroupLen
	if !c.transient {
		ahead = src.order.opened(hs)
	} else {
		if c.opener != nil && c.opener != src {
			ahead = 1 // in turns with another one: each would take what the other one needs
		}
		c.opener = src
	}
	if src.excerpts != nil {
		if e := src.excerpts.Of(hs.s); e != nil {
			return e
		}
	}
	r := c.r
	if ahead == 1 {
		r.Past.Excerpt(hs.s, r.mint, r.maxt, &src.own)
		return &src.own
	}
	var near [memseries.GroupLen]*memseries.Series
	near[0] = hs.s
	n := 1
	if c.transient {
		n += copy(near[1:], c.found)
	} else {
		for ; n < min(ahead, len(near)); n++ {
			near[n] = hs.g.series[src.order.at+n].s
		}
	}
	if src.excerpts == nil {
		src.excerpts = new(memseries.Excerpts)
	}
	src.excerpts.Take(r.Past, near[:n], r.mint, r.maxt)
	src.refs = src.excerpts.AppendRefs(src.refs[:0], chunksAhead)
	src.files.Ahead(src.refs)
	return src.excerpts.Of(hs.s)
}
