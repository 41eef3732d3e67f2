package tsdb_test

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
	"github.com/seed347100a3/tsdb/wal"
)

// Logs that this version would not write, but must read.

// withLog makes a database directory whose log has these commits, each a list of
// records.
func withLog(t *testing.T, commits ...[][]byte) *fixture {
	t.Helper()
	fs := tsdbtest.NewMemFS()
	log, err := wal.Open(wal.Options{FS: fs, Dir: filepath.Join(fixtureDir, "wal")}, wal.Position{})
	require.NoError(t, err)
	for _, records := range commits {
		var c wal.Commit
		for _, rec := range records {
			c.End(append(c.Begin(), rec...))
		}
		require.NoError(t, log.Enqueue(&c))
		require.NoError(t, log.Write(&c))
	}
	require.NoError(t, log.Close())
	f := &fixture{t: t, fs: fs, clock: tsdbtest.NewClock(testNow)}
	f.opts = &tsdb.Options{FS: fs, Clock: f.clock}
	f.open()
	t.Cleanup(func() { require.NoError(t, f.db.Close()) })
	return f
}

func seriesRecord(ref uint64, nameValues ...string) []byte {
	return record.AppendSeries(record.BeginSeries(nil), ref, labels.FromStrings(nameValues...))
}

// samplesRecord takes ref, t, v triples.
func samplesRecord(rtv ...float64) []byte {
	var samples []record.Sample
	for i := 0; i < len(rtv); i += 3 {
		samples = append(samples, record.Sample{Ref: uint64(rtv[i]), T: int64(rtv[i+1]), V: rtv[i+2]})
	}
	return record.AppendSamples(nil, samples)
}

func TestReplay_DeletedIntervalsAreNotRead(t *testing.T) {
	f := withLog(t, [][]byte{
		seriesRecord(1, "a", "b"), samplesRecord(1, 10, 1, 1, 20, 2, 1, 30, 3, 1, 40, 4),
		record.AppendTombstones(nil, []record.Tombstone{{Ref: 1, Mint: 15, Maxt: 20}, {Ref: 1, Mint: 40, Maxt: 40}}),
	})
	want := map[string][]point{`{a="b"}`: points(10, 1, 30, 3)}
	require.Equal(t, want, f.all())
	require.EqualValues(t, 2, f.db.OpenReport().Tombstones)
	q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
	require.NoError(t, err)
	defer q.Close()
	require.Equal(t, want, dumpChunks(t, q))
	f.commit(sample{`{a="b"}`, 50, 5})
	require.Len(t, f.all()[`{a="b"}`], 3, "what comes later is not deleted")
	f.reopen()
	require.Equal(t, map[string][]point{`{a="b"}`: points(10, 1, 30, 3, 50, 5)}, f.all())
}

func TestReplay_ARemovedSeriesCanComeBackUnderAnotherRef(t *testing.T) {
	f := withLog(t,
		[][]byte{seriesRecord(1, "a", "b"), samplesRecord(1, 10, 1)},
		[][]byte{record.AppendTombstones(nil, []record.Tombstone{{Ref: 1, Mint: math.MinInt64, Maxt: math.MaxInt64}})},
		[][]byte{seriesRecord(9, "a", "b"), samplesRecord(9, 5, 2)},
	)
	require.Equal(t, map[string][]point{`{a="b"}`: points(5, 2)}, f.all())
	app := f.db.Appender()
	ref, err := app.Append(0, series(t, `{new="one"}`), 1, 1)
	require.NoError(t, err)
	require.EqualValues(t, 10, ref, "refs of the log are never used again")
	require.NoError(t, app.Rollback())
}

func TestReplay_ASecondRefForTheSameLabelsIsTheSameSeries(t *testing.T) {
	f := withLog(t,
		[][]byte{seriesRecord(1, "a", "b"), samplesRecord(1, 10, 1)},
		[][]byte{seriesRecord(1, "a", "b"), seriesRecord(4, "a", "b"), samplesRecord(4, 20, 2, 1, 30, 3, 4, 15, 9)},
		[][]byte{record.AppendTombstones(nil, []record.Tombstone{{Ref: 4, Mint: 20, Maxt: 20}})},
	)
	require.Equal(t, map[string][]point{`{a="b"}`: points(10, 1, 30, 3)}, f.all())
	rep := f.db.OpenReport()
	require.Equal(t, 1, rep.Series)
	require.EqualValues(t, 1, rep.SamplesLate)
	require.True(t, rep.Clean())
}

