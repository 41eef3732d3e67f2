package tsdb

import (
	"context"
	"math"
	"slices"
	"sync/atomic"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/labels"
)

// headReader reads the head as of one snapshot.
type headReader struct {
	h          *Head
	pin        *chunks.Pin // of the chunk files
	snapshot   uint64
	from       int64           // what the head has before, blocks have, too, and without what is deleted of it
	mint, maxt int64           // from or later
	whole      bool            // chunks in the range may be seen beyond it, but not before from
	deleted    *tombstones.Set // as of the snapshot; not changed any more
	losses     int             // of damaged chunks, that there were when it began (mender)
}

// narrow implements source.
func (r *headReader) narrow(mint, maxt int64, whole bool) source {
	n := *r
	n.whole = whole
	n.mint, n.maxt = max(r.mint, mint), min(r.maxt, maxt)
	if n.mint > n.maxt { // bounds of the head may be newer than the snapshot
		return nil
	}
	return &n
}

// visible returns the closed bounds of what may be seen of chunks in the range.
func (r *headReader) visible() (mint, maxt int64) {
	if r.whole {
		return r.from, math.MaxInt64
	}
	return r.mint, r.maxt
}

// pollEvery is how many series or values are handled between two looks at the
// context.
const pollEvery = 1024

// selectSeries returns the visible series that match, sorted by labels.
func (r *headReader) selectSeries(ctx context.Context, ms []*labels.Matcher, transient bool, _ *Warnings) (seriesCursor, error) {
	found, present, err := r.selected(ctx, ms)
	if err != nil {
		return nil, err
	}
	if transient { // or what is allocated for each series is more than sorting takes
		index.SortByLabelsInParts(r.h.dir.Postings(), found, r.h.dir.Pairs)
	} else {
		index.SortByLabels(r.h.dir.Postings(), found, r.h.dir.Pairs)
	}
	c := &headCursor{r: r, found: found, transient: transient, present: present}
	if len(found) > 0 {
		c.texts = r.h.texts.of(r.h.dir.Len())
		c.keep = c.texts.holds(len(found))
	}
	return c, nil
}

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

	near   nearLabels  // of the last one, if they are transient
	opener *headChunks // that the last one was opened with, if they are transient
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
func (c *headCursor) allPresent() bool { return c.present && c.r.deleted.Len() == 0 }
func (c *headCursor) place() placeID   { return c.r.h.place }

// selected returns the visible series that match, in no order, and whether the range has the oldest
// or the newest sample of each.
func (r *headReader) selected(ctx context.Context, ms []*labels.Matcher) (found []*memseries.Series, present bool, err error) {
	present = true
	err = r.h.dir.Postings().Selected(ctx, func(refs []uint64) error {
		found = make([]*memseries.Series, 0, len(refs))
		for len(refs) > 0 && ctx.Err() == nil {
			n, some := min(len(refs), pollEvery), false
			found, some = r.h.dir.AppendVisible(found, refs[:n], r.snapshot, r.mint, r.maxt)
			present = present && some
			refs = refs[n:]
		}
		return ctx.Err()
	}, ms...)
	return found, present, err
}

// presence tells what is known of a series before its chunks are looked at.
func (r *headReader) presence(s *memseries.Series) memseries.Presence {
	p := r.h.dir.Presence(s, r.snapshot, r.mint, r.maxt)
	if p == memseries.Present && r.deleted.Len() > 0 && len(r.deleted.Of(s.Ref())) > 0 {
		return memseries.Possible
	}
	return p
}

// labelNames returns the names that visible matching series have, sorted.
func (r *headReader) labelNames(ctx context.Context, ms []*labels.Matcher, _ *Warnings) ([]string, error) {
	if len(ms) > 0 {
		return r.labelsOfSelected(ctx, ms, func(name, _ string) (string, bool) { return name, true })
	}
	names := r.h.dir.Postings().LabelNames(r.keepPresent(ctx))
	return names, ctx.Err()
}

