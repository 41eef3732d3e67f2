// Package cardinality counts series and their labels, and finds the labels that make them many.
//
// It knows a set of series of a query, and their chunks as they are stored. It does not know which
// blocks there are, nor what the set is of. A count is for one goroutine.
package cardinality

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/labels"
)

// Options say what is counted, and how.
type Options struct {
	MinT, MaxT int64               // closed range of all that the set is of; MinT > MaxT: there is nothing
	Limit      int                 // how long each list is at most; below 0: no limit
	Chunks     bool                // read every chunk, too
	Progress   func(series uint64) // called from the same goroutine now and then, and at the end; nil: nobody asks
}

// Report is what was counted. Lists are in descending order.
type Report struct {
	Series           uint64
	LabelNames       int    // different ones
	LabelPairs       int    // different pairs of name and value
	LabelPairEntries uint64 // labels of all series
	Chunks           uint64
	Samples, Bytes   uint64 // of those chunks; 0 without Options.Chunks

	Metrics                []Count   // metric names by their series
	Names                  []Count   // label names by how many values they have
	Pairs                  []Count   // pairs by their series
	ValueBytes             []Count   // label names by the length of all their values
	ChurnNames, ChurnPairs []Churn   // labels by the churn of their series
	MetricChunks           []Size    // metric names by the bytes of their chunks; nothing without Options.Chunks
	Encodings              []Encoded // of those chunks; nothing without Options.Chunks

	Warnings []error // those of the set
}

// Count counts something of a label name, or of a pair of name and value.
type Count struct {
	Name, Value string // Value is empty where it is about the name
	Count       uint64
}

// Churn is the churn of a label name, or of a pair: how many whole ranges of time its series do not
// have samples for, taken together.
type Churn struct {
	Name, Value string
	Churn       float64
}

// Size is what the chunks of one metric take.
type Size struct {
	Name                   string
	Series, Samples, Bytes uint64
}

// Of counts the series of a set. Errors are those of the set and of the context.
func Of(ctx context.Context, set *read.Set, opts Options) (Report, error) {
	c := newCounter(opts)
	if err := c.count(ctx, set); err != nil {
		return Report{}, err
	}
	return c.result(), nil
}

// counter counts labels of series one after the other.
type counter struct {
	opts  Options
	out   Report
	names map[string]*nameCount
	pairs map[labels.Label]*pairCount
	sizes map[string]*Size

	labels []labels.Label
	spans  []span
	chunks *read.StoredChunks

	encodings encodings
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

func newCounter(opts Options) *counter {
	return &counter{opts: opts, names: map[string]*nameCount{}, pairs: map[labels.Label]*pairCount{}, sizes: map[string]*Size{}}
}

// pollEvery is how many series are counted between two looks at the context.
const pollEvery = 1024

// count goes through all series.
func (c *counter) count(ctx context.Context, set *read.Set) error {
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

func (c *counter) tell() {
	if c.opts.Progress != nil {
		c.opts.Progress(c.out.Series)
	}
}

func (c *counter) series(s *read.Series) error {
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
		size = &Size{Name: metric}
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
func (c *counter) stored(s *read.Series, size *Size) error {
	for c.chunks = s.Stored(c.chunks, c.opts.Chunks); c.chunks.Next(); {
		chunk := c.chunks.At()
		c.out.Chunks++
		c.spans = append(c.spans, span{chunk.MinT, chunk.MaxT})
		if c.opts.Chunks {
			size.Bytes += uint64(len(chunk.Data))
			size.Samples += c.encodings.add(chunk)
		}
	}
	return c.chunks.Err()
}

// uncovered returns the part of the range, between 0 and 1, for which a series has no
// chunk. The time between two chunks counts as covered if it is short against them: samples
// do not stand still between the last one of a chunk and the first one of the next.
func (c *counter) uncovered() float64 {
	slices.SortFunc(c.spans, func(a, b span) int { return cmp.Compare(a.mint, b.mint) })
	whole := float64(c.opts.MaxT) - float64(c.opts.MinT)
	if whole <= 0 {
		return 0
	}
	covered, end := 0.0, int64(math.MinInt64)
	for _, s := range c.spans {
		mint, maxt := max(s.mint, c.opts.MinT, end), min(s.maxt, c.opts.MaxT)
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
func (c *counter) result() Report {
	out := c.out
	out.LabelNames, out.LabelPairs = len(c.names), len(c.pairs)
	out.Encodings = c.encodings.list()
	for name, n := range c.names {
		out.Names = append(out.Names, Count{Name: name, Count: n.values})
		out.ValueBytes = append(out.ValueBytes, Count{Name: name, Count: n.valueBytes})
		out.ChurnNames = append(out.ChurnNames, Churn{Name: name, Churn: n.churn})
	}
	for l, n := range c.pairs {
		out.Pairs = append(out.Pairs, Count{l.Name, l.Value, n.series})
		out.ChurnPairs = append(out.ChurnPairs, Churn{l.Name, l.Value, n.churn})
	}
	for name, size := range c.sizes {
		if name != "" {
			out.Metrics = append(out.Metrics, Count{Name: name, Count: size.Series})
		}
		out.Samples += size.Samples
		out.Bytes += size.Bytes
		if c.opts.Chunks {
			out.MetricChunks = append(out.MetricChunks, *size)
		}
	}
	for _, list := range []*[]Count{&out.Names, &out.ValueBytes, &out.Pairs, &out.Metrics} {
		*list = top(*list, c.opts.Limit, func(a, b Count) int {
			return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
		})
	}
	for _, list := range []*[]Churn{&out.ChurnNames, &out.ChurnPairs} {
		*list = top(*list, c.opts.Limit, func(a, b Churn) int {
			return cmp.Or(cmp.Compare(b.Churn, a.Churn), strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
		})
	}
	out.MetricChunks = top(out.MetricChunks, c.opts.Limit, func(a, b Size) int {
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
