package read

import (
	"context"
	"slices"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
	"github.com/seed347100a3/tsdb/labels"
)

// selectDisordered is selectSeries of a block whose series, labels or chunks are not in order, as
// foreign blocks may be: entries are sorted by their labels, those with the same labels are one
// series, and its chunks are merged by time. It holds the labels of what matches.
func (r *blockReader) selectDisordered(ctx context.Context, ids index.IDs, passed *[]error) (seriesCursor, error) {
	sorted, err := r.Dir.Index().Sorted(ctx, ids.Next, func(_ uint64, err error) error { return r.passBy(err, passed) })
	if err != nil {
		return nil, err
	}
	return &disorderedCursor{r: r, sorted: sorted, passed: passed}, nil
}

// disorderedCursor goes through sorted series. None of them is transient: they are few, or the
// block is merged soon.
type disorderedCursor struct {
	r      *blockReader
	sorted *index.Sorted
	passed *[]error // gets the entries that cannot be read
	done   int
}

func (c *disorderedCursor) next(ctx context.Context) (sourceSeries, error) {
	for c.sorted.Next() {
		if c.done%pollEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c.done++
		s := &disorderedSeries{}
		for _, id := range c.sorted.IDs() {
			if err := c.addLanes(s, id); err != nil {
				return nil, err
			}
		}
		if len(s.lanes) > 0 {
			return s, nil
		}
	}
	return nil, nil
}

// addLanes adds the chunks of an entry that lie in the range, lane by lane: which chunks are in one
// does not depend on the range, so a query of any range gives the same samples.
func (c *disorderedCursor) addLanes(s *disorderedSeries, id uint64) error {
	_, metas, err := c.r.Dir.Index().Series(id, nil, nil)
	if err != nil {
		return c.r.passBy(err, c.passed)
	}
	for _, lane := range index.Lanes(metas) {
		if lane = c.r.inRange(lane); len(lane) == 0 {
			continue
		}
		if p := c.r.presence(id, lane); p != memseries.Absent {
			s.lanes = append(s.lanes, &blockSeries{r: c.r, id: id, metas: lane, own: c.sorted.Labels(), known: p == memseries.Present})
		}
	}
	return nil
}

func (c *disorderedCursor) most() int        { return c.sorted.Len() }
func (c *disorderedCursor) allPresent() bool { return false }
func (c *disorderedCursor) place() PlaceID   { return c.r.Place }

// disorderedSeries is one series of such a block: lists of chunks, each in order and without
// overlap. Of samples at one time that of the first list counts.
type disorderedSeries struct{ lanes []*blockSeries }

func (s *disorderedSeries) labels() labels.Labels { return s.lanes[0].labels() }

func (s *disorderedSeries) appendLabels(dst []labels.Label) []labels.Label {
	return s.lanes[0].appendLabels(dst)
}

// number is that of the first entry, which is in no other series.
func (s *disorderedSeries) number() uint64 { return s.lanes[0].number() }

func (s *disorderedSeries) labelKeys(dst []uint64) []uint64 { return s.lanes[0].labelKeys(dst) }

func (s *disorderedSeries) labelText(dst []byte, key uint64) ([]byte, int, error) {
	return s.lanes[0].labelText(dst, key)
}

func (s *disorderedSeries) present() bool {
	return slices.ContainsFunc(s.lanes, (*blockSeries).present)
}

func (s *disorderedSeries) span() (mint, maxt int64) {
	mint, maxt = s.lanes[0].span()
	for _, lane := range s.lanes[1:] {
		from, to := lane.span()
		mint, maxt = min(mint, from), max(maxt, to)
	}
	return mint, maxt
}

// outline is never asked for: each lane has its own.
func (s *disorderedSeries) outline(*outlineRoom, bool) ([]index.ChunkMeta, samplemerge.Bounds, bool) {
	panic("BUG: an outline of several lanes")
}

func (s *disorderedSeries) open(reuse chunkSource) chunkSource {
	m := mergedSeries{first: s.lanes[0]}
	for _, lane := range s.lanes[1:] {
		m.more = append(m.more, lane)
	}
	return m.open(reuse)
}

// labelsOfSet is labelNames and labelValues of a place by its series: strings of the labels of each
// one that is selected, sorted.
func labelsOfSet(ctx context.Context, src source, ms []*labels.Matcher, passed *[]error, of func(labels.Label) (string, bool)) ([]string, error) {
	cursor, err := src.selectSeries(ctx, ms, false, passed)
	if err != nil {
		return nil, err
	}
	var ls []labels.Label
	var prober sampleProber
	picked := map[string]struct{}{}
	for {
		s, err := cursor.next(ctx)
		if err != nil {
			return nil, err
		}
		if s == nil {
			break
		}
		if !s.present() && !prober.hasSample(s.open(prober.src)) {
			continue
		}
		ls = s.appendLabels(ls[:0])
		for _, l := range ls {
			if text, ok := of(l); ok {
				picked[text] = struct{}{}
			}
		}
	}
	list := make([]string, 0, len(picked))
	for text := range picked {
		list = append(list, text)
	}
	slices.Sort(list)
	return list, nil
}
