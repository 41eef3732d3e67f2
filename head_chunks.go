package tsdb

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// chunkWriteLen is how many bytes of full chunks are written at once: with its headers it
// fits the buffer that the chunk files keep.
const chunkWriteLen = 768 << 10

// chunkWriter puts full chunks into head-chunk files.
type chunkWriter struct {
	h    *head
	wake chan struct{} // tells the loop that there is enough to write

	written, failed atomic.Uint64 // chunks; attempts

	// The lock is held by whoever writes. It comes before the shards.
	sync.Mutex
	fulls []memseries.Full
	files []chunks.Full // what fulls are for files
	// rangeEnd is where the block range ends whose chunks go into the file that is being
	// written.
	rangeEnd int64
}

func (w *chunkWriter) init(h *head) {
	w.h, w.wake, w.rangeEnd = h, make(chan struct{}, 1), math.MinInt64
}

// wakeUp is called behind each commit and costs a load.
func (w *chunkWriter) wakeUp() {
	if w.h.series.Shelf.Bytes() < chunkWriteBytes {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// write writes all full chunks into head-chunk files. Head chunks must not
// outrun the log: it is synced up to the newest commit in them before. After a failed
// sync of such a file nothing is written any more, as after one of the log.
func (w *chunkWriter) write() error {
	log, err := w.h.writable()
	if err != nil || log.Err() != nil {
		return nil // nothing may be written at the moment, and Health says so
	}
	log.Note() // what was left out while a mark was set
	err = w.storeAll(log.SyncTo)
	if errors.Is(err, chunks.ErrPoisoned) {
		return log.Poison(err)
	}
	return err
}

// storeAll writes all full chunks, about chunkWriteLen of them at a time, so that what is on
// its way takes no memory to speak of. synced makes sure that the log is on stable storage up
// to a commit.
func (w *chunkWriter) storeAll(synced func(seq uint64) error) (err error) {
	w.Lock()
	defer w.Unlock()
	shelf, fulls := &w.h.series.Shelf, w.fulls
	for shard := 0; shard < memseries.NumShards && err == nil; {
		fulls, shard = shelf.Collect(fulls[:0], shard, chunkWriteLen)
		foreground.MakeWay()
		n := 0
		if err = synced(newestSeq(fulls)); err == nil {
			n, err = w.storeSome(fulls)
		}
		shelf.Unwritten(fulls[n:])
		clear(fulls) // keeps no chunk alive
	}
	w.fulls = fulls[:0]
	return err
}

// storeSome writes chunks, as many at once as fit a write, and tells their series where they
// are. It returns how many it wrote.
func (w *chunkWriter) storeSome(fulls []memseries.Full) (n int, err error) {
	for n < len(fulls) && err == nil {
		var refs []chunks.Ref
		refs, err = w.StoreFull(fulls[n : n+writeLen(fulls[n:])])
		foreground.MakeWay()
		w.h.series.Shelf.Written(fulls[n:n+len(refs)], refs)
		foreground.MakeWay()
		n += len(refs)
	}
	return n, err
}

// mostFilesByRange is up to how many head-chunk files a new one begins with a block range. A
// head that is flushed has two or three at a time; one that is not has few large ones.
const mostFilesByRange = 8

// keepApart begins a new file with the first chunks of a block range: the files of a range go as
// a whole when a block has it. Stragglers of the range before are few.
func (w *chunkWriter) keepApart(fulls []memseries.Full) error {
	h := w.h
	newest := int64(math.MinInt64)
	for i := range fulls {
		newest = max(newest, fulls[i].MinT)
	}
	if newest < w.rangeEnd {
		return nil
	}
	if h.chunks.Stats().Files < mostFilesByRange {
		if err := h.chunks.EndFile(); err != nil {
			return err
		}
	}
	w.rangeEnd = memseries.RangeEnd(newest, h.opts.Blocks.Range.Milliseconds())
	return nil
}

// StoreFull writes chunks, the log of which is on stable storage and which fit a write, and returns
// where the first of them are. An error says why the others are nowhere. Recovery, which is alone,
// calls it as a replay.Store: it hands over at most replay.StoreBytes.
func (w *chunkWriter) StoreFull(fulls []memseries.Full) ([]chunks.Ref, error) {
	if err := w.keepApart(fulls); err != nil {
		return nil, err
	}
	files := w.files[:0]
	for _, f := range fulls {
		files = append(files, chunks.Full{Series: SeriesRef(f.Series.Ref()), MinT: f.MinT, MaxT: f.MaxT, Encoding: f.Encoding, Data: f.Data})
	}
	refs, err := w.h.chunks.Write(files)
	clear(files)
	w.files = files[:0]
	w.written.Add(uint64(len(refs)))
	return refs, err
}

// writeLen returns how many chunks to write at once, at least one.
func writeLen(fulls []memseries.Full) int {
	bytes := 0
	for n := range fulls {
		size := fulls[n].Size()
		if n > 0 && bytes+size > chunkWriteLen {
			return n
		}
		bytes += size
	}
	return len(fulls)
}

func newestSeq(fulls []memseries.Full) uint64 {
	seq := uint64(0)
	for _, f := range fulls {
		seq = max(seq, f.Seq)
	}
	return seq
}
