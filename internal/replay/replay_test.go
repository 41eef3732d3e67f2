package replay_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/replay"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
)

const (
	series  = 3
	samples = 500 // of each series, one a second
)

var walDir = filepath.Join("data", "wal")

// newLog writes a log of series 1 to 3, one sample of each a commit, and an exemplar.
func newLog(t *testing.T) *tsdbtest.MemFS {
	t.Helper()
	fs := tsdbtest.NewMemFS()
	require.NoError(t, fs.MkdirAll("data"))
	log, err := wal.Open(wal.Options{FS: fs, Dir: walDir, NextRef: func() uint64 { return series + 1 }}, wal.Position{NextSeq: 1})
	require.NoError(t, err)
	var c wal.Commit
	write := func(recs ...func([]byte) []byte) {
		c.Reset()
		for _, rec := range recs {
			c.End(rec(c.Begin()))
		}
		require.NoError(t, log.Enqueue(&c))
		require.NoError(t, log.Write(&c))
	}
	for ref := uint64(1); ref <= series; ref++ {
		ls := labels.FromStrings("n", fmt.Sprint(ref))
		write(func(dst []byte) []byte { return record.AppendSeries(record.BeginSeries(dst), ref, ls) })
	}
	for i := range int64(samples) {
		var some []record.Sample
		for ref := uint64(1); ref <= series; ref++ {
			some = append(some, record.Sample{Ref: ref, T: i * 1000, V: float64(ref) * float64(i)})
		}
		write(func(dst []byte) []byte { return record.AppendSamples(dst, some) })
	}
	write(func(dst []byte) []byte { return append(dst, byte(record.TypeExemplars), 1) })
	require.NoError(t, log.Close())
	return fs
}

// store writes into head-chunk files.
type store struct{ files *chunks.HeadFiles }

func (s store) StoreFull(fulls []memseries.Full) ([]chunks.Ref, error) {
	var batch []chunks.Full
	for _, f := range fulls {
		batch = append(batch, chunks.Full{Series: chunks.SeriesRef(f.Series.Ref()), MinT: f.MinT, MaxT: f.MaxT, Encoding: chunkenc.EncXOR, Data: f.Data})
	}
	return s.files.Write(batch)
}

// run recovers what newLog wrote.
func run(t *testing.T, fs *tsdbtest.MemFS, minValid int64) (replay.Target, *replay.Report) {
	t.Helper()
	files, err := chunks.OpenHead(fs, filepath.Join("data", "chunks_head"), chunks.HeadOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, files.Close()) })
	to := replay.Target{
		Series:   memseries.NewDirectory(memseries.Cutting{Range: 7_200_000, Samples: 120}),
		MinValid: minValid, Chunks: files, Store: store{files},
	}
	done := int64(-1)
	report, err := replay.Run(context.Background(), to, replay.Options{
		FS: fs, WALDir: walDir, Reach: &logreach.Reach{}, Workers: 2,
		Progress: func(n, _ int64) { require.Greater(t, n, done); done = n },
	})
	require.NoError(t, err)
	require.Positive(t, done)
	return to, report
}

func TestRun_FillsTheTargetAndReportsWhatItRead(t *testing.T) {
	to, report := run(t, newLog(t), 100_000)
	require.Equal(t, series, to.Series.Len())
	for s := range to.Series.All() {
		require.EqualValues(t, 100_000, s.Mint())
		require.EqualValues(t, (samples-1)*1000, s.Maxt())
		require.Equal(t, math.Float64bits(float64(s.Ref())*(samples-1)), s.PendingSum())
	}
	require.EqualValues(t, series*(samples-100), report.Samples)
	require.EqualValues(t, series*100, report.SamplesInBlocks)
	require.EqualValues(t, series+samples+1, report.Log.LastSeq)
	require.Empty(t, report.Unread.Names())
	require.Zero(t, report.Held.Total())
	require.Empty(t, report.Damages)
	require.Empty(t, report.Gone)
	require.NoError(t, report.StoreErr)
	require.False(t, report.LogLost)
}

func TestSearch_MakesChunksAnewOfWhatTheLogHas(t *testing.T) {
	fs := newLog(t)
	to, _ := run(t, fs, 0)
	var s *memseries.Series
	for s = range to.Series.All() {
		break
	}
	at := func(mint, maxt int64) memseries.Located {
		return memseries.Located{Series: s, Mapped: memseries.Mapped{MinT: mint, MaxT: maxt, Num: uint16((maxt-mint)/1000 + 1)}}
	}
	made, whole, err := replay.Search(context.Background(), fs, walDir, to.Series, []memseries.Located{at(0, 119_000), at(500_000, 519_000)})
	require.NoError(t, err)
	require.True(t, whole)
	require.Len(t, made, 2)
	require.Equal(t, 120, made[0].Samples)
	require.EqualValues(t, 119_000, made[0].MaxT)
	c, err := chunkenc.FromData(made[0].Enc, made[0].Data)
	require.NoError(t, err)
	require.Equal(t, 120, c.NumSamples())
	require.Equal(t, replay.Remade{}, made[1], "the log has nothing of it")
}
