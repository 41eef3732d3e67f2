package read

import (
	"context"
	"math"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/labels"
)

// Head is what there is to read of a head as of one snapshot.
type Head struct {
	Place   PlaceID
	Series  *memseries.Directory
	Chunks  *chunks.Pin     // of the chunk files
	Past    memseries.Past  // the series in the snapshot
	From    int64           // what the head has before, blocks have, too, and without what is deleted of it
	Deleted *tombstones.Set // as of the snapshot; not changed any more
	Mender  Mender
	Losses  int // that the Mender has told of in the warnings
	Labels  *LabelMemory
}

// Mender knows what took the place of chunks whose files are damaged. It is safe for concurrent
// use.
type Mender interface {
	// Mended returns what took the place of a chunk, for a reader that knows of so many losses. ok
	// is false if nothing did, or if another loss came with it.
	Mended(ref chunks.Ref, losses int) (c MendedChunk, ok bool)
	// NoteDamage is told of a chunk that could not be read, and that is not mended for the reader.
	NoteDamage(ref chunks.Ref, err error)
}

// MendedChunk has what is left of a damaged chunk.
type MendedChunk struct {
	MinT, MaxT int64 // of its samples
	Encoding   chunkenc.Encoding
	Data       []byte // nil: no sample is left
}

// headReader reads a head in a range.
type headReader struct {
	Head
	mint, maxt int64 // From or later
	whole      bool  // chunks in the range may be seen beyond it, but not before From
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
		return r.From, math.MaxInt64
	}
	return r.mint, r.maxt
}

// pollEvery is how many series or values are handled between two looks at the
// context.
const pollEvery = 1024

// selectSeries returns the visible series that match, sorted by labels.
func (r *headReader) selectSeries(ctx context.Context, ms []*labels.Matcher, transient bool, _ *[]error) (seriesCursor, error) {
	found, present, err := r.selected(ctx, ms)
	if err != nil {
		return nil, err
	}
	if transient { // or what is allocated for each series is more than sorting takes
		index.SortByLabelsInParts(r.Series.Postings(), found, r.Series.Pairs)
	} else {
		index.SortByLabels(r.Series.Postings(), found, r.Series.Pairs)
	}
	c := &headCursor{r: r, found: found, transient: transient, present: present}
	if len(found) > 0 {
		c.texts = r.Labels.texts.of(r.Series.Len())
		c.keep = c.texts.holds(len(found))
	}
	return c, nil
}

// anySeries implements source.
func (r *headReader) anySeries(ctx context.Context, ms []*labels.Matcher, _ *[]error) (seriesCursor, error) {
	found, _, err := r.selected(ctx, ms)
	return &headCursor{r: r, found: found, transient: true}, err
}

// reach implements source.
func (r *headReader) reach() (mint, maxt int64) { return r.mint, r.maxt }

// selected returns the visible series that match, in no order, and whether the range has the oldest
// or the newest sample of each.
func (r *headReader) selected(ctx context.Context, ms []*labels.Matcher) (found []*memseries.Series, present bool, err error) {
	present = true
	err = r.Series.Postings().Selected(ctx, func(refs []uint64) error {
		found = make([]*memseries.Series, 0, len(refs))
		for len(refs) > 0 && ctx.Err() == nil {
			n, some := min(len(refs), pollEvery), false
			found, some = r.Past.AppendVisible(found, refs[:n], r.mint, r.maxt)
			present = present && some
			refs = refs[n:]
		}
		return ctx.Err()
	}, ms...)
	return found, present, err
}

// presence tells what is known of a series before its chunks are looked at.
func (r *headReader) presence(s *memseries.Series) memseries.Presence {
	p := r.Past.Presence(s, r.mint, r.maxt)
	if p == memseries.Present && r.Deleted.Len() > 0 && len(r.Deleted.Of(s.Ref())) > 0 {
		return memseries.Possible
	}
	return p
}
