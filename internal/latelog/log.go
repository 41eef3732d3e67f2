package latelog

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/late"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/wal"
)

// Config says where a Log is, and how it writes.
type Config struct {
	Path       string      // the data directory
	Quarantine string      // takes damaged segments
	WAL        wal.Options // Dir, Sync and what is about refs of series are set by the Log
}

// Log is the out-of-order log. The zero value has no files until Open.
type Log struct {
	cfg Config
	wal atomic.Pointer[wal.Log]

	mu struct {
		sync.Mutex
		// keeping: commits are kept for Truncate, which removes what has them.
		keeping bool
		kept    []keptCommit
	}
	incomplete atomic.Pointer[error] // why something could not be written; nil: all was
	taken      chunks.Ref            // out-of-order chunks before it are in this log, or in blocks
}

type keptCommit struct {
	seq uint64
	*Commit
}

// doing says in an error what was done, and how much room there is if that was missing.
func (c *Config) doing(what string, err error) error {
	return diskspace.WhileWriting(c.WAL.FS, c.Path, what, 0, err)
}

// Init says where the log is.
func (l *Log) Init(cfg Config) {
	cfg.WAL.Dir = filepath.Join(cfg.Path, wal.OutOfOrderDir)
	cfg.WAL.Sync = wal.SyncRotate()
	cfg.WAL.NextRef, cfg.WAL.ReachFile = nil, ""
	l.cfg = cfg
}

// Dir returns the directory of the segments.
func (l *Log) Dir() string { return l.cfg.WAL.Dir }

// IsOpen reports whether there is a log to write to.
func (l *Log) IsOpen() bool { return l.wal.Load() != nil }

// Create begins a log where there is none. Errors are those of wal.Open.
func (l *Log) Create() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.IsOpen() {
		return nil
	}
	if err := fileutil.MkdirSync(l.cfg.WAL.FS, l.cfg.WAL.Dir); err != nil {
		return l.cfg.doing("create out-of-order log", err)
	}
	return l.openLocked(wal.Position{NextSeq: 1})
}

// Found is what recovery found of late samples.
type Found struct {
	Log        *wal.ReplayReport // nil: there is no out-of-order log
	Last       uint64            // the newest commit of the log
	Taken      chunks.Ref        // out-of-order chunks before it are not wanted any more
	Incomplete bool              // what the store has is not what the out-of-order log says
	// NextSegment is behind all that the log speaks of: what it says of those that are gone is in
	// blocks.
	NextSegment int
}

