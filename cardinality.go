package tsdb

import (
	"cmp"
	"context"
	stderrors "errors"
	"io/fs"
	"math"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/labels"
)

// CardinalityOptions say what Cardinality looks at. The zero value is everything.
type CardinalityOptions struct {
	// MinT and MaxT are a closed range in milliseconds; both 0: all times. Chunks that it
	// touches count as a whole.
	MinT, MaxT int64
	// Block is the only block to look at. Default: all of them, and the head.
	Block ulid.ULID
	// Matchers choose series. Default: all.
	Matchers []*labels.Matcher
	// Limit is how long each list is at most; below 0: no limit. Default 20.
	Limit int
	// Chunks: read every chunk, too, for bytes and samples. It takes as long as a query of all
	// samples; without it only labels and times are read.
	Chunks bool
	// Progress is called from the same goroutine with the number of series so far, now and
	// then and at the end.
	Progress func(series uint64)
}

// defaultCardinalityLimit is what a screen holds.
const defaultCardinalityLimit = 20

// Cardinality is what series there are, and which labels make them many. A series counts
// once, however many blocks have it. Lists are in descending order.
type Cardinality struct {
	MinT, MaxT int64 // closed range of what was looked at; MinT > MaxT: there is nothing

	Series           uint64
	LabelNames       int    // different ones
	LabelPairs       int    // different pairs of name and value
	LabelPairEntries uint64 // labels of all series
	Chunks           uint64
	Samples, Bytes   uint64 // of those chunks; 0 without CardinalityOptions.Chunks

	Metrics []LabelCount // metric names by their series
	Names   []LabelCount // label names by how many values they have
	Pairs   []LabelCount // pairs by their series
	// ValueBytes are label names by the length of all their values.
	ValueBytes []LabelCount
	// ChurnNames and ChurnPairs are labels by the churn of their series: how many whole ranges
	// of time their series do not have samples for, taken together. A label that changes with
	// each deployment is on top.
	ChurnNames, ChurnPairs []LabelChurn
	// MetricChunks are metric names by the bytes of their chunks, with an empty one for series
	// that have none; nothing without CardinalityOptions.Chunks.
	MetricChunks []MetricSize

	Warnings Warnings // what is missing: damaged blocks
}

// LabelCount counts something of a label name, or of a pair of name and value.
type LabelCount struct {
	Name, Value string // Value is empty where it is about the name
	Count       uint64
}

// LabelChurn is the churn of a label name, or of a pair.
type LabelChurn struct {
	Name, Value string
	Churn       float64
}

// MetricSize is what the chunks of one metric take.
type MetricSize struct {
	Name                   string
	Series, Samples, Bytes uint64
}

// Cardinality counts series and their labels. ErrClosed; fs.ErrNotExist if there is no such
// block; the context's error.
func (db *DB) Cardinality(ctx context.Context, opts CardinalityOptions) (Cardinality, error) {
	return cardinality(ctx, opts, db.Querier)
}

// Cardinality counts series and their labels as of the last Refresh. ErrClosed;
// fs.ErrNotExist if there is no such block; the context's error.
func (r *Reader) Cardinality(ctx context.Context, opts CardinalityOptions) (Cardinality, error) {
	return cardinality(ctx, opts, r.Querier)
}

func cardinality(ctx context.Context, opts CardinalityOptions, open func(mint, maxt int64) (*Querier, error)) (_ Cardinality, err error) {
	if err := checkQuery(ctx, opts.Matchers); err != nil {
		return Cardinality{}, err
	}
	mint, maxt := opts.MinT, opts.MaxT
	if mint == 0 && maxt == 0 {
		mint, maxt = math.MinInt64, math.MaxInt64
	}
	setDefault(&opts.Limit, defaultCardinalityLimit)
	q, err := open(mint, maxt)
	if err != nil {
		return Cardinality{}, err
	}
	defer func() { err = stderrors.Join(err, q.Close()) }()
	if opts.Block != (ulid.ULID{}) {
		if !q.keep(opts.Block) {
			return Cardinality{}, errors.WithMessagef(fs.ErrNotExist, "block %s in the range", opts.Block)
		}
	}
	c := newLabelCounter(opts)
	c.out.MinT, c.out.MaxT = q.times(opts.Block)
	if err := c.count(ctx, q); err != nil {
		return Cardinality{}, errors.WithMessage(err, "count labels")
	}
	out := c.result()
	return out, nil
}

