package main

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// benchWriter is one goroutine's share of "bench write".
type benchWriter struct {
	db         *tsdb.DB
	sets       []labels.Labels
	refs       []tsdb.SeriesRef
	values     *values
	commitSize int
	bar        *progress

	a        *tsdb.Appender // nil: nothing is staged
	staged   int
	took     latencies // of commits; room for all is there before the clock starts
	rejected []tsdb.Reject
}

// write runs both phases of a benchmark with all writers.
func (b *benchWriteCommand) write(ctx context.Context, db *tsdb.DB, sets []labels.Labels, bar *progress) (*benchWriteResult, error) {
	writers := b.split(db, sets, bar)
	r := &benchWriteResult{
		Series: len(sets), Samples: int64(len(sets)) * int64(b.samples),
		CommitSize: b.commitSize, Writers: b.writers, Sync: b.sync, Compression: b.compress, Values: b.values,
	}
	// The newest sample is now, so that no limit on the future is met.
	step := b.interval.Milliseconds()
	first := time.Now().UnixMilli() - int64(b.samples-1)*step
	var err error
	r.Create, err = timed(ctx, writers, int64(len(sets)), func(ctx context.Context, w *benchWriter) error {
		return w.create(ctx, first)
	})
	if err != nil {
		return nil, err
	}
	r.Append, err = timed(ctx, writers, int64(len(sets))*int64(b.samples-1), func(ctx context.Context, w *benchWriter) error {
		return w.append(ctx, first+step, step, b.samples-1)
	})
	if err != nil {
		return nil, err
	}
	var all latencies
	for _, w := range writers {
		all = append(all, w.took...)
	}
	r.Commits, r.Latency = int64(len(all)), all.summarize()
	runtime.GC()
	r.HeapBytes = takeResources().heap
	return r, nil
}

// split gives each writer its share of the series.
func (b *benchWriteCommand) split(db *tsdb.DB, sets []labels.Labels, bar *progress) []*benchWriter {
	b.writers = min(b.writers, len(sets))
	writers := make([]*benchWriter, 0, b.writers)
	for i := range b.writers {
		share := sets[i*len(sets)/b.writers : (i+1)*len(sets)/b.writers]
		writers = append(writers, &benchWriter{
			db: db, sets: share, refs: make([]tsdb.SeriesRef, len(share)),
			values: newValues(b.values, len(share), uint64(i)+1), commitSize: b.commitSize, bar: bar,
			took: make(latencies, 0, len(share)*b.samples/b.commitSize+2),
		})
	}
	return writers
}

// timed runs one phase in all writers at once. The first error ends the others.
func timed(ctx context.Context, writers []*benchWriter, samples int64, f func(context.Context, *benchWriter) error) (benchPhase, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	runtime.GC()
	before := takeResources()
	begin := time.Now()
	var running sync.WaitGroup
	var failed atomic.Bool
	for _, w := range writers {
		running.Go(func() {
			if err := f(ctx, w); err != nil {
				failed.Store(true)
				cancel(err)
			}
		})
	}
	running.Wait()
	wall := time.Since(begin)
	if failed.Load() {
		return benchPhase{}, context.Cause(ctx)
	}
	return newBenchPhase(samples, wall, before, takeResources()), nil
}

// create appends the first sample of each series by its labels.
func (w *benchWriter) create(ctx context.Context, t int64) error {
	vs := w.values.tick()
	for i, ls := range w.sets {
		if w.a == nil {
			w.a = w.db.Appender()
		}
		ref, err := w.a.Append(0, ls, t, vs[i])
		if err != nil {
			return errors.WithMessagef(err, "append to %s", ls)
		}
		w.refs[i] = ref
		if err := w.count(ctx, 1); err != nil {
			return err
		}
	}
	return w.commit(ctx)
}

// append appends a sample of each series at each of some times, by refs.
func (w *benchWriter) append(ctx context.Context, t, step int64, ticks int) error {
	for range ticks {
		vs := w.values.tick()
		for at := 0; at < len(w.refs); {
			if w.a == nil {
				w.a = w.db.Appender()
			}
			n := min(len(w.refs)-at, w.commitSize-w.staged)
			var err error
			w.rejected, err = w.a.AppendBatch(t, w.refs[at:at+n], vs[at:at+n], w.rejected[:0])
			if err == nil && len(w.rejected) > 0 {
				err = errors.WithMessagef(w.rejected[0].Err, "append to %s", w.sets[at+w.rejected[0].Index])
			}
			if err != nil {
				return err
			}
			at += n
			if err := w.count(ctx, n); err != nil {
				return err
			}
		}
		t += step
	}
	return w.commit(ctx)
}

// count commits when enough is staged.
func (w *benchWriter) count(ctx context.Context, n int) error {
	w.staged += n
	if w.staged < w.commitSize {
		return nil
	}
	return w.commit(ctx)
}

func (w *benchWriter) commit(ctx context.Context) error {
	if w.a == nil {
		return nil
	}
	begin := time.Now()
	res, err := w.a.Commit(ctx)
	w.took = append(w.took, time.Since(begin))
	if err != nil {
		return err
	}
	if len(res.Rejected) > 0 {
		return errors.WithMessage(res.Rejected[0].Err, "commit")
	}
	w.bar.add(int64(w.staged))
	w.a, w.staged = nil, 0
	return nil
}
