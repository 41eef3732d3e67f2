package replay_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/late"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/replay"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
)

var wblDir = filepath.Join("data", "wbl")

// lateRecord is the record of late samples in one of the logs.
type lateRecord func(dst []byte) []byte

// lateSamples returns a record of one late sample at each time, without its last bytes.
func lateSamples(without int, times ...int64) lateRecord {
	return func(dst []byte) []byte {
		var some []record.Sample
		for _, at := range times {
			some = append(some, record.Sample{Ref: 1, T: at, V: float64(at)})
		}
		dst = record.AppendSamples(dst, some)
		return dst[:len(dst)-without]
	}
}

// writeLog writes commits of some records each.
func writeLog(t *testing.T, fs *tsdbtest.MemFS, dir string, commits ...[]lateRecord) {
	t.Helper()
	log, err := wal.Open(wal.Options{FS: fs, Dir: dir, NextRef: func() uint64 { return 2 }}, wal.Position{NextSeq: 1})
	require.NoError(t, err)
	for _, recs := range commits {
		var c wal.Commit
		for _, rec := range recs {
			c.End(rec(c.Begin()))
		}
		require.NoError(t, log.Enqueue(&c))
		require.NoError(t, log.Write(&c))
	}
	require.NoError(t, log.Close())
}

// runLate recovers late samples of a log and an out-of-order log.
func runLate(t *testing.T, fs *tsdbtest.MemFS) (*late.Store, *replay.Report) {
	t.Helper()
	files, err := chunks.OpenHead(fs, filepath.Join("data", "chunks_head"), chunks.HeadOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, files.Close()) })
	st := late.NewStore(late.Cutting{Range: 7_200_000, Samples: 120})
	to := replay.Target{
		Series: memseries.NewDirectory(memseries.Cutting{Range: 7_200_000, Samples: 120}),
		Chunks: files, Store: store{files}, Late: st.Restorer(),
	}
	report, err := replay.Run(context.Background(), to, replay.Options{
		FS: fs, WALDir: walDir, LateDir: wblDir, Reach: &logreach.Reach{}, Workers: 2, Progress: func(int64, int64) {},
	})
	require.NoError(t, err)
	return st, report
}

// lateLogs has a series, a commit of late samples at 1 to 3 in the log, as a record says it, and
// one at 4 and 5 that both logs have.
func lateLogs(t *testing.T, first lateRecord) *tsdbtest.MemFS {
	t.Helper()
	fs := tsdbtest.NewMemFS()
	require.NoError(t, fs.MkdirAll("data"))
	series := func(dst []byte) []byte {
		return record.AppendSeries(record.BeginSeries(dst), 1, labels.FromStrings("n", "1"))
	}
	inLog := func(samples lateRecord) lateRecord {
		return func(dst []byte) []byte { return append(record.AppendLate(dst, 0), samples(nil)...) }
	}
	second := lateSamples(0, 4, 5)
	writeLog(t, fs, walDir, []lateRecord{series}, []lateRecord{inLog(first)}, []lateRecord{inLog(second)})
	of := func(seq uint64) lateRecord {
		return func(dst []byte) []byte { return record.AppendLateCommit(dst, seq) }
	}
	writeLog(t, fs, wblDir, []lateRecord{of(2), lateSamples(0, 1, 2, 3)}, []lateRecord{of(3), second})
	return fs
}

func TestLate_WhatBothLogsHaveIsTakenOnce(t *testing.T) {
	st, report := runLate(t, lateLogs(t, lateSamples(0, 1, 2, 3)))
	_, n := st.Len()
	require.EqualValues(t, 5, n)
	require.EqualValues(t, 5, report.Late.Samples)
	require.False(t, report.Late.Incomplete)
}

func TestLate_TakesFromTheOutOfOrderLogWhatTheLogCannotTell(t *testing.T) {
	st, report := runLate(t, lateLogs(t, lateSamples(9, 1, 2, 3)))
	_, n := st.Len()
	require.EqualValues(t, 5, n, "%+v", report.Late)
	require.Len(t, report.Damages, 1)
}
