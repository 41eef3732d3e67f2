package wal

import (
	"context"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

const (
	// DefaultSegmentSize in bytes is what the reference uses, too.
	DefaultSegmentSize = 128 << 20
	// MinSegmentSize is one page.
	MinSegmentSize = PageSize
)

// Options configure a Log.
type Options struct {
	FS          fileutil.FS
	Dir         string     // where the segments are: .../wal
	SegmentSize int64      // bytes, a multiple of PageSize; 0 means DefaultSegmentSize
	Compression *Codec     // nil: None
	Sync        SyncPolicy // the zero policy is SyncCommit
	// NextRef returns the smallest series ref never handed out so far, for the header
	// of a new segment or checkpoint. It is called without the log's lock, by a goroutine
	// inside a method of the log, and must not call the log. nil stands for 1.
	NextRef func() uint64
	// ReachFile is the path of the file in which it is noted how far the log reached, for ReadReach; it
	// is written anew. Empty: it is not noted.
	ReachFile string
	Mark      int64        // the first one of SetMark
	Logger    *slog.Logger // nil: none
}

// Position is where a Log starts. Repair returns it.
type Position struct {
	Segment int    // number of the segment to create
	NextSeq uint64 // sequence number of the first commit; the first of all is 1
	Synced  uint64 // highest sequence number known to be on stable storage
}

// Log appends commits to segments. It is safe for concurrent use.
//
// Commits stand in a queue in the order of their sequence numbers. The owner of the
// commit at the front leads: it writes all ready commits at the front with one write
// (and, under SyncCommit, one sync), then passes the lead to the owner of the next, and applies what it wrote (Commit.Apply).
// There is no writer goroutine, and so nothing to start or stop.
//
// Lock order: checkpointing, reach, syncMu, then mu. mu is never held during I/O, so Enqueue is quick
// whatever the disk does.
type Log struct {
	opts   Options // with defaults
	comp   *compressor
	logger *slog.Logger

	mu struct {
		sync.Mutex
		idle       sync.Cond // signalled when nobody leads and the queue is empty
		head, tail *Commit
		leading    bool          // somebody writes, or was woken to
		nextSeq    uint64        // of the next commit that is enqueued
		unsettled  int           // failed commits whose owners have not called Settle
		settled    chan struct{} // closed when unsettled falls to zero; nil if it is zero
		refused    error         // why the last write failed; nil after a success
		poisoned   error         // sticky
		closed     bool
	}

	queued atomic.Int32 // ready commits in the queue; Write adds, the leader takes

	// Of the leader; the lead is handed over under mu.
	lead leader

	checkpointing sync.Mutex // held by whoever makes a checkpoint; the outermost
	expiries      expiries

	newest atomic.Pointer[begun] // the current segment; by the leader
	reach  reachWriter

	// syncMu serialises syncs and keeps the files open that they work on.
	syncMu  sync.Mutex
	file    fileutil.File   // of the current segment; changed by the leader with syncMu held
	older   []fileutil.File // finished segments that are not synced yet (SyncNever)
	segment atomic.Int64    // number of the current segment; written with syncMu held

	began   uint64        // what written was at Open
	written atomic.Uint64 // highest sequence number written; by the leader
	synced  atomic.Uint64 // watermark: all up to it is on stable storage; with syncMu held

	stats counters
}

// Open starts a log at a position: it creates the segment, which must not exist,
// writes its header, and syncs file and directory, so that whatever follows is known
// to be ours. On an error nothing is left behind if that can be helped; a full disk
// matches ErrDiskFull.
func Open(opts Options, at Position) (*Log, error) {
	if err := opts.fill(); err != nil {
		return nil, err
	}
	comp, err := newCompressor(opts.Compression, runtime.GOMAXPROCS(0))
	if err != nil {
		return nil, err
	}
	l := &Log{opts: opts, comp: comp, logger: opts.Logger}
	l.mu.idle.L = &l.mu.Mutex
	l.mu.nextSeq = max(at.NextSeq, 1)
	l.began = l.mu.nextSeq - 1
	l.written.Store(l.began)
	l.synced.Store(min(at.Synced, l.mu.nextSeq-1))
	l.reach.mark = opts.Mark
	if err := fileutil.MkdirSync(opts.FS, opts.Dir); err != nil {
		return nil, diskFull(err)
	}
	if err := l.createSegment(at.Segment, l.mu.nextSeq); err != nil {
		return nil, diskFull(errors.WithMessagef(fileutil.JoinErrors(err, l.abandonSpare()), "begin log segment %s", segmentName(at.Segment)))
	}
	l.Note()
	return l, nil
}

func (o *Options) fill() error {
	if o.SegmentSize == 0 {
		o.SegmentSize = DefaultSegmentSize
	}
	if o.SegmentSize < MinSegmentSize || o.SegmentSize%PageSize != 0 {
		return errors.Errorf("log segment size of %d bytes: must be a multiple of %d", o.SegmentSize, PageSize)
	}
	if o.FS == nil || o.Dir == "" {
		return errors.New("log options lack the file system or the directory")
	}
	if o.Sync.mode == 0 {
		o.Sync = SyncCommit()
	}
	if o.NextRef == nil {
		o.NextRef = func() uint64 { return 1 }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Enqueue gives c the next sequence number and its place in the log. It never waits
// for I/O. The bodies may be filled in afterwards. Every commit that was enqueued must
// go through Write, filled or empty: those behind it wait for it. An empty commit is
// written as a bare frame.
//
// Errors: ErrRetry while an earlier failure is not settled, ErrPoisoned, ErrClosed.
// After an error c is not enqueued.
func (l *Log) Enqueue(c *Commit) error {
	c.mustNotBeQueued("enqueue")
	if c.wake == nil {
		c.wake = make(chan struct{}, 1)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.refusalLocked(); err != nil {
		return err
	}
	if !c.rotate {
		c.seq = l.mu.nextSeq
		l.mu.nextSeq++
	}
	c.state, c.next = stateQueued, nil
	if l.mu.tail == nil {
		l.mu.head = c
	} else {
		l.mu.tail.next = c
	}
	l.mu.tail = c
	return nil
}

func (l *Log) refusalLocked() error {
	switch {
	case l.mu.closed:
		return ErrClosed
	case l.mu.poisoned != nil:
		return l.mu.poisoned
	case l.mu.unsettled > 0:
		return ErrRetry
	default:
		return nil
	}
}

// Settle tells the log that the owner of c, whose Write failed, has undone what it
// had prepared for it in memory. When all failed commits are settled, Enqueue works
// again, and numbers go on after the last written commit. Settling a commit that was
// written, or twice, does nothing.
func (l *Log) Settle(c *Commit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.state != stateDone || c.err == nil {
		return
	}
	c.state = stateIdle
	if l.mu.unsettled--; l.mu.unsettled == 0 {
		close(l.mu.settled)
		l.mu.settled = nil
	}
}

// WaitSettled waits until all failed commits are settled, or for ctx.
func (l *Log) WaitSettled(ctx context.Context) error {
	l.mu.Lock()
	settled := l.mu.settled
	l.mu.Unlock()
	if settled == nil {
		return nil
	}
	select {
	case <-settled:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Synced returns the watermark: all commits up to it are on stable storage.
func (l *Log) Synced() uint64 { return l.synced.Load() }

// LastSeq returns the sequence number of the last commit that was written.
func (l *Log) LastSeq() uint64 { return l.written.Load() }

// Segment returns the number of the segment that is written now.
func (l *Log) Segment() int { return int(l.segment.Load()) }

// Err returns nil, or why writes are refused: ErrPoisoned for good, otherwise the
// failure of the last write (which matches ErrDiskFull if it was that) until one
// succeeds.
func (l *Log) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.poisoned != nil {
		return l.mu.poisoned
	}
	return l.mu.refused
}

// Retry says that there may be room again after a full disk: Err is nil until the next write
// fails. It returns ErrPoisoned if the log is.
func (l *Log) Retry() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.poisoned == nil {
		l.mu.refused = nil
	}
	return l.mu.poisoned
}

// Close refuses new commits, waits for those that are enqueued, syncs and closes the
// files. The log then says of itself that all of it is on stable storage. A sync or close
// that fails is ErrPoisoned. A second Close is ErrClosed.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.mu.closed {
		l.mu.Unlock()
		return ErrClosed
	}
	l.mu.closed = true
	for l.mu.leading || l.mu.head != nil {
		l.mu.idle.Wait()
	}
	poison := l.mu.poisoned
	l.mu.Unlock()

	cut := l.retryCut()
	if poison == nil {
		poison = l.sync(l.written.Load())
	}
	var mark error
	if poison == nil && cut == nil && l.written.Load() > l.began {
		mark = l.markEnd()
	}
	l.Note()
	l.closeReach()
	closed := l.closeFiles()
	if poison == nil && closed != nil {
		poison = l.poison(closed)
	}
	return fileutil.JoinErrors(poison, cut, mark)
}

// closeFiles closes all files and returns the first error.
func (l *Log) closeFiles() error {
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	var first error
	for _, f := range append(l.older, l.file, l.lead.spare) {
		if f == nil {
			continue
		}
		if err := f.Close(); err != nil && first == nil {
			first = errors.WithMessagef(err, "close %s", filepath.Base(f.Name()))
		}
	}
	l.older, l.lead.spare = nil, nil
	if err := l.comp.close(); err != nil && first == nil {
		first = err
	}
	return first
}
