package tsdb

import (
	"context"
	stderrors "errors"
	"math"

	"github.com/seed347100a3/tsdb/exemplar"
	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
)

// Querier reads one consistent snapshot of a closed time range: every commit that
// was published when it was opened, none of a later one. It may be used by any number
// of goroutines, and it must be closed: what it pins is kept until then.
type Querier struct {
	read    read.Query     // of the places that follow
	view    *blockset.View // those of its blocks that overlap the range are pinned
	head    *head
	seq     uint64 // the newest commit that is read
	release func() error
}

// newQuerier takes a snapshot of head and blocks. The caller sees to it that the view
// stays until it returns.
func newQuerier(h *head, v *blockset.View, mint, maxt int64) (*Querier, error) {
	pin, err := h.chunks.Acquire()
	if err != nil {
		return nil, ErrClosed
	}
	losses := h.queries.mender.Losses() // of which warnings tell
	q := &Querier{view: v, head: h}
	var few [fewBlocks]read.Block
	blocks, late := v.AppendPinned(few[:0], mint, maxt)
	q.read.Open(mint, maxt, blocks, &h.queries.labels)
	foreground.Begin()
	sn := h.iso.Acquire(h.opts.Clock.Now(), v.Start)
	q.seq = sn.Seq()
	if h.bounds.overlaps(max(mint, v.Start), maxt) {
		q.read.AddHead(h.readable(pin, sn.Seq(), v.Start, losses), late)
	}
	q.read.AddLate(h.late.readable(h, sn.Seq()))
	if h.opts.Head.LastWriteWins {
		q.read.NewestFirst()
	}
	h.queries.opened.Add(1)
	q.release = func() error {
		defer foreground.End()
		v.Unpin(mint, maxt)
		err := pin.Release()
		// Last: who waits for the snapshot (isolation.Commits.Settle) closes the files.
		if h.iso.Release(sn) {
			h.series.Shards.SweepMarks(h.iso.Floor())
		}
		return err
	}
	return q, nil
}

// fewBlocks is how many blocks there are in the range of most queries; for more memory is
// allocated.
const fewBlocks = 4

// warnings tells of data in a closed range that is missing, or not what it seems.
func (q *Querier) warnings(mint, maxt int64) Warnings {
	ws := append(q.view.Warnings(mint, maxt), q.head.queries.mender.Warnings(mint, maxt)...)
	for i := range q.view.Blocks {
		if b := &q.view.Blocks[i]; b.Overlaps(mint, maxt) {
			ws = append(ws, b.Ambiguity()...)
		}
	}
	return ws
}

// SelectHints ask for less than everything that matches. Nil asks for everything.
type SelectHints struct {
	// MinT and MaxT narrow the range of the Querier to the part of it that is in the closed
	// range [MinT, MaxT], in milliseconds. Both 0 are no narrowing.
	MinT, MaxT int64

	// Limit is the most series to return, the first ones in the order of labels; 0 is
	// no limit. When there are more, Warnings says so.
	Limit int

	// Transient says that nobody holds on to the series of the set: each of them, and its
	// iterators, are used before the set moves on, and not after that. Then their memory is
	// used again, and a set of any number of series allocates next to nothing for each.
	Transient bool

	// MayBeEmpty says that series without a sample in the range may be in the set, and count for
	// its Limit. Who reads the samples of each series finds out anyway; without it samples are
	// decoded to know that.
	MayBeEmpty bool

	// WholeChunks says that SelectChunks need not cut chunks to the range: those that reach over
	// its ends come as they are stored, with their samples outside of it, and a series that has
	// chunks over the range and no sample in it may be in the set. Only what a delete, a later
	// commit or a chunk of another place reaches into is encoded again, and what is deleted never
	// comes back. Select does not look at it.
	WholeChunks bool
}

// LabelHints ask for less than every name or value. Nil asks for everything.
type LabelHints struct {
	Limit int // the most strings to return, the first ones in order; 0 is no limit
}

// Warnings are what a reader should know about a result that is not an error. It was cut at a limit
// (ErrTruncated), or something is missing from it (ErrMissing): a block, or chunks of the head, or
// series of a block whose entries in its index are damaged. The latter is ErrCorrupt, too, and the
// text names block and place of the first ones. Ask with errors.Is.
type Warnings []error

// Select returns the series that all matchers match and that have samples in the range, sorted by
// labels. A series all of whose samples there are deleted, or that has a gap there, is not among
// them (SelectHints.MayBeEmpty); one whose chunks cannot be read is, and its iterator has the
// error. No matcher selects all. A label that a series does not have counts as empty. Errors are
// those of the set; the context is polled while matching.
func (q *Querier) Select(ctx context.Context, hints *SelectHints, ms ...*labels.Matcher) *SeriesSet {
	return &SeriesSet{set: q.selected(ctx, hints, false, ms)} // inlined: a set that stays where it is needs no memory
}

// SelectChunks is Select for readers that want encoded chunks: they come as they are stored, and
// are encoded again only where the range (but for SelectHints.WholeChunks), a delete or a later
// commit cuts into them.
func (q *Querier) SelectChunks(ctx context.Context, hints *SelectHints, ms ...*labels.Matcher) *ChunkSeriesSet {
	return &ChunkSeriesSet{set: q.selected(ctx, hints, true, ms)}
}