// Resume repairs a log that was replayed, and goes on behind it. If it is incomplete it is written
// anew from the store, which nobody changes meanwhile. After an error it may be called again: those
// of wal.Repair and wal.Open.
func (l *Log) Resume(ctx context.Context, found *Found, st *late.Store) error {
	if l.IsOpen() {
		return l.rewriteAgain(found, st)
	}
	at := wal.Position{NextSeq: 1}
	err := fileutil.MkdirSync(l.cfg.WAL.FS, l.cfg.WAL.Dir)
	if err == nil && found.Log != nil {
		at, err = wal.Repair(ctx, l.cfg.WAL.FS, l.cfg.WAL.Dir, l.cfg.Quarantine, l.cfg.Path, found.Log)
	}
	if err != nil {
		return l.cfg.doing("repair out-of-order log", err)
	}
	if at.Segment == 0 { // there is none
		at.Segment = found.NextSegment
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.openLocked(at); err != nil {
		return err
	}
	if l.taken = found.Taken; !found.Incomplete {
		return nil
	}
	return l.rewriteLocked(st, found.Last, at.Segment)
}

// rewriteAgain tries again what Resume could not do, for want of room: no commit may come before.
func (l *Log) rewriteAgain(found *Found, st *late.Store) error {
	if !found.Incomplete || !l.IsIncomplete() {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.wal.Load()
	if err := log.Retry(); err != nil {
		return err
	}
	segment, err := log.Rotate()
	if err != nil {
		return l.cfg.doing("begin a segment of the out-of-order log", err)
	}
	return l.rewriteLocked(st, found.Last, segment)
}

func (l *Log) openLocked(at wal.Position) error {
	log, err := wal.Open(l.cfg.WAL, at)
	if err != nil {
		return l.cfg.doing("open out-of-order log", err)
	}
	l.wal.Store(log)
	return nil
}

// rewriteLocked writes all that the store has behind a segment, and removes what is before.
func (l *Log) rewriteLocked(st *late.Store, last uint64, segment int) error {
	err := l.markFirst()
	if err == nil {
		err = (&dump{log: l, store: st, seq: last}).write()
	}
	if err == nil {
		err = l.wal.Load().Sync()
	}
	if err == nil {
		err = wal.RemoveBefore(l.cfg.WAL.FS, l.cfg.WAL.Dir, segment)
	}
	if err != nil {
		l.incomplete.Store(&err)
		return l.cfg.doing("write out-of-order log anew", err)
	}
	l.incomplete.Store(nil)
	return nil
}

// markFirst writes which out-of-order chunks are not wanted any more. Where that stands, the
// segments before it are not wanted either.
func (l *Log) markFirst() error {
	var c Commit
	c.End(record.AppendLateChunks(c.Begin(), uint64(l.taken)))
	return l.writeNow(&c)
}

// writeNow queues and writes records that are of no commit.
func (l *Log) writeNow(c *Commit) error {
	l.queue(c)
	return l.Write(c)
}

// Segment returns the number of the segment that is written now, for record.AppendLate.
func (l *Log) Segment() int {
	if log := l.wal.Load(); log != nil {
		return log.Segment()
	}
	return 0
}

// Enqueue gives the records of commit seq of the log their place. It never waits for input or
// output, so a caller may hold locks of series. Write must follow.
func (l *Log) Enqueue(seq uint64, c *Commit) {
	head := record.AppendLateCommit(nil, seq)
	c.buf = append(head, c.buf...)
	for i := range c.ends {
		c.ends[i] += len(head)
	}
	c.ends = append([]int{len(head)}, c.ends...)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.keeping {
		l.mu.kept = append(l.mu.kept, keptCommit{seq, c.copyOf()})
	}
	l.queue(c)
}

// queue gives a commit its place; where there is none the log is incomplete.
func (l *Log) queue(c *Commit) {
	for i := range c.Records() {
		c.wal.End(append(c.wal.Begin(), c.Record(i)...))
	}
	log, err := l.wal.Load(), errNoLog
	if log != nil {
		err = log.Enqueue(&c.wal)
	}
	if err != nil {
		l.incomplete.Store(&err)
		return
	}
	c.queued = log
}

// Write writes a queued commit. An error makes the log incomplete: the commit counts nevertheless,
// as the log has it.
func (l *Log) Write(c *Commit) error {
	log := c.queued
	if log == nil {
		return l.Err()
	}
	c.queued = nil
	err := log.Write(&c.wal)
	if err != nil {
		l.incomplete.Store(&err) // before others can go on: Sync asks for it
		log.Settle(&c.wal)
	}
	return err
}

// Sync brings what was enqueued to stable storage, and returns a record of how far this log
// reaches then. It fails if something could not be written, or was removed: then the log is needed
// as it is.
func (l *Log) Sync() (reach []byte, err error) {
	if err := l.Err(); err != nil {
		return nil, err
	}
	log := l.wal.Load()
	if log == nil {
		return nil, nil
	}
	var behind Commit // all that are queued
	l.queue(&behind)
	if err = l.Write(&behind); err == nil {
		err = log.Sync()
	}
	var bounds wal.Reach
	if err == nil {
		if bounds, err = wal.BoundsOf(log); errors.Is(err, wal.ErrSegments) {
			l.incomplete.Store(&err)
		}
	}
	if err == nil {
		err = l.Err() // one that was queued before may have failed
	}
	if err != nil {
		return nil, errors.WithMessage(err, "sync out-of-order log")
	}
	return record.AppendLateReach(nil, &bounds), nil
}

// IsIncomplete reports whether something could not be written.
func (l *Log) IsIncomplete() bool { return l.incomplete.Load() != nil }

// Err says why, nil if nothing is missing.
func (l *Log) Err() error {
	why := l.incomplete.Load()
	if why == nil {
		return nil
	}
	return errors.WithMessage(*why, "out-of-order log lacks samples, and the log is kept for them until they are in blocks")
}

// Keep makes the log keep what is enqueued from now on, for Truncate.
func (l *Log) Keep() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.keeping, l.mu.kept = true, nil
}

// LetGo ends that without Truncate.
func (l *Log) LetGo() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.keeping, l.mu.kept = false, nil
}

