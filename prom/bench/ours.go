package bench

import (
	"context"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/labels"
)

var ours = Engine{Name: "tsdb", Open: openOurs, Decode: decodeOurs}

type oursStore struct {
	db   *tsdb.DB
	refs []tsdb.SeriesRef
}

func openOurs(dir string) (Store, error) {
	opts := tsdb.DefaultOptions()
	opts.WAL.Sync = tsdb.SyncRotate()
	opts.Limits.MaxFuture = -1
	db, err := tsdb.Open(dir, opts)
	if err != nil {
		return nil, err
	}
	if r := db.OpenReport(); !r.Clean() {
		return nil, errors.Errorf("recovery was not clean: %+v", r)
	}
	return &oursStore{db: db}, nil
}

func (s *oursStore) Create(w *Workload) error {
	app := s.db.Appender()
	s.refs = make([]tsdb.SeriesRef, w.Series)
	for i, v := range w.Row(0) {
		ref, err := app.Append(0, labels.FromStrings(Labels(i)...), 0, v)
		if err != nil {
			return err
		}
		s.refs[i] = ref
	}
	_, err := app.Commit(context.Background())
	return err
}

func (s *oursStore) Scrape(w *Workload, k int) error {
	vs := w.Row(k)
	for from := 0; from < w.Series; from += w.PerCommit {
		to := min(from+w.PerCommit, w.Series)
		app := s.db.Appender()
		rejected, err := app.AppendBatch(int64(k)*Step, s.refs[from:to], vs[from:to], nil)
		if err != nil || len(rejected) > 0 {
			return errors.Errorf("append batch: %v, %d rejected", err, len(rejected))
		}
		if _, err := app.Commit(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

func (s *oursStore) Read(sel Selection) (series, samples int, err error) {
	ms, err := oursMatchers(sel)
	if err != nil {
		return 0, 0, err
	}
	q, err := s.db.Querier(minTime, maxTime)
	if err != nil {
		return 0, 0, err
	}
	defer q.Close()
	var it chunkenc.Iterator
	batch := chunkenc.NewBatch(0)
	for one, err := range q.Select(context.Background(), nil, ms...).All() {
		if err != nil {
			return 0, 0, err
		}
		series++
		for it = one.Iterator(it); it.NextBatch(batch) != chunkenc.ValNone; {
			samples += batch.Len()
		}
		if it.Err() != nil {
			return 0, 0, it.Err()
		}
	}
	return series, samples, nil
}

func oursMatchers(sel Selection) ([]*labels.Matcher, error) {
	switch sel {
	case SelectOne:
		return []*labels.Matcher{labels.Equal(oneName, oneValue)}, nil
	case SelectRegexp:
		re, err := labels.Regexp(regexpName, regexpValue)
		return []*labels.Matcher{re, labels.Equal(equalName, equalValue)}, err
	default:
		return nil, nil
	}
}

func (s *oursStore) Close() error { return s.db.Close() }

func decodeOurs(chunks [][]byte) (n int, err error) {
	var dec chunkenc.XORDecoder
	batch := chunkenc.NewBatch(0)
	ts, vs := batch.T[:cap(batch.T)], batch.V[:cap(batch.V)]
	for _, data := range chunks {
		if err := dec.Reset(data); err != nil {
			return n, err
		}
		for dec.Left() > 0 {
			got, err := dec.Decode(ts, vs)
			if err != nil {
				return n, err
			}
			n += got
		}
	}
	return n, nil
}
