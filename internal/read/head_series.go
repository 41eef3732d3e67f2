package read

import (
	"context"
	"sync/atomic"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
	"github.com/seed347100a3/tsdb/labels"
)

// headCursor goes through sorted series.
type headCursor struct {
	r         *headReader
	found     []*memseries.Series // those that are left
	transient bool
	present   bool // the range has the oldest or the newest sample of each of them
	first     headGroup
	room      []headSeries // the next one; unless they are transient more of them

	texts *textTable
	keep  bool          // the texts of the found ones
	asked atomic.Uint32 // askedNothing, askedText, askedPieces
	ahead int           // of how many more series what labels are made of was asked for

	near   nearLabels[index.Pair] // of the last one, if they are transient
	opener *headChunks            // that the last one was opened with, if they are transient
}

func (c *headCursor) next(context.Context) (sourceSeries, error) {
	if len(c.found) == 0 {
		return nil, nil
	}
	c.labelsAhead()
	if len(c.room) == 0 {
		c.room = c.newGroup().series
	}
	hs := &c.room[0]
	if c.transient {
		hs.s = c.found[0]
	}
	if c.found = c.found[1:]; len(c.found) == 0 {
		c.found = nil // a series that somebody holds has the cursor
	}
	if !c.transient {
		c.room = c.room[1:]
	}
	return hs, nil
}

func (c *headCursor) most() int        { return len(c.found) }
func (c *headCursor) allPresent() bool { return c.present && c.r.Deleted.Len() == 0 }
func (c *headCursor) place() PlaceID   { return c.r.Place }

// headSeries is one series of the head in a snapshot.
type headSeries struct {
	g *headGroup
	s *memseries.Series
}

func (hs *headSeries) directory() *memseries.Directory { return hs.g.c.r.Series }

func (hs *headSeries) labels() labels.Labels {
	c, ref := hs.g.c, hs.s.Ref()
	c.noteAsked(askedText)
	if text, ok := c.texts.find(ref); ok {
		return text
	}
	text := labelsOf(c.r.Series, hs.s)
	if c.keep {
		c.texts.keep(ref, text)
	}
	return text
}

func (hs *headSeries) appendLabels(dst []labels.Label) []labels.Label {
	c, series := hs.g.c, hs.directory()
	c.noteAsked(askedPieces)
	pairs := series.Pairs(hs.s)
	if c.transient {
		return appendHeadLabels(dst, &c.near, pairs, series.Postings())
	}
	return appendPairs(dst, series, hs.s)
}

func (hs *headSeries) number() uint64 { return uint64(hs.s.Ref()) }

func (hs *headSeries) labelKeys(dst []uint64) []uint64 {
	return appendPairKeys(dst, hs.directory(), hs.s)
}

func (hs *headSeries) labelText(dst []byte, key uint64) ([]byte, int, error) {
	return appendPairText(dst, hs.directory(), key)
}

// present asks for what is known without a look at chunks.
func (hs *headSeries) present() bool {
	c, r := hs.g.c, hs.g.c.r
	if r.Deleted.Len() > 0 && len(r.Deleted.Of(hs.s.Ref())) > 0 {
		return false
	}
	return c.present || r.presence(hs.s) == memseries.Present
}

// span is that of the snapshot: which chunks there are is asked when they are opened.
func (hs *headSeries) span() (mint, maxt int64) { return hs.g.c.r.visible() }

// outline is coarse as long as nothing is lost: the oldest and the newest sample are known.
func (hs *headSeries) outline(room *outlineRoom, fine bool) (chunks []index.ChunkMeta, in samplemerge.Bounds, coarse bool) {
	r := hs.g.c.r
	in.From, in.To = r.visible()
	in.Deleted = r.Deleted.Of(hs.s.Ref())
	oldest, newest, ok := r.Past.Ends(hs.s)
	if !ok {
		return nil, in, false
	}
	if !fine && r.Losses == 0 {
		room.chunks = append(room.chunks, index.ChunkMeta{MinT: oldest, MaxT: newest})
		return room.chunks, in, true
	}
	in.To = min(in.To, newest)
	r.Past.Excerpt(hs.s, r.mint, r.maxt, &room.excerpt)
	for _, c := range room.excerpt.Chunks {
		if m, ok := r.Mender.Mended(c.Ref, r.Losses); c.Ref != 0 && ok {
			if c.MinT, c.MaxT = m.MinT, m.MaxT; m.Data == nil {
				continue
			}
		}
		room.chunks = append(room.chunks, index.ChunkMeta{MinT: c.MinT, MaxT: c.MaxT})
	}
	return room.chunks, in, false
}

// open takes what the series has now for this snapshot, and what the next ones have if they are
// likely to be opened next. The bounds end where the snapshot does.
func (hs *headSeries) open(reuse chunkSource) chunkSource {
	src := hs.g.c.r.chunksIn(reuse)
	src.begin(hs.s, hs.excerpt(src))
	return src
}

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
