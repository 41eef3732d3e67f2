package tsdb

import (
	"context"
	stderrors "errors"
	"io/fs"
	"math"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/cardinality"
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
	// Encodings are what the chunks take by their encoding, which says what kind of samples they
	// have; nothing without CardinalityOptions.Chunks.
	Encodings []EncodingSize

	Warnings Warnings // what is missing: damaged blocks
}

// LabelCount counts something of a label name, or of a pair of name and value: it has Name, Value,
// which is empty where it is about the name, and Count, a uint64.
type LabelCount = cardinality.Count

// LabelChurn is the churn of a label name, or of a pair: it has Name, Value and Churn, a float64.
type LabelChurn = cardinality.Churn

// MetricSize is what the chunks of one metric take: it has Name, and Series, Samples and Bytes,
// each a uint64.
type MetricSize = cardinality.Size

// EncodingSize is what the chunks of one encoding take: it has Encoding, Chunks, Samples and Bytes.
// Buckets are those that each histogram of a chunk has room for, positive and negative ones, of
// all chunks together; MinBuckets and MaxBuckets are those of one chunk. Stale markers that are
// alone in a chunk have none. All are 0 for floats. Numbers are uint64.
type EncodingSize = cardinality.Encoded

// Cardinality counts series and their labels. ErrClosed; fs.ErrNotExist if there is no such
// block; the context's error.
func (db *DB) Cardinality(ctx context.Context, opts CardinalityOptions) (Cardinality, error) {
	return countLabels(ctx, opts, db.Querier)
}

// Cardinality counts series and their labels as of the last Refresh. ErrClosed;
// fs.ErrNotExist if there is no such block; the context's error.
func (r *Reader) Cardinality(ctx context.Context, opts CardinalityOptions) (Cardinality, error) {
	return countLabels(ctx, opts, r.Querier)
}

func countLabels(ctx context.Context, opts CardinalityOptions, open func(mint, maxt int64) (*Querier, error)) (_ Cardinality, err error) {
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
	mint, maxt = q.times(opts.Block)
	set := q.selected(ctx, &SelectHints{MayBeEmpty: true}, false, opts.Matchers)
	rep, err := cardinality.Of(ctx, set, cardinality.Options{MinT: mint, MaxT: maxt, Limit: opts.Limit, Chunks: opts.Chunks, Progress: opts.Progress})
	if err != nil {
		return Cardinality{}, errors.WithMessage(err, "count labels")
	}
	return Cardinality{
		MinT: mint, MaxT: maxt,
		Series: rep.Series, LabelNames: rep.LabelNames, LabelPairs: rep.LabelPairs, LabelPairEntries: rep.LabelPairEntries,
		Chunks: rep.Chunks, Samples: rep.Samples, Bytes: rep.Bytes,
		Metrics: rep.Metrics, Names: rep.Names, Pairs: rep.Pairs, ValueBytes: rep.ValueBytes,
		ChurnNames: rep.ChurnNames, ChurnPairs: rep.ChurnPairs, MetricChunks: rep.MetricChunks,
		Encodings: rep.Encodings,
		Warnings:  rep.Warnings,
	}, nil
}

// keep makes a Querier one of a single block, and reports whether that is there.
func (q *Querier) keep(id ulid.ULID) bool {
	b := q.view.Find(id)
	return b != nil && b.Overlaps(q.read.Range()) && q.read.Keep(b.Place())
}

// times returns the closed range of what is there to read, or of a single block; mint > maxt if
// that is nothing.
func (q *Querier) times(only ulid.ULID) (mint, maxt int64) {
	first, last := q.read.Range()
	mint, maxt = q.view.Times(first, last, only)
	if h := q.head; q.read.HasHead() && h.bounds.minT.Load() <= h.bounds.maxT.Load() {
		mint, maxt = min(mint, max(first, q.view.Start, h.bounds.minT.Load())), max(maxt, h.bounds.maxT.Load())
	}
	return max(mint, first), min(maxt, last)
}
