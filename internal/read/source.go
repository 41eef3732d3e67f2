package read

import (
	"context"
	"sync/atomic"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/samplemerge"
	"github.com/seed347100a3/tsdb/labels"
)

// source is one place that has series: the head, a block.
type source interface {
	// narrow returns the same place for a part of its range; nil if it has nothing there. With
	// whole, chunks that reach into the range may be seen beyond it.
	narrow(mint, maxt int64, whole bool) source
	// selectSeries returns the series that match and may have a sample that is visible. Transient
	// ones are good until the cursor moves on. passed gets warnings of what is damaged and left
	// out, when the cursor comes to it; likewise below.
	selectSeries(ctx context.Context, ms []*labels.Matcher, transient bool, passed *[]error) (seriesCursor, error)
	// anySeries is selectSeries in any order, of series that are good until the cursor moves on.
	anySeries(ctx context.Context, ms []*labels.Matcher, passed *[]error) (seriesCursor, error)
	// reach returns closed bounds of the times that samples in the range can have.
	reach() (mint, maxt int64)
	labelNames(ctx context.Context, ms []*labels.Matcher, passed *[]error) ([]string, error) // sorted
	labelValues(ctx context.Context, name string, ms []*labels.Matcher, passed *[]error) ([]string, error)
}

// seriesCursor goes once through selected series, in the order of their labels.
type seriesCursor interface {
	next(ctx context.Context) (sourceSeries, error) // nil at the end
	most() int                                      // series that are left, at most
	allPresent() bool                               // all series are present
	place() PlaceID
}

// sourceSeries is what one place has of one series.
type sourceSeries interface {
	labels() labels.Labels
	appendLabels(dst []labels.Label) []labels.Label
	// number returns what no other series of this place is ever called.
	number() uint64
	// labelKeys appends a number for each label, in order: one that stands for no other
	// label in this place, as long as the snapshot is held. It appends none if only the text
	// says what the labels are.
	labelKeys(dst []uint64) []uint64
	// labelText appends name and value of the label that a key stands for.
	labelText(dst []byte, key uint64) (text []byte, nameBytes int, err error)
	// present reports whether it is known, without a look at chunks, that a sample may be seen.
	present() bool
	// span returns closed bounds of the times of samples.
	span() (mint, maxt int64)
	// outline returns the bounds of the chunks in the range, which are not to be changed, and what
	// of them may be seen. What is coarse has one chunk in place of all, unless fine is asked for.
	outline(room *outlineRoom, fine bool) (chunks []index.ChunkMeta, in samplemerge.Bounds, coarse bool)
	// open returns the chunks. A reuse that an earlier call returned may be taken; it
	// is not used any more.
	open(reuse chunkSource) chunkSource
}

// chunkSource gives the chunks of one series in one place (the head, a block), or what several have
// of it as one: oldest first and without overlap. Bytes are checked. Chunks lie in the range that
// was asked for, at least with a part.
type chunkSource interface{ samplemerge.Source }

// PlaceID is the number of a place that has series, a block or a head, and of no other one in
// this process.
type PlaceID uint32

// NewPlaceID returns a number that was not given out before.
func NewPlaceID() PlaceID { return PlaceID(placesMade.Add(1)) }

var placesMade atomic.Uint32