// keepPresent tells which label pairs have a series with a sample that may be seen. When the context
// ends it says yes to all that is left, which is quick, and the caller drops the result.
func (r *headReader) keepPresent(ctx context.Context) func(index.Pair, index.Postings) bool {
	i := 0
	p := headProber{r: r}
	return func(_ index.Pair, refs index.Postings) bool {
		for refs.Next() {
			if i++; i%pollEvery == 0 && ctx.Err() != nil {
				return true
			}
			if s := r.h.dir.ByRef(refs.At()); s != nil && p.has(s) {
				return true
			}
		}
		return false
	}
}

// labelValues returns the values of name that visible matching series have, sorted.
func (r *headReader) labelValues(ctx context.Context, name string, ms []*labels.Matcher, _ *Warnings) ([]string, error) {
	if len(ms) > 0 {
		return r.labelsOfSelected(ctx, ms, func(n, value string) (string, bool) { return value, n == name })
	}
	values := r.h.dir.Postings().LabelValues(name, r.keepPresent(ctx))
	return values, ctx.Err()
}

// labelsOfSelected collects something of each label of each selected series.
func (r *headReader) labelsOfSelected(ctx context.Context, ms []*labels.Matcher, pick func(name, value string) (string, bool)) ([]string, error) {
	series, _, err := r.selected(ctx, ms)
	if err != nil {
		return nil, err
	}
	seen := map[index.Pair]struct{}{}
	picked := map[string]struct{}{}
	prober := headProber{r: r}
	var fresh []index.Pair
	for i, s := range series {
		if i%pollEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		fresh = fresh[:0]
		for _, p := range r.h.dir.Pairs(s) {
			if _, ok := seen[p]; !ok {
				fresh = append(fresh, p)
			}
		}
		if len(fresh) == 0 || !prober.has(s) {
			continue
		}
		for _, p := range fresh {
			seen[p] = struct{}{}
			if v, ok := pick(r.h.dir.Postings().Label(p)); ok {
				picked[v] = struct{}{}
			}
		}
	}
	list := make([]string, 0, len(picked))
	for v := range picked {
		list = append(list, v)
	}
	slices.Sort(list)
	return list, ctx.Err()
}

// headSeries is one series of the head in a snapshot.
type headSeries struct {
	g *headGroup
	s *memseries.Series
}

func (hs *headSeries) dir() *memseries.Directory { return hs.g.c.r.h.dir }

func (hs *headSeries) labels() labels.Labels {
	c, ref := hs.g.c, hs.s.Ref()
	c.noteAsked(askedText)
	if text, ok := c.texts.find(ref); ok {
		return text
	}
	h := c.r.h
	text := h.labelsOf(h.dir.Pairs(hs.s))
	if c.keep {
		c.texts.keep(ref, text)
	}
	return text
}

func (hs *headSeries) appendLabels(dst []labels.Label) []labels.Label {
	c, dir := hs.g.c, hs.dir()
	c.noteAsked(askedPieces)
	pairs := dir.Pairs(hs.s)
	if c.transient {
		return c.near.appendLabels(dst, pairs, dir.Postings())
	}
	for _, p := range pairs {
		name, value := dir.Postings().Label(p)
		dst = append(dst, labels.Label{Name: name, Value: value})
	}
	return dst
}

// nearLabels are the labels of a series. The next one in order has most of them, mostly at the
// same places (BenchmarkReadHead of package remote).
type nearLabels struct {
	pairs  []index.Pair
	labels []labels.Label
}

func (n *nearLabels) appendLabels(dst []labels.Label, pairs []index.Pair, m *index.MemPostings) []labels.Label {
	for i, p := range pairs {
		if i == len(n.pairs) {
			n.pairs, n.labels = append(n.pairs, p), append(n.labels, labels.Label{})
			n.labels[i].Name, n.labels[i].Value = m.Label(p)
		} else if n.pairs[i] != p {
			n.pairs[i] = p
			n.labels[i].Name, n.labels[i].Value = m.Label(p)
		}
	}
	return append(dst, n.labels[:len(pairs)]...)
}

func (hs *headSeries) number() uint64 { return uint64(hs.s.Ref()) }

