package remote

import (
	"context"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// Querier selects series of a closed range of time from another server, as tsdb.Querier
// does from a database; the protocol has no more than Select. Unlike that one it holds no
// snapshot: each Select asks the server, which answers with what it has then. It may be
// used by any number of goroutines.
type Querier struct {
	client     *ReadClient
	mint, maxt int64
	life       context.Context
	end        context.CancelCauseFunc
}

// Querier returns a Querier over the closed range [mint, maxt], in milliseconds. It asks
// nothing yet.
func (c *ReadClient) Querier(mint, maxt int64) *Querier {
	q := &Querier{client: c, mint: mint, maxt: maxt}
	q.life, q.end = context.WithCancelCause(context.Background())
	return q
}

// Select is ReadClient.Select over the querier's range.
func (q *Querier) Select(ctx context.Context, hints *tsdb.SelectHints, ms ...*labels.Matcher) *SeriesSet {
	if q.life.Err() != nil {
		return &SeriesSet{err: tsdb.ErrClosed}
	}
	if err := checkQuery(ctx, ms); err != nil {
		return &SeriesSet{err: err}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(q.life, func() { cancel(tsdb.ErrClosed) })
	set := q.client.Select(ctx, q.mint, q.maxt, hints, ms...)
	set.onRelease(func() {
		stop()
		cancel(nil)
	})
	return set
}

// checkQuery refuses a nil context and nil matchers, as tsdb.Querier does.
func checkQuery(ctx context.Context, ms []*labels.Matcher) error {
	switch {
	case ctx == nil:
		return errors.WithMessage(tsdb.ErrInvalidArgument, "remote read: the context is nil")
	case slices.Contains(ms, nil):
		return errors.WithMessage(tsdb.ErrInvalidArgument, "remote read: a matcher is nil")
	}
	return nil
}

// Close gives up what is being read: sets that are not at their end fail with
// tsdb.ErrClosed. A second Close does nothing. It always returns nil.
func (q *Querier) Close() error {
	q.end(tsdb.ErrClosed)
	return nil
}
