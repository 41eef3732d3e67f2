package tsdb_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// ofTheLog reports whether an operation is one of the log itself, which commits share: it begins a
// segment, or writes and syncs one.
func ofTheLog(op tsdbtest.Op) bool {
	dir, name := filepath.Split(op.Name)
	segment := dir == fixtureDir+"/wal/" && strings.Trim(name, "0123456789") == "" || op.Name == fixtureDir+"/log_reach"
	switch op.Kind {
	case tsdbtest.OpCreate, tsdbtest.OpWrite, tsdbtest.OpSync, tsdbtest.OpClose:
		return segment
	case tsdbtest.OpSyncDir:
		return op.Name == fixtureDir+"/wal"
	}
	return false
}

// besideMaintenance commits while operations of maintenance on files are held up.
type besideMaintenance struct {
	f          *fixture
	at         int64 // milliseconds, of the newest commit
	committing bool
	held       int   // operations that a commit went through beside
	err        error // the first thing that was wrong
}

// hook holds an operation up until a commit beside it is over. Maintenance does one operation at a
// time here, so there is one commit at most, and what comes while there is one is the commit's.
func (b *besideMaintenance) hook(op tsdbtest.Op) error {
	switch {
	case ofTheLog(op):
	case b.committing:
		b.note(fmt.Errorf("a commit did %v", op))
	default:
		b.commit(op)
	}
	return b.err
}

func (b *besideMaintenance) note(err error) {
	if b.err == nil {
		b.err = err
	}
}

func (b *besideMaintenance) commit(op tsdbtest.Op) {
	b.committing = true
	b.at += 100 // milliseconds: the future is not far enough for more
	done := make(chan error, 1)
	old, fresh := labels.FromStrings("i", "0"), labels.FromStrings("new", op.Name)
	go func() {
		app := b.f.db.Appender()
		_, err := app.Append(0, old, b.at, 1)
		if err == nil {
			_, err = app.Append(0, fresh, b.at, 1)
		}
		if err == nil {
			_, err = app.Commit(ctx)
		}
		done <- err
	}()
	select {
	case err := <-done:
		b.committing = false
		b.held++
		if err != nil {
			b.note(fmt.Errorf("a commit beside %v: %w", op, err))
		}
	case <-time.After(patience):
		b.note(fmt.Errorf("a commit waits for %v", op))
	}
}

// Nothing of a flush, a merge, a checkpoint, a chunk file or a snapshot of the head happens in a
// Commit, and none keeps a Commit waiting: while each operation of theirs on files is held up, but
// those on the log itself, a commit goes through that makes a series, and ends a chunk now and
// then, and touches nothing but the log.
func TestCommit_GoesOnBesideEachOperationOfMaintenance(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Blocks.MaxRange = 18 * time.Hour
		o.Head.SamplesPerChunk = 16
	})
	at := testNow.UnixMilli()/(6*hour)*(6*hour) - 12*hour
	f.scrapes(3, at, at+11*hour)

	b := &besideMaintenance{f: f, at: at + 11*hour}
	f.fs.SetHook(b.hook)
	defer f.fs.SetHook(nil)
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"full chunks come into a file", func() error { return tsdb.WriteHeadChunks(f.db) }},
		{"a snapshot of the head", func() error { return tsdb.TakeHeadSnapshot(f.db) }},
		{"flushes, a checkpoint and merges", func() error { return f.db.Compact(ctx) }},
		{"a flush of everything", func() error { return f.db.Flush(ctx) }},
	} {
		b.held = 0
		err := step.do()
		require.NoError(t, b.err, step.what)
		require.NoError(t, err, step.what)
		require.Greater(t, b.held, 3, step.what)
	}
	f.fs.SetHook(nil)
	require.Positive(t, f.db.Stats().Merges)
	require.Positive(t, f.db.Stats().Checkpoints)
	require.Positive(t, f.db.Stats().FullBytes, "chunks were ended meanwhile")
	want := f.all()
	f.reopen()
	require.Equal(t, want, f.all())
}
