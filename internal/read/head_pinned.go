package read

import (
	"context"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// EachInHead calls fn with ref and labels of each series of a head that all matchers match and that
// is wanted, sorted by labels: with samples or without, of any time, as of now.
func (q *Query) EachInHead(ctx context.Context, series *memseries.Directory, wanted func(ref uint64) bool, fn func(ref uint64, ls labels.Labels), ms []*labels.Matcher) error {
	if !q.begin() {
		return wal.ErrClosed
	}
	defer q.end()
	err := series.Postings().Selected(ctx, func(refs []uint64) error {
		var found []*memseries.Series
		// No snapshot keeps them, so pins do.
		defer func() {
			for _, s := range found {
				s.Unpin()
			}
		}()
		for i, ref := range refs {
			if i%pollEvery == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			s := series.ByRef(ref)
			if s == nil || !wanted(ref) {
				continue
			}
			if s.Pin(); s.Dead() {
				s.Unpin()
				continue
			}
			found = append(found, s)
		}
		index.SortByLabels(series.Postings(), found, series.Pairs)
		for i, s := range found {
			if i%pollEvery == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			fn(s.Ref(), labelsOf(series, s))
		}
		return nil
	}, ms...)
	return errors.WithMessage(err, "select series of the head")
}
