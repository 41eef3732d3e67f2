package tsdb

import (
	"context"
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
	mint, maxt int64
	deleted    *tombstones.Set // as of the snapshot; not changed any more
}

// pollEvery is how many series or values are handled between two looks at the
// context.
const pollEvery = 1024

// selectSeries returns the visible series that match, sorted by labels.
func (r *headReader) selectSeries(ctx context.Context, ms []*labels.Matcher, transient bool) (seriesCursor, error) {
	found, err := r.selected(ctx, ms)
	if err != nil {
		return nil, err
	}
	if transient { // or what is allocated for each series is more than sorting takes
		index.SortByLabelsInParts(r.h.dir.Postings(), found, r.h.dir.Pairs)
	} else {
		index.SortByLabels(r.h.dir.Postings(), found, r.h.dir.Pairs)
	}
	c := &headCursor{r: r, found: found, transient: transient}
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
	first     headGroup
	room      []headSeries // the next one; unless they are transient more of them

	texts *textTable
	keep  bool          // the texts of the found ones
	asked atomic.Uint32 // askedNothing, askedText, askedPieces
	ahead int           // of how many more series what labels are made of was asked for

	near nearLabels // of the last one, if they are transient
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

func (c *headCursor) most() int      { return len(c.found) }
func (c *headCursor) place() placeID { return c.r.h.place }

// selected returns the visible series that match, in no order.
func (r *headReader) selected(ctx context.Context, ms []*labels.Matcher) (found []*memseries.Series, err error) {
	err = r.h.dir.Postings().Selected(ctx, func(refs []uint64) error {
		found = make([]*memseries.Series, 0, len(refs))
		for len(refs) > 0 && ctx.Err() == nil {
			n := min(len(refs), pollEvery)
			found = r.h.dir.AppendVisible(found, refs[:n], r.snapshot, r.mint, r.maxt)
			refs = refs[n:]
		}
		return ctx.Err()
	}, ms...)
	return found, err
}

// anyVisible reports whether one of these series is visible.
func (r *headReader) anyVisible(postings index.Postings) bool {
	for postings.Next() {
		if s := r.h.dir.ByRef(postings.At()); s != nil && r.h.dir.Visible(s, r.snapshot, r.mint, r.maxt) {
			return true
		}
	}
	return false
}

// labelNames returns the names that visible matching series have, sorted.
func (r *headReader) labelNames(ctx context.Context, ms []*labels.Matcher) ([]string, error) {
	if len(ms) > 0 {
		return r.labelsOfSelected(ctx, ms, func(name, _ string) (string, bool) { return name, true })
	}
	names := r.h.dir.Postings().LabelNames(r.keepVisible(ctx))
	return names, ctx.Err()
}

// keepVisible tells which label pairs have a visible series. When the context ends it
// says yes to all that is left, which is quick, and the caller drops the result.
func (r *headReader) keepVisible(ctx context.Context) func(index.Pair, index.Postings) bool {
	i := 0
	return func(_ index.Pair, refs index.Postings) bool {
		i++
		if i%pollEvery == 0 && ctx.Err() != nil {
			return true
		}
		return r.anyVisible(refs)
	}
}

// labelValues returns the values of name that visible matching series have, sorted.
func (r *headReader) labelValues(ctx context.Context, name string, ms []*labels.Matcher) ([]string, error) {
	if len(ms) > 0 {
		return r.labelsOfSelected(ctx, ms, func(n, value string) (string, bool) { return value, n == name })
	}
	values := r.h.dir.Postings().LabelValues(name, r.keepVisible(ctx))
	return values, ctx.Err()
}

// labelsOfSelected collects something of each label of each selected series.
func (r *headReader) labelsOfSelected(ctx context.Context, ms []*labels.Matcher, pick func(name, value string) (string, bool)) ([]string, error) {
	series, err := r.selected(ctx, ms)
	if err != nil {
		return nil, err
	}
	seen := map[index.Pair]struct{}{}
	picked := map[string]struct{}{}
	for _, s := range series {
		for _, p := range r.h.dir.Pairs(s) {
			if _, ok := seen[p]; ok {
				continue
			}
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

// span is that of the snapshot: which chunks there are is asked when they are opened.
func (hs *headSeries) span() (mint, maxt int64) { return hs.g.c.r.mint, hs.g.c.r.maxt }

// open takes what the series has now for this snapshot, and what the next ones have if they are
// likely to be opened next. The bounds end where the snapshot does.
func (hs *headSeries) open(reuse chunkSource) chunkSource {
	src, ok := reuse.(*headChunks)
	if !ok {
		src = &headChunks{}
	}
	r := hs.g.c.r
	if src.r != r {
		src.r = r
		src.files.Reset(r.pin)
		src.views.Forget()
	}
	src.at = 0
	src.view = hs.view(src)
	src.in = bounds{mint: r.mint, maxt: r.maxt, deleted: r.deleted.Of(hs.s.Ref())}
	if len(src.view.Chunks) > 0 {
		src.in.maxt = min(src.in.maxt, src.view.Maxt)
	}
	return src
}

// headChunks gives the chunks of a head series: full ones from their file, the open
// one and those that no file has yet from the copy in the view.
type headChunks struct {
	r     *headReader
	files chunks.HeadCursor // of r's pin
	own   memseries.View
	views memseries.Views // of this series and the next ones
	view  *memseries.View // own or one of views
	refs  []chunks.Ref    // of views, for Ahead
	order headOrder       // of series that are not transient
	in    bounds
	at    int
}

func (hc *headChunks) next(mint int64, out *sourceChunk) (bool, error) {
	for hc.at < len(hc.view.Chunks) && hc.view.Chunks[hc.at].MaxT < mint {
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
	out.enc, out.data, err = hc.files.Read(c.Ref)
	if err != nil {
		hc.r.h.noteDamage(err)
	}
	return err == nil, err
}