func (q *Querier) selected(ctx context.Context, hints *SelectHints, chunks bool, ms []*labels.Matcher) *read.Set {
	if err := checkQuery(ctx, ms); err != nil {
		return q.read.Failed(err)
	}
	s := read.Selection{Chunks: chunks}
	s.MinT, s.MaxT = q.read.Range()
	if hints != nil {
		s.Limit, s.Transient, s.MayBeEmpty, s.WholeChunks = hints.Limit, hints.Transient, hints.MayBeEmpty, hints.WholeChunks && chunks
		if hints.MinT != 0 || hints.MaxT != 0 {
			s.MinT, s.MaxT = max(s.MinT, hints.MinT), min(s.MaxT, hints.MaxT)
		}
	}
	s.Warnings = q.warnings(s.MinT, s.MaxT)
	return q.read.Select(ctx, &s, ms)
}

// LabelNames returns the names of labels that matching series with samples in the range have,
// sorted.
func (q *Querier) LabelNames(ctx context.Context, hints *LabelHints, ms ...*labels.Matcher) ([]string, Warnings, error) {
	if err := checkQuery(ctx, ms); err != nil {
		return nil, nil, err
	}
	names, warnings, err := q.read.LabelNames(ctx, hints.limit(), q.warnings(q.read.Range()), ms)
	return names, warnings, err
}

// LabelValues returns the values that matching series with samples in the range have for a label,
// sorted.
func (q *Querier) LabelValues(ctx context.Context, name string, hints *LabelHints, ms ...*labels.Matcher) ([]string, Warnings, error) {
	if err := checkQuery(ctx, ms); err != nil {
		return nil, nil, err
	}
	values, warnings, err := q.read.LabelValues(ctx, name, hints.limit(), q.warnings(q.read.Range()), ms)
	return values, warnings, err
}

// Bounds returns the times of the oldest and the newest sample in the range of all series that all
// matchers match, in milliseconds; mint > maxt: there is none. No matcher selects all. Chunks are
// decoded only where the range or a delete cuts into one, and blocks that lie between others are
// not read at all. ErrClosed, ErrInvalidArgument, ErrCorrupt, the context's.
func (q *Querier) Bounds(ctx context.Context, ms ...*labels.Matcher) (mint, maxt int64, _ Warnings, err error) {
	if err := checkQuery(ctx, ms); err != nil {
		return math.MaxInt64, math.MinInt64, nil, err
	}
	mint, maxt, warnings, err := q.read.Bounds(ctx, q.warnings(q.read.Range()), ms)
	return mint, maxt, warnings, err
}

// allBounds returns those of all that a database has.
func allBounds(ctx context.Context, open func(mint, maxt int64) (*Querier, error)) (mint, maxt int64, _ Warnings, err error) {
	q, err := open(math.MinInt64, math.MaxInt64)
	if err != nil {
		return math.MaxInt64, math.MinInt64, nil, err
	}
	defer func() { err = stderrors.Join(err, q.Close()) }()
	return q.Bounds(ctx)
}

func (h *LabelHints) limit() int {
	if h == nil {
		return 0
	}
	return h.Limit
}

// Close lets go of the snapshot. Series and iterators give ErrClosed from then on, and no
// labels. A second Close does nothing.
func (q *Querier) Close() error {
	if !q.read.Close() {
		return nil
	}
	return q.release()
}

// SeriesMetadata is the metadata of one series.
type SeriesMetadata struct {
	Labels   labels.Labels
	Metadata Metadata
}

// Metadata returns the metadata of series of the head that all matchers match, sorted by labels;
// series without metadata are not among them. It is that of now, whatever the range of the Querier
// and however old it is: metadata has no time. Blocks have none. Errors: ErrClosed,
// ErrInvalidArgument, the context's.
func (q *Querier) Metadata(ctx context.Context, ms ...*labels.Matcher) ([]SeriesMetadata, error) {
	if err := checkQuery(ctx, ms); err != nil {
		return nil, err
	}
	t := q.head.commits.metadata
	var all []SeriesMetadata
	err := q.read.EachInHead(ctx, q.head.series, func(ref uint64) bool { return t.Of(ref) != "" }, func(ref uint64, ls labels.Labels) {
		value := t.Of(ref)
		if value == "" {
			return // it went meanwhile
		}
		if m := record.DecodeMetadataValue([]byte(value)); m != (Metadata{}) { // as other engines log
			all = append(all, SeriesMetadata{ls, m})
		}
	}, ms)
	return all, err
}

// Exemplars returns the exemplars in the range of the series that all matchers match, sorted by the
// labels of the series; those of one series are in the order of time, and of insertion where times
// are equal. No matcher selects all. A label that a series does not have counts as empty. Series
// count that have no sample any more. Those that were committed later than the Querier was opened
// are left out, but what took the place of others since is missing. ErrClosed, the context's.
func (q *Querier) Exemplars(ctx context.Context, ms ...*labels.Matcher) ([]exemplar.Series, error) {
	if err := checkQuery(ctx, ms); err != nil {
		return nil, err
	}
	if !q.read.IsOpen() {
		return nil, ErrClosed
	}
	ring := q.head.commits.exemplars
	ring.Settle(q.head.iso.Published())
	mint, maxt := q.read.Range()
	return ring.Select(mint, maxt, q.seq, ms), nil
}
