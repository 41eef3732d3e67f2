package replay

import (
	"time"

	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
)

// worker owns the series with ref mod N while the log is replayed.
type worker struct {
	restorer *memseries.Restorer
	queue    chan work
	parts    []work // collected, and not appended yet
	samples  int    // in parts, by their weight
	sets     int    // that are let go of with parts
	sorter   runSorter
	job      writtenChunks      // what the chunk writer has of this worker, if sent; else its memory
	written  chan writtenChunks // what the chunk writer has done of this worker's
	sent     bool               // the writer has chunks of this worker
	failed   bool               // it could not write some: the others stay in memory, too
	busy     time.Duration
	oldest   int64              // time of the oldest sample of snapshot and log, of whatever series
	one      [1]xorchunk.Sample // that is being appended alone
	wide     [1]memseries.WideAt
}

func (w *worker) run(r *replay) {
	for item := range w.queue {
		if item.barrier == nil {
			w.collect(r, item)
			continue
		}
		w.append(r)
		item.barrier.Done()
	}
	w.append(r)
	if w.sent {
		w.take(<-w.written)
	}
}

// collect keeps samples until there are enough to sort, or so many sets are kept for few samples
// that others lack them. What a huge commit has more of is sorted in parts, so that memory is
// bounded.
func (w *worker) collect(r *replay, item work) {
	enough := collected(r.to.Series.Len()/len(r.workers), r.most)
	for len(item.span.samples) > enough {
		some := item
		some.set, some.span = nil, item.span.cut(enough)
		w.parts = append(w.parts, some)
		w.append(r)
	}
	w.parts = append(w.parts, item)
	if item.set != nil {
		w.sets++
	}
	if w.samples += item.span.weight(); w.samples >= enough || w.sets >= len(r.workers)*setsPerWorker/2 {
		w.append(r)
	}
}

// append appends what was collected.
func (w *worker) append(r *replay) {
	if len(w.parts) == 0 {
		return
	}
	start := time.Now()
	var seq uint64 // records of other engines have none
	for _, item := range w.parts {
		seq = max(seq, item.seq)
	}
	appended := w.sorter.sort(w.parts, func(runs []memseries.Run) {
		for i := range runs {
			w.oldest = min(w.oldest, runs[i].Samples[0].T) // later ones of a series are newer
		}
		w.restorer.Append(runs, seq)
	})
	if !appended {
		w.appendOneByOne(seq)
	}
	w.handOver(r, w.parts[len(w.parts)-1].synced)
	for _, item := range w.parts {
		if item.set != nil {
			r.release(item.set)
		}
	}
	clear(w.parts)
	w.parts, w.samples, w.sets = w.parts[:0], 0, 0
	w.busy += time.Since(start)
}

// appendOneByOne appends samples as they stand in the log.
func (w *worker) appendOneByOne(seq uint64) {
	for i := range w.parts {
		w.appendSpan(w.parts[i].span, seq)
	}
}

// handOver gives full chunks to the writer, so that recovery needs no more memory
// than the process did before: those whose commits are on stable storage. One
// batch of a worker is on its way at a time; the rest waits.
func (w *worker) handOver(r *replay, synced uint64) {
	for r.to.Store != nil && w.mayHandOver() {
		w.job.fulls = w.restorer.TakeFull(w.job.fulls[:0], synced, leastHandover, StoreBytes)
		if len(w.job.fulls) == 0 {
			return
		}
		w.job.refs = w.job.refs[:0]
		w.sent = true
		r.writer.queue <- writeJob{writtenChunks: w.job, done: w.written}
	}
}

// mayHandOver takes what the chunk writer has done, and says whether it has nothing of this worker.
// When much has been cut meanwhile it waits for that: a disk that is slower than replay must not
// fill the memory.
func (w *worker) mayHandOver() bool {
	switch {
	case !w.sent:
	case w.restorer.FullBytes() >= maxWaiting:
		w.take(<-w.written)
	default:
		select {
		case done := <-w.written:
			w.take(done)
		default:
			return false
		}
	}
	return !w.failed
}

// take notes where chunks are; those that could not be written stay in memory.
func (w *worker) take(done writtenChunks) {
	w.sent, w.job = false, done
	n := len(done.refs)
	w.restorer.Written(done.fulls[:n], done.refs)
	w.restorer.GiveFull(done.fulls[n:])
	w.failed = n < len(done.fulls)
}
