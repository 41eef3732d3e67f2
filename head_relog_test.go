package tsdb_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/labels"
)

// loseSeriesRecord damages the record of the only series of a fixture in the log, and has a
// checkpoint find it.
func (f *fixture) loseSeriesRecord(record string) {
	f.t.Helper()
	require.NoError(f.t, f.db.Snapshot(ctx, "/copy")) // the log goes on in another segment
	name := fixtureDir + "/wal/00000000"
	data, err := f.fs.ReadFile(name)
	require.NoError(f.t, err)
	at := strings.Index(string(data), record)
	require.Positive(f.t, at)
	data[at+3] ^= 1
	require.NoError(f.t, f.fs.WriteFile(name, data))
	require.NoError(f.t, tsdb.Checkpoint(f.db), "which finds it, and sets a copy aside")
}

// A series whose record the log has lost is in a snapshot of the head with all that it has,
// although its next commit has yet to log it anew.
func TestHeadSnapshot_HasSeriesWhoseRecordTheLogHasLost(t *testing.T) {
	f := newFixture(t, manual)
	f.commit(sample{`{a="b"}`, 10, 1})
	f.loseSeriesRecord("\x01a\x01b")
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	f.kill()
	require.NotEmpty(t, f.db.OpenReport().Snapshot)
	require.Equal(t, points(10, 1), f.all()[`{a="b"}`])
	f.commit(sample{`{a="b"}`, 20, 2})
	f.kill()
	require.Equal(t, points(10, 1, 20, 2), f.all()[`{a="b"}`])
}

// What a checkpoint has of a series whose record the log has lost stands before the record that the
// next commit of the series logs.
func TestReplay_HasWhatACheckpointHasOfASeriesThatIsLoggedAnew(t *testing.T) {
	f := newFixture(t, manual)
	f.commit(sample{`{a="b"}`, 10, 1})
	f.describe(`{a="b"}`, requests)
	f.commitExemplars(`{a="b"}`, exemplarOf("x", 10, 1), exemplarOf("y", 20, 1))
	f.commitExemplars(`{a="c"}`, exemplarOf("z", 30, 1))
	f.commit(sample{`{a="c"}`, 10, 1})
	f.loseSeriesRecord("\x01a\x01b")
	require.NoError(t, f.db.Delete(ctx, 10, 10, labels.Equal("a", "c"))) // replay looks for series up to it first
	f.commit(sample{`{a="b"}`, 20, 2})
	want := f.exemplars(0, 100)
	require.Len(t, want, 3)
	for range 2 { // and so does the next log
		f.kill()
		rep := f.db.OpenReport()
		require.Zero(t, rep.MetadataUnknown)
		require.Zero(t, rep.ExemplarsUnknown)
		require.Equal(t, map[string]tsdb.Metadata{`{a="b"}`: requests}, metadataOf(t, f.db))
		require.Equal(t, want, f.exemplars(0, 100))
		require.NoError(t, tsdb.Checkpoint(f.db))
	}
	v, err := tsdb.Verify(ctx, fixtureDir, &tsdb.VerifyOptions{FS: f.fs})
	require.NoError(t, err)
	for _, found := range v.Findings {
		require.NotContains(t, found.What, "metadata")
		require.NotContains(t, found.What, "exemplars")
	}
}
