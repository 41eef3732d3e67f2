package wal

import (
	"context"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"time"

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
	// ReachFile is the path of the file in which it is noted how far the log reached, for
	// ReadReach; it is written anew. Empty: it is not noted.
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
// Commits stand in a queue in the order of their sequence numbers. The owner of the commit at the
// front leads. It writes all ready commits at the front with one write and, under SyncCommit, one
// sync. Then it passes the lead to the owner of the next, and applies what it wrote (Commit.Apply).
// There is no writer goroutine, and so nothing to start or stop.
//
// Lock order: checkpointing, then those of reach, open, queue. That of queue is never held during
// I/O, so Enqueue is quick whatever the disk does.
type Log struct {
	opts Options // with defaults
	comp *compressor

	queue commitQueue
	open  openSegments
	lead  leader // handed over by queue
	reach reachWriter

	checkpointing sync.Mutex // held by whoever makes a checkpoint; the outermost
	expiries      expiries

	began uint64 // what was written at Open
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
	l := &Log{opts: opts, comp: comp}
	next := max(at.NextSeq, 1)
	l.began = next - 1
	l.queue.init(next)
	l.open = openSegments{opts: &l.opts, queue: &l.queue, stats: &l.stats}
	l.open.written.Store(l.began)
	l.open.synced.Store(min(at.Synced, l.began))
	l.lead.out = logWriter{opts: &l.opts, open: &l.open, expiries: &l.expiries}
	l.reach.opts, l.reach.open, l.reach.mark = &l.opts, &l.open, opts.Mark
	if err := l.begin(at.Segment, next); err != nil {
		return nil, diskFull(errors.WithMessagef(err, "begin log segment %s", segmentName(at.Segment)))
	}
	l.reach.note()
	return l, nil
}

// begin creates the first segment, and its directory if there is none. The file is synced first,
// with its header, and its name and that of the directory behind it: where a file system has one
// journal for all of them, which is most of the time that it takes to open a small database, there
// is nothing left to do for the names then.
func (l *Log) begin(segment int, next uint64) error {
	fsys, parent := l.opts.FS, filepath.Dir(l.opts.Dir)
	_, err := fsys.Stat(parent)
	if errors.Is(err, fs.ErrNotExist) {
		err = fileutil.MkdirSync(fsys, parent)
	}
	if err != nil {
		return err
	}
	if err := fsys.MkdirAll(l.opts.Dir); err != nil {
		return err
	}
	err = l.lead.out.create(segment, next)
	if err == nil {
		// Who made the directory may have been killed. One that nobody may read has its names.
		if err = l.opts.FS.SyncDir(parent); errors.Is(err, fs.ErrPermission) {
			err = nil
		}
	}
	if err != nil {
		return fileutil.JoinErrors(err, l.lead.out.abandonFirst())
	}
	return nil
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
	if c.isQueued() {
		panic("BUG: enqueue of a commit that is in the log's queue")
	}
	if c.wake == nil {
		c.wake = make(chan struct{}, 1)
	}
	return l.queue.add(c)
}

// Settle tells the log that the owner of c, whose Write failed, has undone what it
// had prepared for it in memory. When all failed commits are settled, Enqueue works
// again, and numbers go on after the last written commit. Settling a commit that was
// written, or twice, does nothing.
func (l *Log) Settle(c *Commit) { l.queue.settle(c) }

// WaitSettled waits until all failed commits are settled, or for ctx.
func (l *Log) WaitSettled(ctx context.Context) error {
	settled := l.queue.unsettled()
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

// Rotate begins a new segment and returns its number: all that was enqueued before
// is in lower segments, all that comes later in this one or above. It takes its turn
// in the queue like a commit and fails like one, with the errors of Enqueue and Write;
// there is nothing to settle afterwards.
//
//go:noinline
func (l *Log) Rotate() (segment int, err error) {
	start, err := l.BeginSnapshot()
	return start.Segment, err
}

// BeginSnapshot is Rotate that returns the segment as a place to start from. All commits below
// Start.NextSeq are written then, and no others.
func (l *Log) BeginSnapshot() (start Start, err error) {
	l.reach.prepare()
	c := &Commit{rotate: true}
	if err := l.Enqueue(c); err != nil {
		return Start{}, err
	}
	err = l.Write(c)
	l.Settle(c)
	return c.start, err
}

// Sync brings everything that was written before the call to stable storage and
// moves the watermark. Concurrent calls share a sync; commits go on meanwhile. A
// failed sync is ErrPoisoned, now and from then on, and is not tried again: the
// system may have dropped the bytes it could not write.
func (l *Log) Sync() error {
	if err := l.queue.poison(nil); err != nil {
		return err
	}
	err := l.open.sync(l.open.written.Load())
	if err == nil {
		l.reach.note()
	}
	return err
}

// SyncTo is Sync for the commits up to seq, which must have been written; it does
// nothing when the watermark is there already.
func (l *Log) SyncTo(seq uint64) error {
	err := l.open.sync(min(seq, l.open.written.Load()))
	if err == nil {
		l.reach.note()
	}
	return err
}

// BoundsOf returns how far a log is on stable storage, for an owner that notes it elsewhere, and
// where it begins: the mark is the number of its oldest segment, and in the place of NextRef is the
// first commit in that, 0 if it is not known. Nobody removes segments meanwhile; ErrSegments:
// somebody has.
func BoundsOf(l *Log) (r Reach, err error) {
	r = l.open.reach() // before the list, which may have more
	list, err := List(l.opts.FS, l.opts.Dir)
	if err != nil {
		return r, err
	}
	all := list.Segments
	if n := len(all); n == 0 || all[n-1].Number < r.Segment {
		return r, segmentsError("segment %s is gone from %s", segmentName(r.Segment), l.opts.Dir)
	}
	h, _, err := headerOfSegment(l.opts.FS, all[0].Path)
	r.Mark, r.NextRef = int64(all[0].Number), h.nextSeq
	return r, err
}

// SetMark makes the note of how far the log reached carry a mark, for the next process to be
// told. It is on stable storage on return. A sync that fails is ErrPoisoned; after any other error
// it may be tried again.
func (l *Log) SetMark(mark int64) error { return l.reach.setMark(mark) }

// Rest writes down how far the log reached, as far as it is on stable storage, if that is more than
// before: the log does so behind each sync, but leaves some out. And it closes the file of that if
// nothing was written there since the last call; the next note opens it again. The owner calls it
// now and then, so that a log that rests has one file open. The notes are a help for an Open after
// damage: a failure costs no more than that, and the next one tries again.
func (l *Log) Rest() {
	l.reach.note()
	l.reach.rest()
}

// Synced returns the watermark: all commits up to it are on stable storage.
func (l *Log) Synced() uint64 { return l.open.synced.Load() }

// LastSeq returns the sequence number of the last commit that was written.
func (l *Log) LastSeq() uint64 { return l.open.written.Load() }

// Segment returns the number of the segment that is written now.
func (l *Log) Segment() int { return l.open.number() }

// Stats returns the counters; each is exact, together they are no snapshot.
func (l *Log) Stats() Stats {
	c := &l.stats
	return Stats{
		Bytes:    c.bytes.Load(),
		Commits:  c.commits.Load(),
		Writes:   c.writes.Load(),
		MaxGroup: int(c.maxGroup.Load()),
		Syncs:    c.syncs.Load(),
		SyncTime: time.Duration(c.syncTime.Load()),
		MaxSync:  time.Duration(c.maxSync.Load()),
		LastSync: time.Duration(c.lastSync.Load()),
		Segments: c.segments.Load(),
		Segment:  l.Segment(),
	}
}

// Err returns nil, or why writes are refused: ErrPoisoned for good, otherwise the
// failure of the last write (which matches ErrDiskFull if it was that) until one
// succeeds.
func (l *Log) Err() error { return l.queue.refusal() }

// Retry says that there may be room again after a full disk: Err is nil until the next write
// fails. It returns ErrPoisoned if the log is.
func (l *Log) Retry() error { return l.queue.retry() }

// Poison makes the log read-only because a sync or close of something that belongs to it
// failed, such as a file made from it, and returns the ErrPoisoned that it now gives.
func (l *Log) Poison(cause error) error { return l.queue.poison(cause) }

// Close refuses new commits, waits for those that are enqueued, syncs and closes the
// files. The log then says of itself that all of it is on stable storage. A sync or close
// that fails is ErrPoisoned. A second Close is ErrClosed.
func (l *Log) Close() error {
	if err := l.queue.close(); err != nil {
		return err
	}
	poison, written := l.queue.poison(nil), l.open.written.Load()
	cut := l.lead.out.cut()
	if poison == nil {
		poison = l.open.sync(written)
	}
	var mark error
	if poison == nil && cut == nil && written > l.began {
		mark = l.lead.out.markEnd()
	}
	l.reach.note()
	l.reach.close()
	closed := l.open.close(l.lead.out.spare)
	l.lead.out.spare = nil
	if err := l.comp.close(); err != nil && closed == nil {
		closed = err
	}
	if poison == nil && closed != nil {
		poison = l.queue.poison(closed)
	}
	return fileutil.JoinErrors(poison, cut, mark)
}
