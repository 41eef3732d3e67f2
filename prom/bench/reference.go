package bench

import (
	"context"
	"log/slog"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

var reference = Engine{Name: "prometheus", Open: openReference, Decode: decodeReference}

type referenceStore struct {
	db   *tsdb.DB
	refs []storage.SeriesRef
}

// openReference opens the reference with its defaults, but for blocks so large that
// everything stays in the head, as it does with us.
func openReference(dir string) (Store, error) {
	opts := tsdb.DefaultOptions()
	opts.MinBlockDuration = (1000 * time.Hour).Milliseconds()
	opts.MaxBlockDuration = opts.MinBlockDuration
	opts.RetentionDuration = 0
	db, err := tsdb.Open(dir, slog.New(slog.DiscardHandler), nil, opts, nil)
	if err != nil {
		return nil, errors.Wrap(err, "open reference")
	}
	return &referenceStore{db: db}, nil
}

func (s *referenceStore) Create(w *Workload) error {
	app := s.db.Appender(context.Background())
	s.refs = make([]storage.SeriesRef, w.Series)
	for i, v := range w.Row(0) {
		ref, err := app.Append(0, labels.FromStrings(Labels(i)...), 0, v)
		if err != nil {
			return errors.Wrap(err, "append")
		}
		s.refs[i] = ref
	}
	return errors.Wrap(app.Commit(), "commit")
}

func (s *referenceStore) Scrape(w *Workload, k int) error {
	vs := w.Row(k)
	for from := 0; from < w.Series; from += w.PerCommit {
		app := s.db.Appender(context.Background())
		for i := from; i < min(from+w.PerCommit, w.Series); i++ {
			if _, err := app.Append(s.refs[i], labels.EmptyLabels(), int64(k)*Step, vs[i]); err != nil {
				return errors.Wrap(err, "append")
			}
		}
		if err := app.Commit(); err != nil {
			return errors.Wrap(err, "commit")
		}
	}
	return nil
}

func (s *referenceStore) Read(sel Selection) (series, samples int, err error) {
	q, err := s.db.Querier(minTime, maxTime)
	if err != nil {
		return 0, 0, errors.Wrap(err, "querier")
	}
	defer q.Close()
	set := q.Select(context.Background(), true, nil, referenceMatchers(sel)...)
	var it chunkenc.Iterator
	for set.Next() {
		series++
		for it = set.At().Iterator(it); it.Next() != chunkenc.ValNone; {
			it.At()
			samples++
		}
		if it.Err() != nil {
			return 0, 0, errors.Wrap(it.Err(), "iterate")
		}
	}
	return series, samples, errors.Wrap(set.Err(), "select")
}

func referenceMatchers(sel Selection) []*labels.Matcher {
	switch sel {
	case SelectOne:
		return []*labels.Matcher{labels.MustNewMatcher(labels.MatchEqual, oneName, oneValue)}
	case SelectRegexp:
		return []*labels.Matcher{
			labels.MustNewMatcher(labels.MatchRegexp, regexpName, regexpValue),
			labels.MustNewMatcher(labels.MatchEqual, equalName, equalValue),
		}
	default:
		return []*labels.Matcher{labels.MustNewMatcher(labels.MatchNotEqual, "__name__", "")}
	}
}

func (s *referenceStore) Close() error { return errors.Wrap(s.db.Close(), "close reference") }

func decodeReference(chunks [][]byte) (n int, err error) {
	var it chunkenc.Iterator
	for _, data := range chunks {
		c, err := chunkenc.FromData(chunkenc.EncXOR, data)
		if err != nil {
			return n, errors.Wrap(err, "open chunk")
		}
		for it = c.Iterator(it); it.Next() != chunkenc.ValNone; {
			it.At()
			n++
		}
		if it.Err() != nil {
			return n, errors.Wrap(it.Err(), "iterate")
		}
	}
	return n, nil
}