func TestReplay_WhatItCannotUseIsReported(t *testing.T) {
	f := withLog(t, [][]byte{
		seriesRecord(1, "a", "b"), samplesRecord(1, 10, 1, 77, 10, 1),
		{byte(record.TypeMmapMarkers), 1, 1, 0}, {0x34}, {0x33, 1, 2}, {byte(record.TypeMmapMarkers)},
		{byte(record.TypeMetadata), 1, 1, 0}, {byte(record.TypeMetadata), 7, 1, 0}, {byte(record.TypeMetadata)},
	})
	rep := f.db.OpenReport()
	require.EqualValues(t, 1, rep.SamplesUnknown)
	require.EqualValues(t, 1, rep.MetadataUnknown)
	require.False(t, rep.Clean())
	require.Equal(t, 2, rep.UnreadRecords[record.TypeMmapMarkers.String()])
	require.Equal(t, 1, rep.UnreadRecords[record.Type(0x34).String()])
	require.Len(t, rep.UnreadRecords, 3)
	require.Equal(t, map[string][]point{`{a="b"}`: points(10, 1)}, f.all())
}

func TestReplay_ARecordThatMakesNoSenseIsNamed(t *testing.T) {
	broken := samplesRecord(1, 10, 1)
	f := withLog(t,
		[][]byte{seriesRecord(1, "a", "b"), broken[:len(broken)-3]},
		[][]byte{seriesRecord(1, "other", "labels"), samplesRecord(1, 20, 2)},
	)
	rep := f.db.OpenReport()
	require.Len(t, rep.Damages, 2)
	require.Equal(t, "wal/00000000", rep.Damages[0].File)
	require.Contains(t, rep.Damages[1].Reason, "ref 1 has two label sets")
	require.False(t, rep.Clean())
	require.Equal(t, map[string][]point{`{a="b"}`: points(20, 2)}, f.all())
}

func TestReplay_SamplesWithStartTimestampsAreRead(t *testing.T) {
	// ref 1, t 10, no start timestamp, value 1.
	v2 := []byte{byte(record.TypeSamplesV2), 2, 20, 0, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0}
	f := withLog(t, [][]byte{seriesRecord(1, "a", "b"), v2})
	require.Equal(t, map[string][]point{`{a="b"}`: points(10, 1)}, f.all())
}

func TestReplay_RefsOfTheWholeRangeAreRead(t *testing.T) {
	refs := []uint64{1, 300, 1 << 20, 1<<32 + 5, 1<<40 - 2}
	var records [][]byte
	for i, ref := range refs {
		records = append(records, seriesRecord(ref, "i", string(rune('a'+i))), samplesRecord(float64(ref), 10, 1))
	}
	f := withLog(t, records)
	require.Len(t, f.all(), len(refs))
	f.commit(sample{`{i="z"}`, 1, 1}) // the last ref that there is
	app := f.db.Appender()
	_, err := app.Append(0, series(t, `{i="too many"}`), 1, 1)
	require.ErrorIs(t, err, tsdb.ErrLimit)
	require.NoError(t, app.Rollback())
	f.reopen()
	require.Len(t, f.all(), len(refs)+1)
}

func TestReplay_ARefOfARemovedSeriesIsNotUsedAgain(t *testing.T) {
	gone := record.AppendTombstones(nil, []record.Tombstone{{Ref: 5, Mint: math.MinInt64, Maxt: math.MaxInt64}})
	f := withLog(t,
		[][]byte{seriesRecord(5, "a", "b"), samplesRecord(5, 10, 1), seriesRecord(9, "a", "b")},
		[][]byte{gone},
		[][]byte{seriesRecord(5, "a", "c"), samplesRecord(5, 20, 2)},
		[][]byte{seriesRecord(9, "a", "b"), samplesRecord(9, 30, 3)},
	)
	require.Equal(t, map[string][]point{`{a="b"}`: points(30, 3)}, f.all())
	rep := f.db.OpenReport()
	require.Len(t, rep.Damages, 1)
	require.Contains(t, rep.Damages[0].Reason, "series ref 5 was that of a series that is gone")
	require.EqualValues(t, 1, rep.SamplesUnknown)
}

func TestReplay_ASecondRefKeepsItsMeaning(t *testing.T) {
	f := withLog(t,
		[][]byte{seriesRecord(5, "a", "b"), seriesRecord(9, "a", "b"), samplesRecord(9, 10, 1)},
		[][]byte{seriesRecord(9, "other", "labels"), samplesRecord(9, 20, 2)},
	)
	require.Equal(t, map[string][]point{`{a="b"}`: points(10, 1, 20, 2)}, f.all())
	require.Len(t, f.db.OpenReport().Damages, 1)
}
