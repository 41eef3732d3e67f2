package main

import (
	"context"
	"log/slog"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/faultfs"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// A disk that was full for a while leaves a gap, and nothing else.
func TestDemo_GoesOnAfterAFullDisk(t *testing.T) {
	disk := faultfs.New(fileutil.OS)
	db, err := tsdb.Open(filepath.Join(t.TempDir(), "data"), &tsdb.Options{FS: disk})
	require.NoError(t, err)
	c := &config{interval: 10 * time.Millisecond}
	var log logBuffer
	recorded := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { recorded <- c.record(ctx, db, slog.New(slog.NewTextHandler(&log, nil)), make(chan error)) }()
	commits := func() uint64 { return db.Stats().Commits }
	wait := func(done func() bool) { require.Eventually(t, done, 2*time.Minute, 5*time.Millisecond, "%s", &log) }
	wait(func() bool { return commits() > 1 })

	disk.Inject(faultfs.Fault{Kinds: []tsdbtest.OpKind{tsdbtest.OpWrite}, Sticky: true, Err: syscall.ENOSPC})
	wait(func() bool { return db.Stats().CommitsFailed > 1 })
	before := commits()
	disk.Lift()
	wait(func() bool { return commits() > before+1 })
	require.Equal(t, 1, strings.Count(log.String(), "the demo cannot record"), "%s", &log)
	require.Contains(t, log.String(), "no space left")
	require.Equal(t, 1, strings.Count(log.String(), "the demo records again"))

	require.NoError(t, db.Close())
	require.ErrorIs(t, <-recorded, tsdb.ErrClosed)
}
