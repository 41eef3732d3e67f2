package tsdb

import (
	"math"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/memseries"
)

// chunkBatchBytes is how much of full chunks is written at once: with its headers it
// fits the buffer that the chunk files keep.
const chunkBatchBytes = 768 << 10

// noteDamage tells once of a full chunk that is damaged in its file, and has mendChunks look
// after it. The next Open makes it anew from the log, unless it begins with a snapshot.
func (h *head) noteDamage(ref chunks.Ref, err error) {
	if !errors.Is(err, ErrCorrupt) {
		return
	}
	h.mender.note(ref)
	if !h.chunkDamage.Swap(true) {
		h.opts.Logger.Error("a head chunk is damaged; its samples are read from the log again", "error", logged(err))
	}
}

// wakeChunkWriter is called behind each commit and costs a load.
func (h *head) wakeChunkWriter() {
	if h.series.Shelf.Bytes() < chunkWriteBytes {
		return
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// writeChunks writes all full chunks into head-chunk files. Head chunks must not
// outrun the log: it is synced up to the newest commit in them before. After a failed
// sync of such a file nothing is written any more, as after one of the log.
func (h *head) writeChunks() error {
	log, err := h.writable()
	if err != nil || log.Err() != nil {
		return nil // nothing may be written at the moment, and Health says so
	}
	log.Note() // what was left out while a mark was set
	err = h.storeAll(log.SyncTo)
	if errors.Is(err, chunks.ErrPoisoned) {
		return log.Poison(err)
	}
	return err
}

// storeAll writes all full chunks, about a batch at a time so that what is on its way
// takes no memory to speak of. synced makes sure that the log is on stable storage up to
// a commit.
func (h *head) storeAll(synced func(seq uint64) error) (err error) {
	h.storing.Lock()
	defer h.storing.Unlock()
	fulls := h.fulls
	for shard := 0; shard < memseries.NumShards && err == nil; {
		fulls, shard = h.series.Shelf.Collect(fulls[:0], shard, chunkBatchBytes)
		foreground.MakeWay()
		n := 0
		if err = synced(newestSeq(fulls)); err == nil {
			n, err = h.storeFull(fulls)
		}
		h.series.Shelf.Unwritten(fulls[n:])
		clear(fulls) // keeps no chunk alive
	}
	h.fulls = fulls[:0]
	return err
}

// storeFull writes chunks in batches, and tells their series where they are. It returns how many it
// wrote.
func (h *head) storeFull(fulls []memseries.Full) (n int, err error) {
	for n < len(fulls) && err == nil {
		var refs []chunks.Ref
		refs, err = h.storeBatch(fulls[n : n+batchLen(fulls[n:])])
		foreground.MakeWay()
		h.series.Shelf.Written(fulls[n:n+len(refs)], refs)
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
func (h *head) keepApart(fulls []memseries.Full) error {
	newest := int64(math.MinInt64)
	for i := range fulls {
		newest = max(newest, fulls[i].MinT)
	}
	if newest < h.rangeEnd {
		return nil
	}
	if h.chunks.Stats().Files < mostFilesByRange {
		if err := h.chunks.EndFile(); err != nil {
			return err
		}
	}
	h.rangeEnd = memseries.RangeEnd(newest, h.opts.Blocks.Range.Milliseconds())
	return nil
}

// storeBatch writes chunks, the log of which is on stable storage and which fit a batch, and returns
// where the first of them are. An error says why the others are nowhere.
func (h *head) storeBatch(fulls []memseries.Full) ([]chunks.Ref, error) {
	if err := h.keepApart(fulls); err != nil {
		return nil, err
	}
	batch := h.batch[:0]
	for _, f := range fulls {
		batch = append(batch, chunks.Full{Series: SeriesRef(f.Series.Ref()), MinT: f.MinT, MaxT: f.MaxT, Encoding: f.Encoding, Data: f.Data})
	}
	refs, err := h.chunks.Write(batch)
	clear(batch)
	h.batch = batch[:0]
	h.stats.chunksWritten.Add(uint64(len(refs)))
	return refs, err
}

// chunkStore is where recovery writes full chunks: it hands over at most replay.StoreBytes of them,
// which is less than a batch.
type chunkStore struct{ h *head }

func (s chunkStore) StoreFull(fulls []memseries.Full) ([]chunks.Ref, error) {
	return s.h.storeBatch(fulls)
}

// batchLen returns how many chunks to write at once, at least one.
func batchLen(fulls []memseries.Full) int {
	bytes := 0
	for n := range fulls {
		size := fulls[n].Size()
		if n > 0 && bytes+size > chunkBatchBytes {
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
