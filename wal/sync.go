package wal

import (
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// openSegments are the segments of a Log that are open: the one that is written, and those
// before it that are not synced. It knows how far they are written and on stable storage.
type openSegments struct {
	opts  *Options
	queue *commitQueue // which a sync that fails poisons
	stats *counters

	// mu serialises syncs and keeps the files open that they work on.
	mu     sync.Mutex
	file   fileutil.File         // of the current segment; changed by the leader with mu held
	older  []fileutil.File       // finished segments that are not synced yet (SyncNever)
	newest atomic.Pointer[begun] // the current segment; by the leader

	written atomic.Uint64 // highest sequence number written; by the leader
	synced  atomic.Uint64 // watermark: all up to it is on stable storage; with mu held
}

// begun is the beginning of a segment.
type begun struct {
	segment  int
	firstSeq uint64
}

// number returns that of the current segment.
func (o *openSegments) number() int { return o.newest.Load().segment }

// reach returns how far the segments are on stable storage.
func (o *openSegments) reach() Reach {
	synced := o.synced.Load() // before the segment, so that it is of it or before
	newest := o.newest.Load()
	return Reach{Segment: newest.segment, FirstSeq: newest.firstSeq, Synced: synced}
}

// begin makes a file the current segment.
func (o *openSegments) begin(f fileutil.File, b begun) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.file != nil && o.opts.Sync.mode == ModeNever {
		o.older = append(o.older, o.file)
	}
	o.file = f
	o.newest.Store(&b)
}

// sync makes the commits up to seq durable.
func (o *openSegments) sync(seq uint64) error {
	if o.synced.Load() >= seq {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.synced.Load() >= seq { // somebody else's sync covered it
		return nil
	}
	if err := o.queue.poison(nil); err != nil {
		return err
	}
	written := o.written.Load()
	for len(o.older) > 0 {
		f := o.older[0]
		if err := o.syncFile(f); err != nil {
			return err
		}
		o.older = o.older[1:]
		if err := f.Close(); err != nil {
			return o.queue.poison(errors.WithMessagef(err, "close log segment %s", filepath.Base(f.Name())))
		}
	}
	if err := o.syncFile(o.file); err != nil {
		return err
	}
	o.synced.Store(written)
	return nil
}

func (o *openSegments) syncFile(f fileutil.File) error {
	start := time.Now()
	if err := f.Sync(); err != nil {
		return o.queue.poison(errors.WithMessagef(err, "sync log segment %s", filepath.Base(f.Name())))
	}
	o.stats.sync(time.Since(start))
	return nil
}

// syncDir makes the names in a directory durable. A sync that fails poisons the log; one that could
// not be tried does not.
func (o *openSegments) syncDir(dir string) error {
	err := o.opts.FS.SyncDir(dir)
	if err == nil {
		return nil
	}
	err = dirNotSynced(errors.WithMessagef(err, "sync directory %s", dir))
	if errors.Is(err, ErrPoisoned) {
		return o.queue.poison(err)
	}
	return err
}

// close closes all files and one that may be nil, and returns the first error.
func (o *openSegments) close(spare fileutil.File) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var first error
	for _, f := range append(o.older, o.file, spare) {
		if f == nil {
			continue
		}
		if err := f.Close(); err != nil && first == nil {
			first = errors.WithMessagef(err, "close %s", filepath.Base(f.Name()))
		}
	}
	o.older = nil
	return first
}