// labelCounter counts labels of series one after the other.
type labelCounter struct {
	opts  CardinalityOptions
	out   Cardinality
	names map[string]*nameCount
	pairs map[labels.Label]*pairCount
	sizes map[string]*MetricSize

	labels []labels.Label
	spans  []span
	chunks *read.StoredChunks
}

type nameCount struct {
	values, valueBytes uint64
	churn              float64
}

type pairCount struct {
	series uint64
	churn  float64
}

// span is the closed range of one chunk.
type span struct{ mint, maxt int64 }

func newLabelCounter(opts CardinalityOptions) *labelCounter {
	return &labelCounter{opts: opts, names: map[string]*nameCount{}, pairs: map[labels.Label]*pairCount{}, sizes: map[string]*MetricSize{}}
}

// keep makes a Querier one of a single block, and reports whether that is there.
func (q *Querier) keep(id ulid.ULID) bool {
	mint, maxt := q.read.Range()
	for i := range q.view.blocks {
		if b := &q.view.blocks[i]; b.meta.ULID == id && b.overlaps(mint, maxt) {
			return q.read.Keep(b.place)
		}
	}
	return false
}

// times returns the closed range of what is there to read, or of a single block; mint > maxt if
// that is nothing.
func (q *Querier) times(only ulid.ULID) (mint, maxt int64) {
	first, last := q.read.Range()
	mint, maxt = int64(math.MaxInt64), int64(math.MinInt64)
	for i := range q.view.blocks {
		if b := &q.view.blocks[i]; b.overlaps(first, last) && (only == ulid.ULID{} || b.meta.ULID == only) {
			mint, maxt = min(mint, b.meta.MinTime), max(maxt, b.meta.MaxTime-1)
		}
	}
	if h := q.head; q.read.HasHead() && h.minT.Load() <= h.maxT.Load() {
		mint, maxt = min(mint, max(first, q.view.start, h.minT.Load())), max(maxt, h.maxT.Load())
	}
	return max(mint, first), min(maxt, last)
}

// count goes through all series.
func (c *labelCounter) count(ctx context.Context, q *Querier) error {
	set := q.selected(ctx, &SelectHints{MayBeEmpty: true}, false, c.opts.Matchers)
	for {
		s, ok := set.Next()
		if !ok {
			break
		}
		if err := c.series(&s); err != nil {
			return err
		}
		if c.out.Series%pollEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			c.tell()
		}
	}
	if err := set.Err(); err != nil {
		return err
	}
	c.tell()
	c.out.Warnings = set.Warnings()
	return ctx.Err()
}

func (c *labelCounter) tell() {
	if c.opts.Progress != nil {
		c.opts.Progress(c.out.Series)
	}
}

func (c *labelCounter) series(s *read.Series) error {
	c.out.Series++
	c.labels = s.AppendLabels(c.labels[:0])
	c.spans = c.spans[:0]
	metric := ""
	for _, l := range c.labels {
		if l.Name == labels.MetricName {
			metric = l.Value
		}
	}
	size := c.sizes[metric]
	if size == nil {
		size = &MetricSize{Name: metric}
		c.sizes[metric] = size
	}
	size.Series++
	if err := c.stored(s, size); err != nil {
		return err
	}
	churn := c.uncovered()
	c.out.LabelPairEntries += uint64(len(c.labels))
	for _, l := range c.labels {
		name := c.names[l.Name]
		if name == nil {
			name = &nameCount{}
			c.names[l.Name] = name
		}
		pair := c.pairs[l]
		if pair == nil {
			pair = &pairCount{}
			c.pairs[l] = pair
			name.values++
			name.valueBytes += uint64(len(l.Value))
		}
		pair.series++
		pair.churn += churn
		name.churn += churn
	}
	return nil
}

