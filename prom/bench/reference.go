package bench

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/pkg/errors"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/compression"
)

// reference is a database of the reference implementation.
type reference struct {
	db   *tsdb.DB
	refs []storage.SeriesRef
	// histograms are those of the scrapes that were prepared.
	histograms [][]*histogram.Histogram
}

// openReference takes the default options: 16,384 stripes, no out-of-order window, no
// exemplars. A Prometheus server sets snappy, as is done here, and lets blocks be merged
// up to 31 days.
func openReference(dir string, manual bool) (engine, error) {
	o := tsdb.DefaultOptions()
	o.WALCompression = compression.Snappy
	o.MaxBlockDuration = (31 * 24 * time.Hour).Milliseconds()
	db, err := tsdb.Open(dir, slog.New(slog.DiscardHandler), prometheus.NewRegistry(), o, nil)
	if err != nil {
		return nil, errors.Wrap(err, "open reference")
	}
	if manual {
		db.DisableCompactions()
	}
	return &reference{db: db}, nil
}

func (r *reference) create(sets [][]string, t int64, vs []float64, perCommit int) error {
	r.refs = make([]storage.SeriesRef, len(sets))
	for from := 0; from < len(sets); from += perCommit {
		app := r.db.Appender(context.Background())
		for i := from; i < min(from+perCommit, len(sets)); i++ {
			ref, err := app.Append(0, labels.FromStrings(sets[i]...), t, vs[i])
			if err != nil {
				return errors.Wrap(err, "append")
			}
			r.refs[i] = ref
		}
		if err := app.Commit(); err != nil {
			return errors.Wrap(err, "commit")
		}
	}
	return nil
}

func (r *reference) append(from, to int, t int64, vs []float64) error {
	app := r.db.Appender(context.Background())
	for i := from; i < to; i++ {
		if _, err := app.Append(r.refs[i], labels.EmptyLabels(), t, vs[i]); err != nil {
			return errors.Wrap(err, "append")
		}
	}
	return errors.Wrap(app.Commit(), "commit")
}

// appendBatch is the same: the reference has no call for many samples.
func (r *reference) appendBatch(from, to int, t int64, vs []float64) error {
	return r.append(from, to, t, vs)
}

func (r *reference) renew(which []int, sets [][]string, t int64, vs []float64) (err error) {
	app := r.db.Appender(context.Background())
	for _, i := range which {
		if r.refs[i], err = app.Append(0, labels.FromStrings(sets[i]...), t-firstBefore, vs[i]); err != nil {
			return errors.Wrap(err, "append")
		}
	}
	return errors.Wrap(app.Commit(), "commit")
}

func (r *reference) history(t, step int64, vs []float64) error {
	app := r.db.Appender(context.Background())
	for i, v := range vs {
		if _, err := app.Append(r.refs[0], labels.EmptyLabels(), t+int64(i)*step, v); err != nil {
			return errors.Wrap(err, "append")
		}
	}
	return errors.Wrap(app.Commit(), "commit")
}

func (r *reference) read(want query) (res result, err error) {
	compiled, err := r.compile(want.matchers)
	if err != nil {
		return res, err
	}
	q, err := r.db.Querier(want.mint, want.maxt)
	if err != nil {
		return res, errors.Wrap(err, "querier")
	}
	defer func() {
		if closeErr := q.Close(); err == nil {
			err = closeErr
		}
	}()
	var it chunkenc.Iterator
	set := q.Select(context.Background(), false, nil, compiled...)
	for set.Next() {
		res.series++
		if !want.how.samples() {
			res.sum += uint64(set.At().Labels().Len())
			continue
		}
		it = set.At().Iterator(it)
		for it.Next() != chunkenc.ValNone {
			_, v := it.At()
			res.samples++
			res.sum += math.Float64bits(v)
		}
		if it.Err() != nil {
			return res, errors.Wrap(it.Err(), "iterate")
		}
	}
	return res, errors.Wrap(set.Err(), "select")
}

func (r *reference) compile(ms []matcher) (compiled []*labels.Matcher, err error) {
	types := map[string]labels.MatchType{"=": labels.MatchEqual, "!=": labels.MatchNotEqual, "=~": labels.MatchRegexp, "!~": labels.MatchNotRegexp}
	if len(ms) == 0 { // it wants one
		return []*labels.Matcher{labels.MustNewMatcher(labels.MatchNotEqual, "__name__", "")}, nil
	}
	for _, m := range ms {
		c, err := labels.NewMatcher(types[m.op], m.name, m.value)
		if err != nil {
			return nil, errors.Wrap(err, "matcher")
		}
		compiled = append(compiled, c)
	}
	return compiled, nil
}

func (r *reference) recovered() recovered {
	return recovered{int64(r.db.Head().NumSeries()), -1}
}

// flush writes one block: the benchmarks see to it that the head is in one range. Then it
// truncates head and log.
func (r *reference) flush() error {
	h := r.db.Head()
	end := h.MaxTime()
	if err := r.db.CompactHead(tsdb.NewRangeHead(h, h.MinTime(), end)); err != nil {
		return errors.Wrap(err, "compact head")
	}
	return errors.Wrap(h.Truncate(end+1), "truncate head")
}

func (r *reference) merge() error {
	return errors.Wrap(r.db.Compact(context.Background()), "compact")
}

func (r *reference) close() error { return errors.Wrap(r.db.Close(), "close reference") }

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
