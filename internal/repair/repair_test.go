package repair

import (
	"context"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const block = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

func run(ctx context.Context, disk *tsdbtest.MemFS) (Report, error) {
	return Run(ctx, Options{FS: disk, Dir: "data", Clock: tsdbtest.NewClock(time.UnixMilli(0))})
}

// What cannot be read at all stays in quarantine, and what vanished is forgotten once.
func TestRun_SetsAsideAndForgets(t *testing.T) {
	ctx, disk := context.Background(), tsdbtest.NewMemFS()
	gone := ulid.ULID{15: 1}
	require.NoError(t, disk.WriteFile("data/"+block+"/meta.json", []byte("{")))
	require.NoError(t, blocklist.Write(disk, "data", []blocklist.Block{{ULID: gone}}))
	for try := range 2 {
		report, err := run(ctx, disk)
		require.NoError(t, err)
		require.Empty(t, report.Errs)
		require.Len(t, report.Blocks, 1)
		b := report.Blocks[0]
		require.Equal(t, "quarantine/"+block, b.Original)
		require.Nil(t, b.Saved)
		require.Error(t, b.Err)
		require.NotEmpty(t, b.Damages)
		if try == 0 {
			require.Equal(t, []string{gone.String()}, report.Forgotten)
		} else {
			require.Empty(t, report.Forgotten)
		}
	}
}

func TestRun_RefusesWhatNobodyCanRead(t *testing.T) {
	disk := tsdbtest.NewMemFS()
	require.NoError(t, disk.WriteFile("data/"+block+"/meta.json", []byte(`{"ulid":"`+block+`","version":99}`)))
	_, err := run(context.Background(), disk)
	require.ErrorIs(t, err, datadir.ErrUnsupported)
	require.ErrorIs(t, err, blockdir.ErrUnsupportedVersion)
}

func TestRun_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	disk := tsdbtest.NewMemFS()
	require.NoError(t, disk.MkdirAll("data/wal"))
	_, err := run(ctx, disk)
	require.ErrorIs(t, err, context.Canceled)
}

// A saved block that is not whole must not tell where the head begins, unless good blocks reach as
// far.
func TestOrigin_AHintIfItMayLackSamplesOfTheHead(t *testing.T) {
	for _, c := range []struct {
		maxTime int64
		whole   bool
		hint    bool
	}{{200, false, true}, {200, true, false}, {100, false, false}} {
		r := &repairer{start: 100}
		m := blockdir.Meta{MaxTime: c.maxTime}
		m.Compaction.Parents = []blockdir.Parent{{ULID: ulid.ULID{15: 3}}}
		r.origin(&m, ulid.ULID{15: 2}, c.whole)
		require.Nil(t, m.Compaction.Parents)
		require.Equal(t, []ulid.ULID{{15: 2}}, m.Compaction.Sources)
		require.Equal(t, c.hint, m.HasHint(blockdir.HintFromOutOfOrder), "%+v", c)
	}
}
