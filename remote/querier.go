package remote

import (
	"context"

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
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(q.life, func() { cancel(tsdb.ErrClosed) })
	set := q.client.Select(ctx, q.mint, q.maxt, hints, ms...)
	set.onRelease(func() {
		stop()
		cancel(nil)
	})
	return set
}

// Close gives up what is being read: sets that are not at their end fail with
// tsdb.ErrClosed. A second Close does nothing. It always returns nil.
func (q *Querier) Close() error {
	q.end(tsdb.ErrClosed)
	return nil
}
