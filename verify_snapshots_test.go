package tsdb_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// snapshotName is that of the snapshot which snapshotFixture has when it took one.
const snapshotName = "head_snapshot.00000001"

// A good snapshot of the head is read and counted; what is wrong with one is a warning, as the log
// has it all, and the next Open removes it.
func TestVerify_SnapshotsOfTheHead(t *testing.T) {
	f := snapshotFixture(t)
	require.NoError(t, f.db.Close())
	without := verify(t, f.fs)
	require.Empty(t, without.Findings)
	f.open()
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	require.NoError(t, f.db.Close())
	f.db = nil
	disk := f.fs
	var name string
	for _, file := range disk.Files() {
		if i := strings.Index(file, "head_snapshot."); i >= 0 {
			name = strings.Split(file[i:], "/")[0]
		}
	}
	require.NotEmpty(t, name)
	with := verify(t, disk)
	require.Empty(t, with.Findings)
	require.True(t, with.Clean())
	records, err := disk.ReadFile(fixtureDir + "/" + name + "/00000000")
	require.NoError(t, err)
	require.Greater(t, with.Bytes-without.Bytes, int64(len(records))/2)

	for what, c := range map[string]struct {
		change func(fs *tsdbtest.MemFS) error
		file   string
		reason string
	}{
		"records":          {flipped(name+"/00000000", 200), name, name + "/00000000"},
		"sidecar":          {flipped(name+"/sidecar", 9), name, "checksum"},
		"no sidecar":       {taken(name + "/sidecar"), name, "no sidecar"},
		"no records":       {taken(name + "/00000000"), name, "missing"},
		"longer":           {written(name+"/00000000", string(records)+"x"), name, "length"},
		"an empty one":     {func(fs *tsdbtest.MemFS) error { return fs.MkdirAll(fixtureDir + "/head_snapshot.00000009") }, "head_snapshot.00000009", "no sidecar"},
		"of another place": {moved(name, "head_snapshot.00000099"), "head_snapshot.00000099", "its name is that of another one"},
	} {
		t.Run(what, func(t *testing.T) {
			broken := disk.KillClone()
			require.NoError(t, c.change(broken))
			r := verify(t, broken)
			require.True(t, r.Clean(), "%+v", r.Findings)
			require.Len(t, r.Findings, 1)
			found := r.Findings[0]
			require.Equal(t, tsdb.SeverityWarning, found.Severity)
			require.Equal(t, c.file, found.File)
			require.Contains(t, found.What, "snapshot of the head")
			require.Contains(t, found.What, c.reason)
			require.NotEmpty(t, found.Meaning)
			require.Contains(t, found.Advice, "Open removes it")
			o := *f.opts
			o.FS = broken
			log := &logRecords{}
			o.Logger = slog.New(log)
			db, err := tsdb.Open(fixtureDir, &o)
			require.NoError(t, err)
			bad := what != "an empty one"
			report := db.OpenReport()
			require.Equal(t, bad, report.Snapshot == "", "one that is no good is no hindrance to another")
			require.Len(t, report.SnapshotsIgnored, 1)
			require.Contains(t, report.SnapshotsIgnored[0], c.file)
			require.Len(t, log.of("snapshot of the head cannot be used"), 1, "Open was told to look")
			require.NoError(t, tsdb.TakeHeadSnapshot(db))
			require.NoError(t, db.Close())
			require.Empty(t, verify(t, broken).Findings, "it did")
		})
	}
}

// Beside a process that has the directory open a snapshot may go while it is read, sidecar first.
// One that is there is wrong if it is wrong: a process that was killed leaves the lock file, too.
func TestVerify_SnapshotsOfTheHeadThatAreInUse(t *testing.T) {
	f := snapshotFixture(t)
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	require.NoError(t, flipped(snapshotName+"/00000000", 200)(f.fs))
	r := verify(t, f.fs)
	require.True(t, r.InUse)
	require.Len(t, r.Findings, 1)
	require.Equal(t, snapshotName, r.Findings[0].File)
	require.Equal(t, tsdb.SeverityWarning, r.Findings[0].Severity)
	going := f.fs.KillClone()
	require.NoError(t, written("lock", "")(going))
	require.NoError(t, taken(snapshotName+"/sidecar")(going))
	r = verify(t, going)
	require.Len(t, r.Findings, 1)
	require.Equal(t, tsdb.SeverityNote, r.Findings[0].Severity, "somebody is removing it")
	done, cancel := context.WithCancel(ctx)
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpOpen && strings.Contains(op.Name, snapshotName) {
			cancel()
		}
		return nil
	})
	_, err := tsdb.Verify(done, fixtureDir, &tsdb.VerifyOptions{FS: f.fs, Clock: f.clock})
	f.fs.SetHook(nil)
	require.ErrorIs(t, err, context.Canceled)
}
