package tsdb_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/tsdbtest"
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

// What Close interrupts says so, and not that a context was cancelled that nobody
// cancelled.
func TestClose_EndsLongCalls(t *testing.T) {
	f := newFixture(t, manual)
	f.scrapes(3, testNow.UnixMilli()-5*hour, testNow.UnixMilli())
	closed := make(chan error, 1)
	f.fs.SetHook(func(op tsdbtest.Op) error {
		if op.Kind == tsdbtest.OpCreate && strings.HasSuffix(op.Name, "/index") && len(closed) == 0 {
			go func(db *tsdb.DB) { closed <- db.Close() }(f.db)
			<-tsdb.Ended(f.db)
		}
		return nil
	})
	require.ErrorIs(t, f.db.Flush(ctx), tsdb.ErrClosed)
	require.NoError(t, <-closed)
	f.fs.SetHook(nil)
	f.open()
	require.Len(t, f.all(), 3)
}
