package tsdb_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// After a clean close everything is on stable storage and the log says so: damage in
// the middle costs the commit that it hit, and what is behind it stays.
func TestClose_DamageLaterCostsOneCommit(t *testing.T) {
	f := newFixture(t, nil)
	for i := range 50 {
		f.commit(sample{`{a="b"}`, int64(i), float64(i)})
	}
	require.NoError(t, f.db.Close())
	const name = fixtureDir + "/wal/00000000"
	data, err := f.fs.ReadFile(name)
	require.NoError(t, err)
	data[len(data)/2] ^= 0x10
	require.NoError(t, f.fs.WriteFile(name, data))
	f.open()
	require.Len(t, f.all()[`{a="b"}`], 49)
	rep := f.db.OpenReport()
	require.False(t, rep.Clean())
	require.False(t, rep.TornTail)
	require.Equal(t, 49, rep.Commits)
	require.Len(t, rep.Quarantined, 1)
}

func TestClose_WithoutCommitsWritesNothingButTheHeader(t *testing.T) {
	f := newFixture(t, nil)
	f.commit(sample{`{a="b"}`, 1, 1})
	f.reopen()
	before := f.db.OpenReport()
	f.reopen()
	require.Equal(t, before.LastSeq, f.db.OpenReport().LastSeq)
	require.Equal(t, 1, f.db.OpenReport().Commits)
}
