package replay_test

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/replay"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
)

// exemplarLog writes records as commits of one each, and reads them into a ring.
func exemplarLog(t require.TestingT, most int, recs ...[]byte) (*exemplars.Ring, *replay.Report) {
	to, report := replayLog(t, most, recs...)
	return to.Exemplars, report
}

// replayLog writes records as commits of one each, and reads them.
func replayLog(t require.TestingT, most int, recs ...[]byte) (replay.Target, *replay.Report) {
	fs := tsdbtest.NewMemFS()
	require.NoError(t, fs.MkdirAll("data"))
	log, err := wal.Open(wal.Options{FS: fs, Dir: walDir, NextRef: func() uint64 { return 100 }}, wal.Position{NextSeq: 1})
	require.NoError(t, err)
	for _, rec := range recs {
		var c wal.Commit
		c.End(append(c.Begin(), rec...))
		require.NoError(t, log.Enqueue(&c))
		require.NoError(t, log.Write(&c))
	}
	require.NoError(t, log.Close())
	files, err := chunks.OpenHead(fs, filepath.Join("data", "chunks_head"), chunks.HeadOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, files.Close()) }()
	to := replay.Target{
		Series: memseries.NewDirectory(memseries.Cutting{Range: 7_200_000, Samples: 120}),
		Chunks: files, Exemplars: exemplars.New(most),
	}
	report, err := replay.Run(context.Background(), to, replay.Options{
		FS: fs, WALDir: walDir, Reach: &logreach.Reach{}, Workers: 2, Progress: func(int64, int64) {},
	})
	require.NoError(t, err)
	return to, report
}

func seriesOf(ref uint64, n string) []byte {
	return record.AppendSeries(record.BeginSeries(nil), ref, labels.FromStrings("n", n))
}

// exemplarsOf makes a record of an exemplar at t for each ref.
func exemplarsOf(t int64, refs ...uint64) []byte {
	var enc record.ExemplarEncoder
	rec := enc.Begin(nil)
	for _, ref := range refs {
		rec = enc.Append(rec, ref, t, 1, labels.FromStrings("id", "x"))
	}
	return rec
}

func TestExemplars_ComeInTheOrderOfTheLog(t *testing.T) {
	ring, report := exemplarLog(t, 10,
		seriesOf(1, "one"), seriesOf(2, "two"),
		exemplarsOf(30, 2, 1), exemplarsOf(20, 1, 99), // of nobody
		seriesOf(7, "one"),                     // another name
		exemplarsOf(10, 7), exemplarsOf(30, 7), // a repeat
		exemplarsOf(40, 1)[:20], // damaged
		exemplarsOf(50, 2),
		record.AppendTombstones(nil, []record.Tombstone{{Ref: 2, Mint: math.MinInt64, Maxt: math.MaxInt64}}),
		exemplarsOf(60, 1),
	)
	var got [][2]int64
	for _, e := range ring.Before(math.MaxUint64) {
		got = append(got, [2]int64{int64(e.Ref), e.T})
		require.NotZero(t, e.Seq)
	}
	require.Equal(t, [][2]int64{{2, 30}, {1, 30}, {1, 20}, {1, 10}, {2, 50}, {1, 60}}, got)
	require.EqualValues(t, 1, report.ExemplarsUnknown)
	require.EqualValues(t, 7, report.Exemplars)
	require.Len(t, report.Damages, 1)
	require.Empty(t, report.Unread)
	found := ring.Select(0, 100, math.MaxUint64, []*labels.Matcher{labels.Equal("n", "one")})
	require.Len(t, found, 1)
	require.Len(t, found[0].Exemplars, 4)
}

func TestExemplars_NobodyWantsAreNotRead(t *testing.T) {
	ring, report := exemplarLog(t, 0, seriesOf(1, "one"), exemplarsOf(30, 1), exemplarsOf(40, 1)[:20])
	require.Empty(t, ring.Before(math.MaxUint64))
	require.Zero(t, report.Exemplars)
	require.Empty(t, report.Damages)
}
