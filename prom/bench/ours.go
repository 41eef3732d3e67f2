package bench

import (
	"context"
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
	"github.com/seed347100a3/tsdb/labels"
)

// ours is a database of this library.
type ours struct {
	db       *tsdb.DB
	refs     []tsdb.SeriesRef
	rejected []tsdb.Reject
	batch    *chunkenc.Batch
	labels   []labels.Label // of the last series
	// histograms are those of the scrapes that were prepared.
	histograms [][]*histogram.Histogram
}

func openOurs(dir string, manual bool) (engine, error) {
	return openOursSyncing(dir, manual, tsdb.SyncRotate()) // as the reference does
}

func openOursSyncing(dir string, manual bool, sync tsdb.SyncPolicy) (engine, error) {
	o := tsdb.DefaultOptions()
	o.WAL.Sync = sync
	o.Blocks.Manual = manual
	o.Limits.MaxFuture = -1
	db, err := tsdb.Open(dir, o)
	if err != nil {
		return nil, err
	}
	return newOurs(db), nil
}

func newOurs(db *tsdb.DB) *ours { return &ours{db: db, batch: chunkenc.NewBatch(0)} }

// commit counts what was staged: a benchmark that loses samples measures nothing.
func (o *ours) commit(app *tsdb.Appender, staged int) error {
	res, err := app.Commit(context.Background())
	if err == nil && res.Samples != staged {
		err = errors.Errorf("%d of %d samples were committed", res.Samples, staged)
	}
	return err
}

func (o *ours) create(sets [][]string, t int64, vs []float64, perCommit int) error {
	o.refs = make([]tsdb.SeriesRef, len(sets))
	for from := 0; from < len(sets); from += perCommit {
		to := min(from+perCommit, len(sets))
		app := o.db.Appender()
		for i := from; i < to; i++ {
			ref, err := app.Append(0, labels.FromStrings(sets[i]...), t, vs[i])
			if err != nil {
				return err
			}
			o.refs[i] = ref
		}
		if err := o.commit(app, to-from); err != nil {
			return err
		}
	}
	return nil
}

func (o *ours) append(from, to int, t int64, vs []float64) error {
	app := o.db.Appender()
	for i := from; i < to; i++ {
		if _, err := app.Append(o.refs[i], labels.Labels{}, t, vs[i]); err != nil {
			return err
		}
	}
	return o.commit(app, to-from)
}

func (o *ours) appendBatch(from, to int, t int64, vs []float64) (err error) {
	app := o.db.Appender()
	o.rejected, err = app.AppendBatch(t, o.refs[from:to], vs[from:to], o.rejected[:0])
	if err != nil {
		return err
	}
	if len(o.rejected) > 0 {
		return o.rejected[0].Err
	}
	return o.commit(app, to-from)
}

func (o *ours) renew(which []int, sets [][]string, t int64, vs []float64) (err error) {
	app := o.db.Appender()
	for _, i := range which {
		if o.refs[i], err = app.Append(0, labels.FromStrings(sets[i]...), t-firstBefore, vs[i]); err != nil {
			return err
		}
	}
	return o.commit(app, len(which))
}

func (o *ours) history(t, step int64, vs []float64) error {
	app := o.db.Appender()
	for i, v := range vs {
		if _, err := app.Append(o.refs[0], labels.Labels{}, t+int64(i)*step, v); err != nil {
			return err
		}
	}
	return o.commit(app, len(vs))
}

func (o *ours) read(want query) (res result, err error) {
	compiled, err := o.compile(want.matchers)
	if err != nil {
		return res, err
	}
	q, err := o.db.Querier(want.mint, want.maxt)
	if err != nil {
		return res, err
	}
	defer func() {
		if closeErr := q.Close(); err == nil {
			err = closeErr
		}
	}()
	var it chunkenc.Iterator
	hints := &tsdb.SelectHints{Transient: want.how == readPassing || want.how == readBatches}
	set := q.Select(context.Background(), hints, compiled...)
	for set.Next() {
		res.series++
		switch want.how {
		case readLabels:
			res.sum += uint64(set.At().Labels().Len())
		case readPassing:
			o.labels = set.At().AppendLabels(o.labels[:0])
			res.sum += uint64(len(o.labels))
		case readSamples:
			it = set.At().Iterator(it)
			for it.Next() != chunkenc.ValNone {
				_, v := it.At()
				res.samples++
				res.sum += math.Float64bits(v)
			}
		case readBatches:
			it = set.At().Iterator(it)
			for it.NextBatch(o.batch) != chunkenc.ValNone {
				res.samples += o.batch.Len()
				for _, v := range o.batch.V {
					res.sum += math.Float64bits(v)
				}
			}
		}
		if it != nil && it.Err() != nil {
			return res, it.Err()
		}
	}
	return res, set.Err()
}

func (o *ours) compile(ms []matcher) (compiled []*labels.Matcher, err error) {
	types := map[string]labels.MatchType{"=": labels.MatchEqual, "!=": labels.MatchNotEqual, "=~": labels.MatchRegexp, "!~": labels.MatchNotRegexp}
	for _, m := range ms {
		c, err := labels.NewMatcher(types[m.op], m.name, m.value)
		if err != nil {
			return nil, err
		}
		compiled = append(compiled, c)
	}
	return compiled, nil
}

func (o *ours) recovered() recovered {
	r := o.db.OpenReport()
	if !r.Clean() {
		return recovered{0, 0} // of no use
	}
	return recovered{int64(r.Series), int64(r.Samples)}
}

func (o *ours) flush() error { return o.db.Flush(context.Background()) }

func (o *ours) merge() error { return o.db.Compact(context.Background()) }

func (o *ours) close() error { return o.db.Close() }

func decodeOurs(chunks [][]byte) (n int, err error) {
	var dec xorchunk.Decoder
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
