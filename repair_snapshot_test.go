package tsdb_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// A part of the log that recovery does not read, as a snapshot of the head has what is in there, is
// mended by Repair, too, and nothing is lost.
func TestRepair_DamageInTheLogBehindASnapshotOfTheHead(t *testing.T) {
	f := snapshotFixture(t)
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	f.commit(sample{`{a="b"}`, 100_000, 1})
	want := f.all()
	require.NoError(t, f.db.Close())
	f.db = nil
	require.NoError(t, flipped("wal/00000000", 700)(f.fs))
	damaged, err := f.fs.ReadFile(fixtureDir + "/wal/00000000")
	require.NoError(t, err)
	require.False(t, verify(t, f.fs).Clean())

	_, err = tsdb.Repair(ctx, fixtureDir, &tsdb.RepairOptions{Options: f.opts})
	require.NoError(t, err)
	r := verify(t, f.fs)
	require.True(t, r.Clean(), "%+v", r.Findings)
	kept := false
	for _, name := range namesUnder(f.fs, "quarantine/") {
		data, err := f.fs.ReadFile(fixtureDir + "/" + name)
		require.NoError(t, err)
		kept = kept || string(data) == string(damaged)
	}
	require.True(t, kept, "the original is in quarantine")
	for _, threshold := range []int64{math.MaxInt64, -1} {
		o := *f.opts
		o.FS, o.Head.SnapshotThreshold = f.fs.KillClone(), threshold
		db, err := tsdb.Open(fixtureDir, &o)
		require.NoError(t, err)
		report := db.OpenReport()
		require.True(t, report.Clean(), "%+v", report)
		require.Equal(t, want, dump(t, db, math.MinInt64, math.MaxInt64))
		require.NoError(t, db.Close())
	}
}
