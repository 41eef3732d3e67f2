package replay

import (
	"slices"
	"sync"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// chunkWriter has full chunks written into files while the log is replayed. When
// writing fails it stops trying: the chunks stay in memory and are written later.
type chunkWriter struct {
	queue chan writeJob
	wg    sync.WaitGroup
	buf   []byte // of the chunks that are being written
	err   error
}

// writtenChunks is a batch of full chunks and where the first of them are now.
type writtenChunks struct {
	fulls []memseries.Full
	refs  []chunks.Ref
}

type writeJob struct {
	writtenChunks
	done chan writtenChunks
}

// start begins to write for so many workers, each of which has one batch on its way at a time.
func (cw *chunkWriter) start(to Target, workers int) {
	cw.queue = make(chan writeJob, workers)
	cw.wg.Go(func() {
		for job := range cw.queue {
			cw.write(to, &job.writtenChunks)
			job.done <- job.writtenChunks
		}
	})
}

// write puts chunks into files; each is copied out of its pieces first.
func (cw *chunkWriter) write(to Target, job *writtenChunks) {
	if cw.err != nil {
		return
	}
	size := 0
	for i := range job.fulls {
		size += job.fulls[i].Size()
	}
	cw.buf = to.Series.Shelf.AppendData(slices.Grow(cw.buf[:0], size), job.fulls)
	var refs []chunks.Ref
	refs, cw.err = to.Store.StoreFull(job.fulls)
	job.refs = append(job.refs, refs...)
	for i := range job.fulls {
		job.fulls[i].Data = nil
	}
}

// stop ends the writer, and returns why it stopped trying. A full disk is no reason to fail: it is
// met again, and told, when recovery writes what it must.
func (cw *chunkWriter) stop() error {
	close(cw.queue)
	cw.wg.Wait()
	return cw.err
}