// Truncate forgets the commits up to seq, whose late samples are in blocks on stable storage. All
// commits behind seq were enqueued behind Keep. barrier returns when all commits are enqueued that
// have asked for Segment. After an error it is as before, and what was kept stays so.
func (l *Log) Truncate(seq uint64, barrier func()) error {
	log := l.wal.Load()
	if log == nil {
		return nil
	}
	if l.IsIncomplete() {
		if err := log.Retry(); err != nil {
			return err
		}
	}
	segment, err := log.Rotate()
	if err != nil {
		return l.cfg.doing("begin a segment of the out-of-order log", err)
	}
	barrier() // of these the log says that they are in the segments that go
	if err := l.markFirst(); err != nil {
		return err
	}
	kept, err := l.repeat(seq)
	if err != nil {
		return err
	}
	if err := log.Sync(); err != nil {
		return l.cfg.doing("sync out-of-order log", err)
	}
	if err := wal.RemoveBefore(l.cfg.WAL.FS, l.cfg.WAL.Dir, segment); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.keeping = false
	if kept == len(l.mu.kept) { // nothing came meanwhile that could not be written
		l.incomplete.Store(nil)
	}
	l.mu.kept = nil
	return nil
}

// repeat writes the commits behind seq that were kept once more, and returns how many there are.
func (l *Log) repeat(seq uint64) (int, error) {
	l.mu.Lock()
	kept := l.mu.kept[:len(l.mu.kept):len(l.mu.kept)]
	l.mu.Unlock()
	for _, k := range kept {
		if k.seq > seq {
			k.wal.Reset()
			if err := l.writeNow(k.Commit); err != nil {
				return 0, err
			}
		}
	}
	return len(kept), nil
}

// Stats returns what is known of the files; it is zero where there are none.
func (l *Log) Stats() wal.Stats {
	if log := l.wal.Load(); log != nil {
		return log.Stats()
	}
	return wal.Stats{}
}

// Cut begins a new segment, with all before it on stable storage, and returns its number; 0: there
// is no log.
func (l *Log) Cut() (segment int, err error) {
	log := l.wal.Load()
	if log == nil {
		return 0, nil
	}
	if segment, err = log.Rotate(); err == nil {
		err = log.Sync()
	}
	return segment, errors.WithMessage(err, "begin a segment of the out-of-order log")
}

// Poison refuses all writes from now on.
func (l *Log) Poison(why error) {
	if log := l.wal.Load(); log != nil {
		_ = log.Poison(why) // it returns what it was given
	}
}

// Close syncs and closes the files. A log that could not be written is closed as it is: nothing
// depends on it.
func (l *Log) Close() error {
	log := l.wal.Load()
	if log == nil {
		return nil
	}
	err := log.Close()
	if errors.Is(err, wal.ErrPoisoned) || !l.IsIncomplete() && !fileutil.IsDiskFull(err) {
		return errors.WithMessage(err, "close out-of-order log")
	}
	return nil
}
