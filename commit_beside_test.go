package tsdb_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// ofTheLog reports whether an operation is one of the log itself, which commits share: it begins a
// segment, or writes and syncs one.
func ofTheLog(op tsdbtest.Op) bool {
	dir, name := filepath.Split(op.Name)
	segment := dir == fixtureDir+"/wal/" && strings.Trim(name, "0123456789") == ""
	switch op.Kind {
	case tsdbtest.OpCreate, tsdbtest.OpWrite, tsdbtest.OpSync, tsdbtest.OpClose:
		return segment
	case tsdbtest.OpSyncDir:
		return op.Name == fixtureDir+"/wal"
	}
	return false
}

// Nothing of a flush, a merge, a checkpoint, a chunk file or a snapshot of the head happens in a
// Commit, and none keeps a Commit waiting: while each operation of theirs on files is held up, a commit
// goes through that ends chunks and makes a series, and touches nothing but the log.
func TestCommit_GoesOnBesideEachOperationOfMaintenance(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) {
		manual(o)
		o.Blocks.MaxRange = 18 * time.Hour
		o.Head.SamplesPerChunk = 16
	})
	at := testNow.UnixMilli()/(6*hour)*(6*hour) - 12*hour
	f.scrapes(3, at, at+11*hour)
	at += 11 * hour

	var held, within int // operations that a commit went through beside, and those of such commits
	committing := false
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if committing {
			require.True(t, ofTheLog(op), "a commit did %v", op)
			within++
			return nil
		}
		if ofTheLog(op) {
			return nil
		}
		committing = true
		at += 100 // milliseconds: the future is not far enough for more
		f.commit(sample{`{i="0"}`, at, 1}, sample{`{new="` + op.Name + `"}`, at, 1})
		committing = false
		held++
		return nil
	})
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
		held, within = 0, 0
		require.NoError(t, step.do(), step.what)
		require.Greater(t, held, 3, step.what)
		require.GreaterOrEqual(t, within, held, step.what)
	}
	f.fs.SetHook(nil)
	require.Positive(t, f.db.Stats().Merges)
	require.Positive(t, f.db.Stats().Checkpoints)
	want := f.all()
	f.reopen()
	require.Equal(t, want, f.all())
}