// stored notes the chunks that all places have of a series.
func (c *labelCounter) stored(s *read.Series, size *MetricSize) error {
	for c.chunks = s.Stored(c.chunks, c.opts.Chunks); c.chunks.Next(); {
		chunk := c.chunks.At()
		c.out.Chunks++
		c.spans = append(c.spans, span{chunk.MinT, chunk.MaxT})
		if c.opts.Chunks {
			size.Bytes += uint64(len(chunk.Data))
			if data, err := chunkenc.FromData(chunk.Encoding, chunk.Data); err == nil {
				size.Samples += uint64(data.NumSamples())
			}
		}
	}
	return c.chunks.Err()
}

// uncovered returns the part of the range, between 0 and 1, for which a series has no
// chunk. The time between two chunks counts as covered if it is short against them: samples
// do not stand still between the last one of a chunk and the first one of the next.
func (c *labelCounter) uncovered() float64 {
	slices.SortFunc(c.spans, func(a, b span) int { return cmp.Compare(a.mint, b.mint) })
	whole := float64(c.out.MaxT) - float64(c.out.MinT)
	if whole <= 0 {
		return 0
	}
	covered, end := 0.0, int64(math.MinInt64)
	for _, s := range c.spans {
		mint, maxt := max(s.mint, c.out.MinT, end), min(s.maxt, c.out.MaxT)
		if end != math.MinInt64 && float64(mint)-float64(end) <= (float64(s.maxt)-float64(s.mint))/8 {
			mint = end
		}
		if maxt >= mint {
			covered += float64(maxt) - float64(mint)
			end = maxt
		}
	}
	return max(0, 1-covered/whole)
}

// result puts the lists in order.
func (c *labelCounter) result() Cardinality {
	out := c.out
	out.LabelNames, out.LabelPairs = len(c.names), len(c.pairs)
	for name, n := range c.names {
		out.Names = append(out.Names, LabelCount{Name: name, Count: n.values})
		out.ValueBytes = append(out.ValueBytes, LabelCount{Name: name, Count: n.valueBytes})
		out.ChurnNames = append(out.ChurnNames, LabelChurn{Name: name, Churn: n.churn})
	}
	for l, n := range c.pairs {
		out.Pairs = append(out.Pairs, LabelCount{l.Name, l.Value, n.series})
		out.ChurnPairs = append(out.ChurnPairs, LabelChurn{l.Name, l.Value, n.churn})
	}
	for name, size := range c.sizes {
		if name != "" {
			out.Metrics = append(out.Metrics, LabelCount{Name: name, Count: size.Series})
		}
		out.Samples += size.Samples
		out.Bytes += size.Bytes
		if c.opts.Chunks {
			out.MetricChunks = append(out.MetricChunks, *size)
		}
	}
	for _, list := range []*[]LabelCount{&out.Names, &out.ValueBytes, &out.Pairs, &out.Metrics} {
		*list = top(*list, c.opts.Limit, func(a, b LabelCount) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
		})
	}
	for _, list := range []*[]LabelChurn{&out.ChurnNames, &out.ChurnPairs} {
		*list = top(*list, c.opts.Limit, func(a, b LabelChurn) int {
			return cmp.Or(cmp.Compare(b.Churn, a.Churn), strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
		})
	}
	out.MetricChunks = top(out.MetricChunks, c.opts.Limit, func(a, b MetricSize) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Name, b.Name))
	})
	return out
}

// top returns the first elements of a list in an order.
func top[T any](list []T, limit int, compare func(a, b T) int) []T {
	slices.SortFunc(list, compare)
	if limit >= 0 && len(list) > limit {
		list = list[:limit:limit]
	}
	return list
}
