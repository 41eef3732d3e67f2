package tsdb

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/labels"
)

// Querier reads one consistent snapshot of a closed time range: every commit that
// was published when it was opened, none of a later one. It may be used by any number
// of goroutines, and it must be closed: what it pins is kept until then.
type Querier struct {
	mint, maxt int64
	view       *view
	mender     *mender // of the head
	sources    []source
	// use is held shared while files are read, so that Close, which lets go of them, waits
	// for a moment and not for the end of an iteration.
	use     sync.RWMutex
	closed  bool                  // guarded by use
	failure atomic.Pointer[error] // labels that could not be read
	release func() error

	iterators      handover[Series, seriesIterator]
	chunkIterators handover[ChunkSeries, ChunkIterator]
}

// newQuerier takes a snapshot of head and blocks. The caller sees to it that the view
// stays until it returns.
func newQuerier(h *Head, v *view, mint, maxt int64) (*Querier, error) {
	pin, err := h.chunks.Acquire()
	if err != nil {
		return nil, ErrClosed
	}
	losses := h.mender.seen() // of which warnings tell
	q := &Querier{mint: mint, maxt: maxt, view: v, mender: &h.mender}
	pinned := q.addBlocks(v)
	foreground.Begin()
	sn := h.iso.acquire(h.opts.Clock.Now(), v.start)
	if h.overlaps(max(mint, v.start), maxt) {
		q.sources = append(q.sources, &headReader{h: h, pin: pin, snapshot: sn.seq, from: v.start, mint: max(mint, v.start), maxt: maxt, deleted: h.tombs.Load(), losses: losses})
	}
	h.stats.queriers.Add(1)
	q.release = func() error {
		defer foreground.End()
		for i := range pinned {
			pinned[i].b.release()
		}
		err := pin.Release()
		// Last: who waits for the snapshot (isolation.settle) closes the files.
		if h.iso.release(sn) {
			h.dir.SweepMarks(h.iso.floor.Load())
		}
		return err
	}
	return q, nil
}

// addBlocks pins the blocks of the range and makes them sources.
func (q *Querier) addBlocks(v *view) []blockReader {
	n := 0
	for i := range v.blocks {
		if v.blocks[i].overlaps(q.mint, q.maxt) {
			n++
		}
	}
	readers := make([]blockReader, n)
	q.sources = make([]source, 0, n+1) // and the head
	for _, b := range v.blocks {
		if b.overlaps(q.mint, q.maxt) {
			b.pin()
			r := &readers[len(q.sources)]
			r.b, r.mint, r.maxt, r.failure, r.symbols = b, q.mint, q.maxt, &q.failure, &r.ownSymbols
			q.sources = append(q.sources, r)
		}
	}
	return readers
}

// warnings tells of data in a closed range that is missing, or not what it seems.
func (q *Querier) warnings(mint, maxt int64) Warnings {
	if q.view == nil {
		return nil
	}
	ws := append(q.view.warnings(mint, maxt), q.mender.warnings(mint, maxt)...)
	for i := range q.view.blocks {
		if b := &q.view.blocks[i]; b.overlaps(mint, maxt) {
			ws = append(ws, b.ambiguity()...)
		}
	}
	return ws
}

// source is one place that has series: the head, a block.
type source interface {
	// narrow returns the same place for a part of its range; nil if it has nothing there. With whole, chunks
	// that reach into the range may be seen beyond it.
	narrow(mint, maxt int64, whole bool) source
	// selectSeries returns the series that match and may have a sample that is visible. Transient
	// ones are good until the cursor moves on. passed gets warnings of what is damaged and left
	// out, when the cursor comes to it; likewise below.
	selectSeries(ctx context.Context, ms []*labels.Matcher, transient bool, passed *Warnings) (seriesCursor, error)
	labelNames(ctx context.Context, ms []*labels.Matcher, passed *Warnings) ([]string, error) // sorted
	labelValues(ctx context.Context, name string, ms []*labels.Matcher, passed *Warnings) ([]string, error)
}

// seriesCursor goes once through selected series, in the order of their labels.
type seriesCursor interface {
	next(ctx context.Context) (sourceSeries, error) // nil at the end
	most() int                                      // series that are left, at most
	allPresent() bool                               // all series are present
	place() placeID
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
	// open returns the chunks. A reuse that an earlier call returned may be taken; it
	// is not used any more.
	open(reuse chunkSource) chunkSource
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

	// WholeChunks says that SelectChunks need not cut chunks to the range: those that reach over its
	// ends come as they are stored, with their samples outside of it, and a series that has chunks over
	// the range and no sample in it may be in the set. Only what a delete, a later commit or a chunk of
	// another place reaches into is encoded again, and what is deleted never comes back. Select does
	// not look at it.
	WholeChunks bool
}

// LabelHints ask for less than every name or value. Nil asks for everything.
type LabelHints struct {
	Limit int // the most strings to return, the first ones in order; 0 is no limit
}

// Warnings are what a reader should know about a result that is not an error: it was cut at a
// limit (ErrTruncated), or something is missing from it (ErrMissing): a block, chunks of the
// head, or series of a block whose entries in its index are damaged (ErrCorrupt, too; the text
// names block and place of the first ones). Ask with errors.Is.
type Warnings []error

