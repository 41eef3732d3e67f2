// Package headchunks puts full chunks of the head into head-chunk files: how many at a time, and
// which into one file. What must be on stable storage before, and what becomes of an error, is for
// its caller.
package headchunks

import (
	"math"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/wal"
)

// wakeBytes of full chunks do not wait: a write this long costs little per chunk.
const wakeBytes = 1 << 20

// writeBytes is how many bytes of full chunks are written at once: with its headers it
// fits the buffer that the chunk files keep.
const writeBytes = 768 << 10

// Writer puts full chunks into head-chunk files. It implements replay.Store. Who holds its lock
// keeps others from writing.
type Writer struct {
	Shelf *memseries.Shelf  // of the full chunks
	Files *chunks.HeadFiles // that they go to
	Range int64             // of blocks, in milliseconds

	Wake  atomic.Pointer[func()] // has somebody call StoreAll as there is enough to write; nil: nobody
	woken atomic.Bool            // by WakeUp

	Written, Failed atomic.Uint64 // chunks; attempts that the loop made in vain

	// The lock is held by whoever writes. It comes before the shards.
	sync.Mutex
	fulls  []memseries.Full
	files  []chunks.Full // what fulls are for files
	rested uint64        // Written at the last Rest
	// rangeEnd is where the block range ends whose chunks go into the file that is being
	// written.
	rangeEnd int64
}

// Init prepares a Writer for blocks of a range in milliseconds. It has no Shelf and no Files yet.
func (w *Writer) Init(blockRange int64) {
	w.Range, w.rangeEnd = blockRange, math.MinInt64
}

// WakeUp is called behind each commit and costs a load.
func (w *Writer) WakeUp() {
	if w.Shelf.Bytes() < wakeBytes {
		return
	}
	if wake := w.Wake.Load(); wake != nil {
		w.woken.Store(true)
		(*wake)()
	}
}

// Woken reports whether WakeUp has woken somebody since the last call.
func (w *Writer) Woken() bool { return w.woken.Swap(false) }

// StoreAll writes all full chunks, about writeBytes of them at a time, so that what is on
// its way takes no memory to speak of. synced makes sure that the log is on stable storage up
// to a commit.
func (w *Writer) StoreAll(synced func(seq uint64) error) (err error) {
	w.Lock()
	defer w.Unlock()
	shelf, fulls := w.Shelf, w.fulls
	for shard := 0; shard < memseries.NumShards && err == nil; {
		fulls, shard = shelf.Collect(fulls[:0], shard, writeBytes)
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

// Rest gives up the memory of chunks on their way if none was written since the last call. The
// owner calls it now and then: a process may have many heads that rest.
func (w *Writer) Rest() {
	w.Lock()
	defer w.Unlock()
	n := w.Written.Load()
	if n == w.rested {
		w.fulls, w.files = nil, nil
	}
	w.rested = n
}

// storeSome writes chunks, as many at once as fit a write, and tells their series where they
// are. It returns how many it wrote.
func (w *Writer) storeSome(fulls []memseries.Full) (n int, err error) {
	for n < len(fulls) && err == nil {
		var refs []chunks.Ref
		refs, err = w.StoreFull(fulls[n : n+writeLen(fulls[n:])])
		foreground.MakeWay()
		w.Shelf.Written(fulls[n:n+len(refs)], refs)
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
func (w *Writer) keepApart(fulls []memseries.Full) error {
	newest := int64(math.MinInt64)
	for i := range fulls {
		newest = max(newest, fulls[i].MinT)
	}
	if newest < w.rangeEnd {
		return nil
	}
	if w.Files.Stats().Files < mostFilesByRange {
		if err := w.Files.EndFile(); err != nil {
			return err
		}
	}
	w.rangeEnd = memseries.RangeEnd(newest, w.Range)
	return nil
}

// StoreFull writes chunks, the log of which is on stable storage and which fit a write, and returns
// where the first of them are. An error says why the others are nowhere. Recovery, which is alone,
// calls it as a replay.Store: it hands over at most replay.StoreBytes.
func (w *Writer) StoreFull(fulls []memseries.Full) ([]chunks.Ref, error) {
	if err := w.keepApart(fulls); err != nil {
		return nil, err
	}
	files := w.files[:0]
	for _, f := range fulls {
		files = append(files, chunks.Full{Series: chunks.SeriesRef(f.Series.Ref()), MinT: f.MinT, MaxT: f.MaxT, Encoding: f.Encoding, Data: f.Data})
	}
	refs, err := w.Files.Write(files)
	clear(files)
	w.files = files[:0]
	w.Written.Add(uint64(len(refs)))
	return refs, err
}

// writeLen returns how many chunks to write at once, at least one.
func writeLen(fulls []memseries.Full) int {
	bytes := 0
	for n := range fulls {
		size := fulls[n].Size()
		if n > 0 && bytes+size > writeBytes {
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

// Poisoned makes what the chunk files say after a failed sync a wal.ErrPoisoned.
func Poisoned(err error) error {
	if errors.Is(err, chunks.ErrPoisoned) {
		return wal.Poisoned(err)
	}
	return err
}
