package tsdb_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
)

// A series whose record the log has lost is in a snapshot of the head with all that it has,
// although its next commit has yet to log it anew.
func TestHeadSnapshot_HasSeriesWhoseRecordTheLogHasLost(t *testing.T) {
	f := newFixture(t, manual)
	f.commit(sample{`{a="b"}`, 10, 1})
	require.NoError(t, f.db.Snapshot(ctx, "/copy")) // the log goes on in another segment
	name := fixtureDir + "/wal/00000000"
	data, err := f.fs.ReadFile(name)
	require.NoError(t, err)
	at := strings.Index(string(data), "\x01a\x01b")
	require.Positive(t, at)
	data[at+3] ^= 1
	require.NoError(t, f.fs.WriteFile(name, data))
	require.NoError(t, tsdb.Checkpoint(f.db), "which finds it, and sets a copy aside")
	require.NoError(t, tsdb.TakeHeadSnapshot(f.db))
	f.kill()
	require.NotEmpty(t, f.db.OpenReport().Snapshot)
	require.Equal(t, points(10, 1), f.all()[`{a="b"}`])
	f.commit(sample{`{a="b"}`, 20, 2})
	f.kill()
	require.Equal(t, points(10, 1, 20, 2), f.all()[`{a="b"}`])
}
