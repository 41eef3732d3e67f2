package prom

import (
	"context"

	promlabels "github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/seed347100a3/tsdb"
)

// labelQuerier is what queriers of samples and of chunks have in common.
type labelQuerier struct {
	q        *tsdb.Querier
	matchers *matcherCache
}

// Close implements storage.LabelQuerier.
func (q *labelQuerier) Close() error { return q.q.Close() }

// LabelNames implements storage.LabelQuerier. Of more than the limit the first ones in alphabetical
// order are returned, with an annotation.
func (q *labelQuerier) LabelNames(ctx context.Context, hints *storage.LabelHints, ms ...*promlabels.Matcher) ([]string, annotations.Annotations, error) {
	ours, err := q.matchers.translate(ms)
	if err != nil {
		return nil, nil, err
	}
	names, ws, err := q.q.LabelNames(ctx, labelHints(hints), ours...)
	return names, annotate(ws), err
}

// LabelValues implements storage.LabelQuerier; the limit is as for LabelNames.
func (q *labelQuerier) LabelValues(ctx context.Context, name string, hints *storage.LabelHints, ms ...*promlabels.Matcher) ([]string, annotations.Annotations, error) {
	ours, err := q.matchers.translate(ms)
	if err != nil {
		return nil, nil, err
	}
	values, ws, err := q.q.LabelValues(ctx, name, labelHints(hints), ours...)
	return values, annotate(ws), err
}

func labelHints(hints *storage.LabelHints) *tsdb.LabelHints {
	if hints == nil {
		return nil
	}
	return &tsdb.LabelHints{Limit: hints.Limit}
}

// querier reads samples. It may be used by any number of goroutines.
type querier struct {
	labelQuerier
	lender lender
}

// Close implements storage.LabelQuerier. Of iterators what they stand on is left; Next and Seek
// are at an end, with tsdb.ErrClosed.
func (q *querier) Close() error {
	q.lender.close()
	return q.labelQuerier.Close()
}

// Select implements storage.Querier. Series are always sorted. Of the hints it uses Start and End,
// Limit, the shard, and Func: of "series" only labels are wanted. Of any other there may be series
// without a sample, which whoever reads samples leaves out. Grouping and By save nothing: all
// labels of a series are one string that is taken over as it is, and some of them would be another
// one, made for each. A step and a range are of no use to a reader that gives every sample, and
// DisableTrimming is for chunks.
func (q *querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, ms ...*promlabels.Matcher) storage.SeriesSet {
	ours, err := q.matchers.translate(ms)
	if err != nil {
		return storage.ErrSeriesSet(err)
	}
	h, labelsOnly := selectHints(hints), hints != nil && hints.Func == "series"
	h.MayBeEmpty = hints != nil && !labelsOnly && hints.Limit == 0 // a limit counts those with samples
	return &seriesSet{set: q.q.Select(ctx, h, ours...), shard: shardOf(hints), labelsOnly: labelsOnly, query: query{ctx, &q.lender}}
}

// chunkQuerier reads encoded chunks. It may be used by any number of goroutines.
type chunkQuerier struct{ labelQuerier }

// Select implements storage.ChunkQuerier, as that of querier. Chunks do not overlap. With
// DisableTrimming those that reach over the ends of the range come as they are stored.
func (q *chunkQuerier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, ms ...*promlabels.Matcher) storage.ChunkSeriesSet {
	ours, err := q.matchers.translate(ms)
	if err != nil {
		return storage.ErrChunkSeriesSet(err)
	}
	return &chunkSeriesSet{set: q.q.SelectChunks(ctx, selectHints(hints), ours...), shard: shardOf(hints)}
}

// selectHints returns what the database can do with hints. Start and End of an engine are inside
// the range of the Querier or reach over it; both 0 are no narrowing on both sides. The limit
// counts before shards are taken, so it is left to the set when there are some.
func selectHints(hints *storage.SelectHints) *tsdb.SelectHints {
	if hints == nil {
		return &tsdb.SelectHints{}
	}
	h := &tsdb.SelectHints{MinT: hints.Start, MaxT: hints.End, WholeChunks: hints.DisableTrimming}
	if hints.ShardCount == 0 {
		h.Limit = hints.Limit
	}
	return h
}

// shard is a part of all series by the hash of their labels. Count 0 is all of them.
type shard struct {
	count, index uint64
	limit        int  // series that may still be taken; below 0: any number
	cut          bool // there was one more than the limit
}

func shardOf(hints *storage.SelectHints) shard {
	s := shard{limit: -1}
	if hints != nil && hints.ShardCount > 0 {
		s.count, s.index = hints.ShardCount, hints.ShardIndex
		if hints.Limit > 0 {
			s.limit = hints.Limit
		}
	}
	return s
}

// takes reports whether a series is in the shard, and counts it. At the limit it is cut.
func (s *shard) takes(ls promlabels.Labels) bool {
	if s.count > 0 && promlabels.StableHash(ls)%s.count != s.index {
		return false
	}
	if s.limit == 0 {
		s.cut = true
		return false
	}
	s.limit--
	return true
}
