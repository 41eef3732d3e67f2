package tsdb

import (
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/isolation"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/read"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/wal"
)

// head is the mutable block: the newest samples, in memory and in the log.
//
// A sample's way: Appender.Append finds its series and stages it (head_append.go);
// Commit reserves, logs, applies and publishes it (head_commit.go); full chunks go to
// head-chunk files behind it (head_chunks.go); queries read it (internal/read); after
// a restart the log brings it back (head_recover.go).
type head struct {
	opts   *Options
	path   string // the data directory
	place  read.PlaceID
	series *memseries.Directory
	log    atomic.Pointer[wal.Log] // nil while recovery waits for room on the disk
	chunks *chunks.HeadFiles
	iso    *isolation.Commits

	recovery *recovery // what Open must still write; done when log is set
	restored uint64    // refs below it were there when recovery ended
	snap     headSnapshot
	// What recovery found out: the log has lost something that was promised; up to when it was
	// truncated.
	logLost   bool
	truncated int64

	chunkDamage atomic.Bool // a chunk could not be read from its file
	mender      mender

	// minValid is the time from which on the head takes samples: blocks have, or soon will
	// have, what is before. It never falls.
	minValid atomic.Int64
	trunc    truncation
	unread   record.Counts // records of the log with samples that are not read and no block has. Set by recovery
	idle     atomic.Bool   // nothing was committed for long: no series is in use

	// bounds of all applied samples; empty while minT > maxT.
	minT, maxT atomic.Int64

	// tombs has the deleted intervals by series ref, as the log has them. A set that
	// readers can find is not changed; recovery, which fills it, is alone.
	tombs atomic.Pointer[tombstones.Set]

	// storing is held by whoever writes full chunks; what follows is his. It comes before
	// the shards.
	storing sync.Mutex
	fulls   []memseries.Full
	batch   []chunks.Full
	// rangeEnd is where the block range ends whose chunks go into the file that is being
	// written.
	rangeEnd int64

	labels read.LabelMemory // of queries

	batches   sync.Pool // of *batch
	appenders sync.Pool // of *appenders with some to give out
	stats     headStats
	closed    atomic.Bool   // nothing is committed any more
	wake      chan struct{} // tells the chunk writer that there is enough to write
}

func newHead(opts *Options, path string) *head {
	h := &head{
		opts:  opts,
		path:  path,
		place: read.NewPlaceID(),
		wake:  make(chan struct{}, 1),
	}
	h.series = h.newDirectory()
	h.minValid.Store(memseries.NoTime + 1)
	h.tombs.Store(&tombstones.Set{})
	h.trunc.done, h.rangeEnd = math.MinInt64, math.MinInt64
	h.minT.Store(math.MaxInt64)
	h.maxT.Store(math.MinInt64)
	h.batches.New = func() any {
		b := &batch{h: h}
		b.commit.Apply = b.apply
		return b
	}
	h.appenders.New = func() any { return &appenders{} }
	return h
}

// walDir is where the segments of the log are.
func (h *head) walDir() string { return filepath.Join(h.path, datadir.WALDir) }

// newDirectory returns an empty directory of series.
func (h *head) newDirectory() *memseries.Directory {
	return memseries.NewDirectory(memseries.Cutting{
		Range:   h.opts.Blocks.Range.Milliseconds(),
		Samples: h.opts.Head.SamplesPerChunk,
	})
}

// overlaps reports whether a sample that is published can be in the closed range. The
// caller has its snapshot and keeps the view of the blocks from being replaced: the head
// begins to forget what a block has behind that only.
func (h *head) overlaps(mint, maxt int64) bool {
	first, last := h.minT.Load(), h.maxT.Load()
	return first <= last && first <= maxt && last >= mint && mint <= maxt
}

// widen makes the head's bounds cover [mint, maxt].
func (h *head) widen(mint, maxt int64) {
	for old := h.minT.Load(); mint < old && !h.minT.CompareAndSwap(old, mint); {
		old = h.minT.Load()
	}
	for old := h.maxT.Load(); maxt > old && !h.maxT.CompareAndSwap(old, maxt); {
		old = h.maxT.Load()
	}
}

const walDirName = datadir.WALDir

// readable is what a query, or a flush, reads of a snapshot, and from a time on. pin is that of the
// chunk files, which the caller holds; losses are those of the mender that are known.
func (h *head) readable(pin *chunks.Pin, snapshot uint64, from int64, losses int) read.Head {
	return read.Head{Place: h.place, Series: h.series, Chunks: pin, Past: h.series.Past(snapshot), From: from,
		Deleted: h.tombs.Load(), Mender: headMender{h}, Losses: losses, Labels: &h.labels}
}