// Select returns the series that all matchers match and that have samples in the
// range, sorted by labels. A series all of whose samples there are deleted, or that has a gap there,
// is not among them (SelectHints.MayBeEmpty); one whose chunks cannot be read is, and its iterator
// has the error. No matcher selects all. A label that a series does not have counts as empty. Errors
// are those of the set; the context is polled while matching.
func (q *Querier) Select(ctx context.Context, hints *SelectHints, ms ...*labels.Matcher) *SeriesSet {
	merged, err := q.selectMerged(ctx, hints, false, ms)
	return &SeriesSet{q: q, series: merged, err: err}
}

// SelectChunks is Select for readers that want encoded chunks: they come as they are
// stored, and are encoded again only where the range (but for SelectHints.WholeChunks), a delete or a
// later commit cuts into them.
func (q *Querier) SelectChunks(ctx context.Context, hints *SelectHints, ms ...*labels.Matcher) *ChunkSeriesSet {
	merged, err := q.selectMerged(ctx, hints, hints != nil && hints.WholeChunks, ms)
	return &ChunkSeriesSet{q: q, series: merged, err: err}
}

func (q *Querier) selectMerged(ctx context.Context, hints *SelectHints, whole bool, ms []*labels.Matcher) (*seriesMerger, error) {
	if err := checkQuery(ctx, ms); err != nil {
		return nil, err
	}
	if !q.begin() {
		return nil, ErrClosed
	}
	defer q.end()
	if hints == nil {
		hints = &SelectHints{}
	}
	mint, maxt := q.rangeOf(hints)
	merged := newSeriesMerger(ctx, hints.Limit, hints.Transient)
	merged.warnings = q.warnings(mint, maxt)
	for _, src := range q.sources {
		if whole || mint > q.mint || maxt < q.maxt {
			if src = src.narrow(mint, maxt, whole); src == nil {
				continue
			}
		}
		c, err := src.selectSeries(ctx, ms, hints.Transient, &merged.warnings)
		if err != nil {
			return nil, errors.WithMessage(err, "select series")
		}
		merged.look = merged.look || !hints.MayBeEmpty && !c.allPresent()
		merged.add(c)
	}
	return merged, nil
}

// rangeOf returns the closed range that is asked for; it is empty if that is outside of the Querier's.
func (q *Querier) rangeOf(hints *SelectHints) (mint, maxt int64) {
	if hints.MinT == 0 && hints.MaxT == 0 {
		return q.mint, q.maxt
	}
	return max(q.mint, hints.MinT), min(q.maxt, hints.MaxT)
}

// LabelNames returns the names of labels that matching series with samples in the range have,
// sorted.
func (q *Querier) LabelNames(ctx context.Context, hints *LabelHints, ms ...*labels.Matcher) ([]string, Warnings, error) {
	if err := checkQuery(ctx, ms); err != nil {
		return nil, nil, err
	}
	return q.strings(hints, func(src source, passed *Warnings) ([]string, error) {
		return src.labelNames(ctx, ms, passed)
	})
}

// LabelValues returns the values that matching series with samples in the range have for a label,
// sorted.
func (q *Querier) LabelValues(ctx context.Context, name string, hints *LabelHints, ms ...*labels.Matcher) ([]string, Warnings, error) {
	if err := checkQuery(ctx, ms); err != nil {
		return nil, nil, err
	}
	return q.strings(hints, func(src source, passed *Warnings) ([]string, error) {
		return src.labelValues(ctx, name, ms, passed)
	})
}

func (q *Querier) strings(hints *LabelHints, of func(source, *Warnings) ([]string, error)) ([]string, Warnings, error) {
	if !q.begin() {
		return nil, nil, ErrClosed
	}
	defer q.end()
	var all []string
	warnings := q.warnings(q.mint, q.maxt)
	for _, src := range q.sources {
		list, err := of(src, &warnings)
		if err != nil {
			return nil, nil, errors.WithMessage(err, "list labels")
		}
		all = mergeStrings(all, list)
	}
	if hints != nil && hints.Limit > 0 && len(all) > hints.Limit {
		return all[:hints.Limit], append(warnings, ErrTruncated), nil
	}
	return all, warnings, nil
}

// How much is read between two turns of others, some hundred microseconds of work; powers of two. Sets
// and iterators count each for themselves, and go on counting when they are used again.
const (
	seriesATurn = 16
	chunksATurn = 64
)

// begin reports whether the Querier is open, and keeps it so until end.
func (q *Querier) begin() bool {
	q.use.RLock()
	if q.closed {
		q.use.RUnlock()
		return false
	}
	return true
}

func (q *Querier) end() { q.use.RUnlock() }

// Close lets go of the snapshot. Series and iterators give ErrClosed from then on, and no
// labels. A second Close does nothing.
func (q *Querier) Close() error {
	q.use.Lock()
	was := q.closed
	q.closed = true
	q.use.Unlock()
	if was {
		return nil
	}
	return q.release()
}