func (hs *headSeries) labelKeys(dst []uint64) []uint64 {
	for _, p := range hs.dir().Pairs(hs.s) {
		dst = append(dst, uint64(p))
	}
	return dst
}

func (hs *headSeries) labelText(dst []byte, key uint64) ([]byte, int, error) {
	name, value := hs.dir().Postings().Label(index.Pair(key))
	return append(append(dst, name...), value...), len(name), nil
}

// present asks for what is known without a look at chunks.
func (hs *headSeries) present() bool {
	c, r := hs.g.c, hs.g.c.r
	if r.deleted.Len() > 0 && len(r.deleted.Of(hs.s.Ref())) > 0 {
		return false
	}
	return c.present || r.presence(hs.s) == memseries.Present
}

// span is that of the snapshot: which chunks there are is asked when they are opened.
func (hs *headSeries) span() (mint, maxt int64) { return hs.g.c.r.visible() }

// open takes what the series has now for this snapshot, and what the next ones have if they are
// likely to be opened next. The bounds end where the snapshot does.
func (hs *headSeries) open(reuse chunkSource) chunkSource {
	src := hs.g.c.r.chunks(reuse)
	src.begin(hs.s, hs.view(src))
	return src
}

// chunks returns a place for the chunks of a series, which is reuse if it is one.
func (r *headReader) chunks(reuse chunkSource) *headChunks {
	src, ok := reuse.(*headChunks)
	if !ok {
		src = &headChunks{}
	}
	if src.r != r {
		src.r = r
		src.files.Reset(r.pin)
		if src.views != nil {
			src.views.Forget()
		}
	}
	return src
}

// headChunks gives the chunks of a head series: full ones from their file, the open
// one and those that no file has yet from the copy in the view.
type headChunks struct {
	r     *headReader
	files chunks.HeadCursor // of r's pin
	own   memseries.View
	views *memseries.Views // of this series and the next ones; nil: of no other was ever taken
	view  *memseries.View  // own or one of views
	refs  []chunks.Ref     // of views, for Ahead
	order headOrder        // of series that are not transient
	in    bounds
	at    int
}

// begin goes to the first chunk of a view of a series.
func (hc *headChunks) begin(s *memseries.Series, view *memseries.View) {
	r := hc.r
	hc.at, hc.view = 0, view
	hc.in.mint, hc.in.maxt = r.visible()
	hc.in.deleted = r.deleted.Of(s.Ref())
	if len(view.Chunks) > 0 {
		hc.in.maxt = min(hc.in.maxt, view.Maxt)
	}
}

func (hc *headChunks) next(mint int64, out *sourceChunk) (bool, error) {
	for hc.at < len(hc.view.Chunks) && (hc.view.Chunks[hc.at].MaxT < mint || len(hc.in.deleted) > 0 && hc.in.hides(hc.view.Chunks[hc.at].MinT, hc.view.Chunks[hc.at].MaxT)) {
		hc.at++
	}
	if hc.at == len(hc.view.Chunks) {
		return false, nil
	}
	c := hc.view.Chunks[hc.at]
	hc.at++
	*out = sourceChunk{enc: chunkenc.EncXOR, minT: c.MinT, maxT: c.MaxT, in: &hc.in}
	if c.Ref == 0 {
		out.data = hc.view.Data(c)
		return true, nil
	}
	var err error
	if out.enc, out.data, err = hc.files.Read(c.Ref); err != nil {
		return hc.mended(c.Ref, err, mint, out)
	}
	return true, nil
}

// mended gives what took the place of a chunk that cannot be read. If nothing is left of it the
// next one is given; a reader that began before that was known gets the error.
func (hc *headChunks) mended(ref chunks.Ref, err error, mint int64, out *sourceChunk) (bool, error) {
	c, ok := hc.r.h.mender.find(ref, hc.r.losses)
	if !ok {
		hc.r.h.noteDamage(ref, err)
		return false, err
	}
	if c.data == nil {
		return hc.next(mint, out)
	}
	out.enc, out.data, out.minT, out.maxT = c.enc, c.data, c.minT, c.maxT
	return true, nil
}
