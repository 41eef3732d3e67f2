package tsdb_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/record"
)

// A log of another engine with samples of kinds that this version does not read.

// unreadLog has a float series and records of these types.
func unreadLog(t *testing.T, types ...record.Type) *fixture {
	t.Helper()
	commit := [][]byte{seriesRecord(1, "a", "b"), samplesRecord(1, 10, 1)}
	for _, typ := range types {
		commit = append(commit, []byte{byte(typ), 1})
	}
	return withLog(t, commit)
}

func TestHealth_SaysThatTheHeadCannotBecomeBlocks(t *testing.T) {
	for _, typ := range []record.Type{0x33, 0x34, 0x7f} {
		t.Run(typ.String(), func(t *testing.T) {
			f := unreadLog(t, typ, record.TypeMmapMarkers, typ)
			want := map[string]int{typ.String(): 2}
			check := func() {
				t.Helper()
				rep := f.db.OpenReport()
				require.Equal(t, 2, rep.UnreadSampleRecords)
				require.Equal(t, map[string]int{typ.String(): 2, record.TypeMmapMarkers.String(): 1}, rep.UnreadRecords)
				require.True(t, rep.Clean(), "nothing is lost")
				for what, err := range map[string]error{"health": f.db.Health(), "flush": f.db.Flush(ctx)} {
					var unread *tsdb.UnreadError
					require.ErrorAs(t, err, &unread, what)
					require.Equal(t, want, unread.Records, what)
					require.ErrorIs(t, err, tsdb.ErrUnsupported, what)
					require.NotErrorIs(t, err, tsdb.ErrReadOnly, what)
					require.Contains(t, err.Error(), "2 records of "+typ.String(), what)
				}
				require.Empty(t, f.db.Blocks())
			}
			check()
			f.commit(sample{`{a="b"}`, 20, 2})
			check()
			f.reopen()
			check()
			require.Equal(t, points(10, 1, 20, 2), f.all()[`{a="b"}`])

			report, err := tsdb.Verify(ctx, fixtureDir, &tsdb.VerifyOptions{FS: f.fs})
			require.NoError(t, err)
			var told []tsdb.Finding
			for _, found := range report.Findings {
				if strings.Contains(found.What, typ.String()) {
					told = append(told, found)
				}
			}
			require.Len(t, told, 1)
			require.Equal(t, tsdb.SeverityWarning, told[0].Severity)
			require.Contains(t, told[0].Meaning, "cannot make blocks")
		})
	}
}

func TestHealth_SideDataThatIsNotReadDoesNotKeepTheHeadFromBecomingBlocks(t *testing.T) {
	f := unreadLog(t, record.TypeMmapMarkers, record.TypeMinValidTime)
	require.NoError(t, f.db.Health())
	require.Zero(t, f.db.OpenReport().UnreadSampleRecords)
	require.Len(t, f.db.OpenReport().UnreadRecords, 2)
	require.NoError(t, f.db.Flush(ctx))
	require.Len(t, f.db.Blocks(), 1)
}

func TestHealth_OfAClosedDatabaseGoesBeforeWhatIsNotRead(t *testing.T) {
	f := unreadLog(t, 0x33)
	require.NoError(t, f.db.Close())
	require.ErrorIs(t, f.db.Health(), tsdb.ErrClosed)
	require.NotErrorIs(t, f.db.Health(), tsdb.ErrUnsupported)
	f.open()
}

func TestRepair_OfALogThatIsNotReadInPart(t *testing.T) {
	f := unreadLog(t, 0x33)
	require.NoError(t, f.db.Close())
	report, err := tsdb.Repair(ctx, fixtureDir, &tsdb.RepairOptions{Options: f.opts})
	require.NoError(t, err)
	require.Equal(t, 1, report.Log.UnreadSampleRecords)
	f.open()
	require.Equal(t, points(10, 1), f.all()[`{a="b"}`])
	require.Error(t, f.db.Health())
}

func TestEvents_OfAHeadThatCannotBecomeBlocks(t *testing.T) {
	f := unreadLog(t, 0x33)
	require.NoError(t, f.db.Close())
	log := &logRecords{}
	f.opts.Logger = slog.New(log)
	f.open()
	e := wantEvent(t, log, "the head cannot be made into blocks")
	require.Equal(t, slog.LevelWarn, e.level)
	require.ErrorIs(t, e.attrs["error"].Any().(error), tsdb.ErrUnsupported)

	// Nor does the loop make blocks, and it says so.
	f.commit(sample{`{a="b"}`, 4 * hour, 2})
	f.clock.Advance(time.Second)
	f.clock.Advance(time.Second)
	wantEvent(t, log, "flush head")
	require.Positive(t, f.db.Stats().FlushErrors)
	require.Empty(t, f.db.Blocks())
}
