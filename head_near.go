package tsdb

import (
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// headGroup is series of a set that are allocated together, in their order.
type headGroup struct {
	c      *headCursor
	series []headSeries // all of them, unless they are transient
}

// headSlab is how many series are in a group: one that somebody holds keeps a kilobyte alive.
const headSlab = 64

// newGroup returns the next series, of transient ones the place for any of them.
func (c *headCursor) newGroup() *headGroup {
	g := &c.first
	if g.c != nil {
		g = new(headGroup)
	}
	g.c = c
	if c.transient {
		g.series = make([]headSeries, 1)
		g.series[0].g = g
		return g
	}
	g.series = make([]headSeries, min(len(c.found), headSlab))
	for i := range g.series {
		g.series[i] = headSeries{g: g, s: c.found[i]}
	}
	return g
}

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

// labelsAhead asks for what the labels of the next series are made of, if those of some of the series before
// them were asked for: read one series after the other, each text would be waited for
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
	series := c.found[:min(len(c.found), labelsAheadLen)]
	c.ahead = len(series) - 1
	if asked == askedText {
		for _, s := range series {
			c.texts.touch(s.Ref())
		}
	}
	dir := c.r.h.dir
	var room [pairsAheadLen]index.Pair
	pairs := room[:0] // that the series looked at before does not have at the same place
	var last []index.Pair
	for _, s := range series {
		if asked == askedText {
			if _, kept := c.texts.find(s.Ref()); kept {
				continue
			}
		}
		own := dir.Pairs(s)
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
	dir.Postings().Ahead(pairs)
}

// headOrder follows in which order series are opened that a program may hold on to.
type headOrder struct {
	g   *headGroup // of the last one
	at  int        // its place there
	run int        // how many were opened one after the other
}

// opened notes that a series is opened. It returns how many may well be opened one after the
// other now, this one included: as many as were before.
func (o *headOrder) opened(hs *headSeries) int {
	next := 0
	if o.g == hs.g {
		next = o.at + 1
	}
	o.g, o.at = hs.g, hs.g.place(hs, next)
	if o.run++; o.at != next {
		o.run = 1
	}
	return min(o.run, len(o.g.series)-o.at)
}

// place returns where a series is in its group; it is looked for from a place on.
func (g *headGroup) place(hs *headSeries, from int) int {
	for i := range g.series {
		if at := (from + i) % len(g.series); &g.series[at] == hs {
			return at
		}
	}
	panic("BUG: a series of the head that is not in its group")
}

// chunksAhead is how many chunks in files are asked for with the series that they are of: what fits
// the caches next to the processor.
const chunksAhead = 128

// view returns the view of a series, and takes those of the next ones with it if they are read in
// their order: what a million series have fits no cache (BenchmarkSelectHead_ManySeries).
func (hs *headSeries) view(src *headChunks) *memseries.View {
	c, ahead := hs.g.c, memseries.GroupLen
	if !c.transient {
		ahead = src.order.opened(hs)
	} else {
		if c.opener != nil && c.opener != src {
			ahead = 1 // in turns with another one: each would take what the other one needs
		}
		c.opener = src
	}
	if src.views != nil {
		if v := src.views.Of(hs.s); v != nil {
			return v
		}
	}
	r := c.r
	if ahead == 1 {
		r.h.dir.View(hs.s, r.snapshot, r.mint, r.maxt, &src.own)
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
	if src.views == nil {
		src.views = new(memseries.Views)
	}
	src.views.Take(r.h.dir, near[:n], r.snapshot, r.mint, r.maxt)
	src.refs = src.views.AppendRefs(src.refs[:0], chunksAhead)
	src.files.Ahead(src.refs)
	return src.views.Of(hs.s)
}
