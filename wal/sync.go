package wal

import (
	"path/filepath"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Sync brings everything that was written before the call to stable storage and
// moves the watermark. Concurrent calls share a sync; commits go on meanwhile. A
// failed sync is ErrPoisoned, now and from then on, and is not tried again: the
// system may have dropped the bytes it could not write.
func (l *Log) Sync() error {
	if err := l.poison(nil); err != nil {
		return err
	}
	err := l.sync(l.written.Load())
	if err == nil {
		l.Note()
	}
	return err
}

// SyncTo is Sync for the commits up to seq, which must have been written; it does
// nothing when the watermark is there already.
func (l *Log) SyncTo(seq uint64) error {
	err := l.sync(min(seq, l.written.Load()))
	if err == nil {
		l.Note()
	}
	return err
}

// sync makes the commits up to seq durable.
func (l *Log) sync(seq uint64) error {
	if l.synced.Load() >= seq {
		return nil
	}
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	if l.synced.Load() >= seq { // somebody else's sync covered it
		return nil
	}
	if err := l.poison(nil); err != nil {
		return err
	}
	written := l.written.Load()
	for len(l.older) > 0 {
		f := l.older[0]
		if err := l.syncFile(f); err != nil {
			return err
		}
		l.older = l.older[1:]
		if err := f.Close(); err != nil {
			return l.poison(errors.WithMessagef(err, "close log segment %s", filepath.Base(f.Name())))
		}
	}
	if err := l.syncFile(l.file); err != nil {
		return err
	}
	l.synced.Store(written)
	return nil
}

func (l *Log) syncFile(f fileutil.File) error {
	start := time.Now()
	if err := f.Sync(); err != nil {
		return l.poison(errors.WithMessagef(err, "sync log segment %s", filepath.Base(f.Name())))
	}
	l.stats.sync(time.Since(start))
	return nil
}

// syncDir makes the names in a directory durable. A sync that fails poisons the log; one that could
// not be tried does not.
func (l *Log) syncDir(dir string) error {
	err := l.opts.FS.SyncDir(dir)
	if err == nil {
		return nil
	}
	err = dirNotSynced(errors.WithMessagef(err, "sync directory %s", dir))
	if errors.Is(err, ErrPoisoned) {
		return l.poison(err)
	}
	return err
}

// Poison makes the log read-only because a sync or close of something that belongs to it
// failed, such as a file made from it, and returns the ErrPoisoned that it now gives.
func (l *Log) Poison(cause error) error { return l.poison(cause) }

// poison makes the log read-only because of cause, unless it is already, and returns
// the error that says so. A nil cause only asks.
func (l *Log) poison(cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.poisoned == nil && cause != nil {
		l.mu.poisoned = Poisoned(cause)
	}
	return l.mu.poisoned
}
