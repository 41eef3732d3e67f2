package read

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// Query reads some places as one. Where several have a sample of one series at one time, the first
// one counts.
type Query struct {
	Gate       // of the files of all places
	mint, maxt int64
	sources    []source
	labels     *LabelMemory
	failure    atomic.Pointer[error] // labels that could not be read

	iterators      handover[iterator]
	chunkIterators handover[ChunkIterator]

	tools   sync.Mutex
	toolsOf any // *queryTools, guarded by tools; it is not named, as a program without it is smaller
}

// Open makes a Query of the zero value, over the blocks that overlap a closed range of time.
func (q *Query) Open(mint, maxt int64, blocks []Block, memory *LabelMemory) {
	q.mint, q.maxt, q.labels = mint, maxt, memory
	readers := make([]blockReader, len(blocks))
	q.sources = make([]source, len(blocks), len(blocks)+1) // and the head; few have late samples, too
	for i := range readers {
		r := &readers[i]
		r.Block, r.mint, r.maxt, r.failure, r.symbols = blocks[i], mint, maxt, &q.failure, &r.ownSymbols
		q.sources[i] = r
	}
}

// AddHead adds a head, from where it begins, in front of the last blocks, which have late samples.
// Nobody else has the Query yet.
func (q *Query) AddHead(h Head, late int) {
	at := len(q.sources) - late
	q.sources = append(q.sources, nil)
	copy(q.sources[at+1:], q.sources[at:]) // slices.Insert would be 4 kB of a small program
	q.sources[at] = &headReader{Head: h, mint: max(q.mint, h.From), maxt: q.maxt}
}

// AddLate adds late samples of a head. Nobody else has the Query yet.
func (q *Query) AddLate(l Late) {
	r := &lateReader{Late: l, mint: max(q.mint, l.From), maxt: min(q.maxt, l.To)}
	if r.mint <= r.maxt {
		q.sources = append(q.sources, r)
	}
}

// NewestFirst turns the order of places: the last one counts that was added.
func (q *Query) NewestFirst() { slices.Reverse(q.sources) }

// HasHead reports whether there is a head.
func (q *Query) HasHead() bool {
	return slices.ContainsFunc(q.sources, func(s source) bool {
		_, ok := s.(*headReader)
		return ok
	})
}

// Range returns the closed range of time.
func (q *Query) Range() (mint, maxt int64) { return q.mint, q.maxt }

// Keep drops all places but one block, and reports whether that is there.
func (q *Query) Keep(place PlaceID) bool {
	q.sources = slices.DeleteFunc(q.sources, func(s source) bool {
		r, ok := s.(*blockReader)
		return !ok || r.Place != place
	})
	return len(q.sources) > 0
}

// Selection says what of a Query is asked for, and how.
type Selection struct {
	MinT, MaxT int64 // closed; not beyond the range of the Query
	Limit      int   // the most series; 0: any number
	Transient  bool  // nobody holds on to a series when the set moves on
	MayBeEmpty bool  // series without a sample in the range may be in the set
	Chunks     bool  // the reader wants chunks, and not samples
	// WholeChunks: chunks that reach over the ends of the range come as they are stored.
	WholeChunks bool
	Warnings    []error // what is known to be missing before anything is read
}

// Failed returns a set that has nothing but an error.
//
//go:noinline
func (q *Query) Failed(err error) *Set { return &Set{series: seriesMerger{q: q}, err: err} }

// Select returns the series that all matchers match. The range of the Selection may be empty.
func (q *Query) Select(ctx context.Context, s *Selection, ms []*labels.Matcher) *Set {
	if !q.begin() {
		return q.Failed(wal.ErrClosed)
	}
	defer q.end()
	set := &Set{chunks: s.Chunks}
	m := &set.series
	m.begin(ctx, q, s)
	for _, src := range q.sources {
		if s.WholeChunks || s.MinT > q.mint || s.MaxT < q.maxt {
			if src = src.narrow(s.MinT, s.MaxT, s.WholeChunks); src == nil {
				continue
			}
		}
		c, err := src.selectSeries(ctx, ms, s.Transient, &m.warnings)
		if err != nil {
			return q.Failed(errors.WithMessage(err, "select series"))
		}
		m.look = m.look || !s.MayBeEmpty && !c.allPresent()
		m.add(c)
	}
	return set
}

// Bounds returns the times of the oldest and the newest sample of series that all matchers match,
// mint > maxt if there is none; warnings, and those that are added. Places that are within what is
// known already are not asked.
func (q *Query) Bounds(ctx context.Context, warnings []error, ms []*labels.Matcher) (mint, maxt int64, _ []error, err error) {
	mint, maxt = math.MaxInt64, noSample
	if !q.begin() {
		return mint, maxt, nil, wal.ErrClosed
	}
	defer q.end()
	f := new(endFinder)
	for i, n := 0, len(q.sources); i < n; i++ {
		src := q.sources[(i+n-1)%n] // the newest place, and then from the oldest one on
		if mint, maxt, err = f.boundsOf(ctx, src, mint, maxt, &warnings, ms); err != nil {
			return math.MaxInt64, noSample, nil, err
		}
	}
	return mint, maxt, warnings, nil
}

// LabelNames returns the names of labels that matching series with samples in the range have,
// sorted, and at most limit of them if that is not 0; warnings, and those that are added.
func (q *Query) LabelNames(ctx context.Context, limit int, warnings []error, ms []*labels.Matcher) ([]string, []error, error) {
	return q.strings(limit, warnings, func(src source, passed *[]error) ([]string, error) {
		return src.labelNames(ctx, ms, passed)
	})
}

// LabelValues is LabelNames for the values of one label.
func (q *Query) LabelValues(ctx context.Context, name string, limit int, warnings []error, ms []*labels.Matcher) ([]string, []error, error) {
	return q.strings(limit, warnings, func(src source, passed *[]error) ([]string, error) {
		return src.labelValues(ctx, name, ms, passed)
	})
}

func (q *Query) strings(limit int, warnings []error, of func(source, *[]error) ([]string, error)) ([]string, []error, error) {
	if !q.begin() {
		return nil, nil, wal.ErrClosed
	}
	defer q.end()
	var all []string
	for _, src := range q.sources {
		list, err := of(src, &warnings)
		if err != nil {
			return nil, nil, errors.WithMessage(err, "list labels")
		}
		all = mergeStrings(all, list)
	}
	if limit > 0 && len(all) > limit {
		return all[:limit], append(warnings, ErrTruncated), nil
	}
	return all, warnings, nil
}

// mergeStrings returns the union of two sorted lists, each without repeats.
func mergeStrings(a, b []string) []string {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	all := make([]string, 0, len(a)+len(b))
	all = append(append(all, a...), b...)
	slices.Sort(all)
	return slices.Compact(all)
}

// How much is read between two pauses for others, some hundred microseconds of work; powers of two.
// Sets and iterators count each for themselves, and go on counting when they are used again.
const (
	seriesAPause = 16
	chunksAPause = 64
)
