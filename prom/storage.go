package prom

import (
	"context"
	"math"

	"github.com/prometheus/prometheus/storage"

	"github.com/seed347100a3/tsdb"
)

// Storage is a database as a storage.Storage, and as a storage.ExemplarQueryable. It is safe for
// concurrent use, but for what it hands out: an appender is for one goroutine, as are series sets
// and iterators.
type Storage struct {
	db       *tsdb.DB
	matchers matcherCache
}

var (
	_ storage.Storage           = (*Storage)(nil)
	_ storage.ExemplarQueryable = (*Storage)(nil)
)

// NewStorage returns a database as a storage. The database stays the caller's, but for Close.
func NewStorage(db *tsdb.DB) *Storage { return &Storage{db: db} }

// DB returns the database.
func (s *Storage) DB() *tsdb.DB { return s.db }

// Querier implements storage.Queryable: one snapshot of the closed range [mint, maxt], in
// milliseconds.
func (s *Storage) Querier(mint, maxt int64) (storage.Querier, error) {
	q, err := s.db.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	return &querier{labelQuerier: labelQuerier{q: q, matchers: &s.matchers}}, nil
}

// ChunkQuerier implements storage.ChunkQueryable, as Querier.
func (s *Storage) ChunkQuerier(mint, maxt int64) (storage.ChunkQuerier, error) {
	q, err := s.db.Querier(mint, maxt)
	if err != nil {
		return nil, err
	}
	return &chunkQuerier{labelQuerier{q: q, matchers: &s.matchers}}, nil
}

// Appender implements storage.Appendable. The context is that of Commit.
func (s *Storage) Appender(ctx context.Context) storage.Appender {
	return &appender{transaction: s.begin(ctx)}
}

// AppenderV2 implements storage.AppendableV2. The context is that of Commit.
func (s *Storage) AppenderV2(ctx context.Context) storage.AppenderV2 {
	return &appenderV2{s.begin(ctx)}
}

// begin begins a transaction, which takes exemplars without labels as Prometheus does.
func (s *Storage) begin(ctx context.Context) transaction {
	app := s.db.Appender()
	app.AllowExemplarsWithoutLabels(true)
	return transaction{ctx: ctx, app: app}
}

// StartTime returns a time, in milliseconds, before which there are no samples: the begin of the
// oldest block or the oldest sample of the head; math.MaxInt64 if there are none.
func (s *Storage) StartTime() (int64, error) {
	start := int64(math.MaxInt64)
	for _, b := range s.db.Blocks() {
		start = min(start, b.MinTime)
	}
	if st := s.db.Stats(); st.MinT <= st.MaxT {
		start = min(start, st.MinT)
	}
	return start, nil
}

// Close closes the database.
func (s *Storage) Close() error { return s.db.Close() }
