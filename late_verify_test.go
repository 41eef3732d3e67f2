package tsdb_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// verifyLate returns what Verify says of a closed fixture.
func verifyLate(t *testing.T, f *fixture) *tsdb.VerifyReport {
	t.Helper()
	r, err := tsdb.Verify(ctx, fixtureDir, &tsdb.VerifyOptions{FS: f.fs, Clock: f.clock})
	require.NoError(t, err)
	return r
}

// findingsIn returns those about files of a directory.
func findingsIn(r *tsdb.VerifyReport, dir string) (in []tsdb.Finding) {
	for _, f := range r.Findings {
		if strings.HasPrefix(f.File, dir) {
			in = append(in, f)
		}
	}
	return in
}

func closeFixture(t *testing.T, f *fixture) {
	t.Helper()
	require.NoError(t, f.db.Close())
	f.db = nil
}

// appendToLate writes records into a new segment of the out-of-order log, as another engine would.
func appendToLate(t *testing.T, f *fixture, records ...[]byte) {
	t.Helper()
	list, err := wal.List(f.fs, "data/wbl")
	require.NoError(t, err)
	segment := list.Segments[len(list.Segments)-1].Number + 1
	log, err := wal.Open(wal.Options{FS: f.fs, Dir: "data/wbl", Sync: wal.SyncCommit()}, wal.Position{Segment: segment, NextSeq: 1000})
	require.NoError(t, err)
	var c wal.Commit
	for _, rec := range records {
		c.End(append(c.Begin(), rec...))
	}
	require.NoError(t, log.Enqueue(&c))
	require.NoError(t, log.Write(&c))
	require.NoError(t, log.Close())
}

func TestVerify_ReadsTheOutOfOrderLog(t *testing.T) {
	f, base := lateFixture(t)
	require.NoError(t, f.db.Delete(ctx, base-6*minute, base-5*minute))
	beside := verifyLate(t, f)
	require.True(t, beside.Clean(), "%+v", beside.Findings)
	closeFixture(t, f)
	r := verifyLate(t, f)
	require.True(t, r.Clean(), "%+v", r.Findings)
	require.Empty(t, findingsIn(r, "wal"))
	require.Empty(t, findingsIn(r, "wbl"))
	require.EqualValues(t, 2, r.LateSamples)
	require.Positive(t, r.LateSegments)

	// What another engine has put into it is read, and what has no place in it is told.
	samples := record.AppendSamples(nil, []record.Sample{{Ref: 1, T: base - minute, V: 1}, {Ref: 77, T: base, V: 1}})
	appendToLate(t, f, samples, []byte{99, 1}, []byte{0x91}, []byte{5, 1, 2})
	require.NoError(t, f.fs.MkdirAll("data/wbl/checkpoint.00000002"))
	r = verifyLate(t, f)
	require.False(t, r.Clean())
	require.EqualValues(t, 4, r.LateSamples)
	var said []string
	for _, found := range findingsIn(r, "wbl") {
		said = append(said, found.Severity.String()+" "+found.What)
	}
	all := strings.Join(said, "\n")
	require.Contains(t, all, "damage 1 samples of 1 series have no series record")
	require.Contains(t, all, "damage ") // the record without a number
	require.Contains(t, all, "commit of late samples without a number")
	require.Contains(t, all, "warning it does not belong here")
	require.Contains(t, all, "note 1 records of ")
}

func TestVerify_OfADamagedOutOfOrderLog_TellsThePlace(t *testing.T) {
	f, _ := lateFixture(t)
	f.commit(sample{`{a="b"}`, testNow.UnixMilli() - 9*minute, 1})
	closeFixture(t, f)
	name := lastOf(t, f.fs, "data/wbl")
	data, err := f.fs.ReadFile(name)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, f.fs.WriteFile(name, data))
	r := verifyLate(t, f)
	found := findingsIn(r, "wbl")
	require.NotEmpty(t, found)
	require.Equal(t, name, "data/"+found[0].File)
	require.Positive(t, found[0].Offset)
}

// The out-of-order log may have samples of a series that is gone, as all of them were deleted.
func TestOpen_LateSamplesOfASeriesThatWasDeleted_AreNotMissed(t *testing.T) {
	f := newFixture(t, withWindow)
	f.commit(sample{`{a="b"}`, 0, 1})
	f.commit(sample{`{a="b"}`, 4 * hour, 1}, sample{`{a="c"}`, 4 * hour, 1})
	f.commit(sample{`{a="late"}`, 4*hour - 50*minute, 2})
	q, err := f.db.Querier(0, 5*hour)
	require.NoError(t, err)
	require.NoError(t, f.db.Delete(ctx, 0, 5*hour, labels.Equal("a", "late")))
	require.NoError(t, q.Close())
	require.NoError(t, f.db.Close())
	f.open()
	require.NoError(t, f.db.Compact(ctx))
	require.NoError(t, f.db.Compact(ctx))
	f.reopen()
	r := f.db.OpenReport()
	require.True(t, r.Clean(), "%+v", r)
	closeFixture(t, f)
	found := verifyLate(t, f)
	require.True(t, found.Clean(), "%+v", found.Findings)
	f.open()
}
