package tsdb

import (
	"sync"
	"time"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// replayWorker owns the series with ref mod N while the log is replayed.
type replayWorker struct {
	restorer *memseries.Restorer
	queue    chan work
	held     []memseries.Full   // full chunks that the log may not have on stable storage yet
	written  chan writtenChunks // what the chunk writer has done of this worker's
	sent     bool               // the writer has chunks of this worker
	busy     time.Duration
}

// writtenChunks is a batch of full chunks and where the first of them are now.
type writtenChunks struct {
	fulls []memseries.Full
	refs  []chunks.Ref
}

func (w *replayWorker) run(r *replay) {
	for item := range w.queue {
		if item.barrier != nil {
			item.barrier.Done()
			continue
		}
		start := time.Now()
		for i := range item.samples {
			s := &item.samples[i]
			w.restorer.Append(s.Ref, s.T, s.V, item.seq)
		}
		w.handOver(r, item.synced)
		w.busy += time.Since(start)
		if item.set.pending.Add(-1) == 0 {
			r.giveBack(item.set)
		}
	}
	if w.sent {
		w.take(<-w.written)
	}
	w.restorer.GiveFull(w.held)
}

// clear empties a set for the next decoder.
func (ps *partSet) clear() {
	for i := range ps.parts {
		ps.parts[i] = ps.parts[i][:0]
	}
}

// handOver gives full chunks to the writer, so that recovery needs no more memory
// than the process did before: all those whose commits are on stable storage. One
// batch of a worker is on its way at a time; the rest waits.
func (w *replayWorker) handOver(r *replay, synced uint64) {
	if w.sent {
		select {
		case done := <-w.written:
			w.take(done)
		default:
			return
		}
	}
	if r.readOnly || w.restorer.FullBytes() < fullHandover {
		return
	}
	w.held = append(w.held, w.restorer.TakeFull()...)
	n := 0
	for n < len(w.held) && w.held[n].Seq <= synced {
		n++
	}
	if n == 0 {
		return
	}
	batch := w.held[:n:n]
	w.held = append([]memseries.Full(nil), w.held[n:]...)
	w.sent = true
	r.writer.queue <- writeJob{fulls: batch, done: w.written}
}

// take notes where chunks are; those that could not be written stay in memory.
func (w *replayWorker) take(done writtenChunks) {
	w.sent = false
	w.restorer.Written(done.fulls[:len(done.refs)], done.refs)
	w.held = append(done.fulls[len(done.refs):], w.held...)
}

// chunkReplayWriter writes full chunks into files while the log is replayed. When
// writing fails it stops trying: the chunks stay in memory and are written later.
type chunkReplayWriter struct {
	queue chan writeJob
	wg    sync.WaitGroup
	err   error
}

type writeJob struct {
	fulls []memseries.Full
	done  chan writtenChunks
}

func (cw *chunkReplayWriter) start(h *Head) {
	cw.queue = make(chan writeJob, maxReplayWorkers)
	cw.wg.Go(func() {
		for job := range cw.queue {
			done := writtenChunks{fulls: job.fulls}
			if cw.err == nil {
				cw.err = h.storeFull(job.fulls, func(_ []memseries.Full, refs []chunks.Ref) {
					done.refs = append(done.refs, refs...)
				})
			}
			job.done <- done
		}
	})
}

// stop ends the writer. A full disk is no reason to fail: it is met again, and told,
// when recovery writes what it must.
func (cw *chunkReplayWriter) stop() {
	close(cw.queue)
	cw.wg.Wait()
}
