package replay_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/internal/exemplars"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/replay"
)

func metadataRecord(ref uint64, help string) []byte {
	return record.AppendMetadata(record.BeginMetadata(nil), ref, record.Metadata{Help: help})
}

// apart puts a delete of nothing behind each record: between two deletes series are read first.
func apart(recs ...[]byte) (all [][]byte) {
	for _, rec := range recs {
		all = append(all, rec, record.AppendTombstones(nil, []record.Tombstone{{Ref: 1, Mint: 1, Maxt: 0}}))
	}
	return all
}

// metadataIn returns the metadata of some refs as one record has it.
func metadataIn(report *replay.Report) (values []string) {
	for ref := range uint64(20) {
		values = append(values, report.Metadata.Of(ref))
	}
	return values
}

func TestEarly_MetadataAndExemplarsWaitForTheirSeries(t *testing.T) {
	ring, report := exemplarLog(t, 10, apart(
		metadataRecord(1, "old"), metadataRecord(1, "new"), metadataRecord(2, "lost"),
		exemplarsOf(10, 1), exemplarsOf(20, 2),
		seriesOf(3, "three"), metadataRecord(3, "of three"), exemplarsOf(30, 3),
		seriesOf(1, "one"), exemplarsOf(40, 1),
	)...)
	require.Equal(t, metadataRecord(1, "new"), record.AppendMetadataEntry(record.BeginMetadata(nil), 1, report.Metadata.Of(1)))
	require.NotEmpty(t, report.Metadata.Of(3))
	require.Empty(t, report.Metadata.Of(2))
	require.EqualValues(t, 1, report.MetadataUnknown)
	require.EqualValues(t, 1, report.ExemplarsUnknown)
	require.EqualValues(t, 3, report.Exemplars)
	var got [][2]int64
	for _, e := range ring.Before(math.MaxUint64) {
		require.False(t, e.Series.IsEmpty())
		got = append(got, [2]int64{int64(e.Ref), e.T})
	}
	require.Equal(t, [][2]int64{{1, 10}, {3, 30}, {1, 40}}, got)
}

// Of several refs of a series the last entry in the log counts, when its record comes, too.
func TestEarly_TheLastMetadataOfASeriesCounts(t *testing.T) {
	one, seven := seriesOf(1, "one"), seriesOf(7, "one")
	for _, tc := range [][][]byte{
		{one, metadataRecord(7, "old"), metadataRecord(1, "new"), seven},
		{one, metadataRecord(1, "old"), metadataRecord(7, "new"), seven},
		{metadataRecord(1, "old"), metadataRecord(7, "new"), one, seven},
		{metadataRecord(7, "old"), metadataRecord(1, "new"), one, seven},
		{metadataRecord(7, "old"), one, metadataRecord(1, "new"), metadataRecord(8, "x"), seven},
	} {
		_, report := exemplarLog(t, 0, apart(tc...)...)
		require.Contains(t, report.Metadata.Of(1), "new")
	}
}

// A number that only metadata or exemplars have is not given to a new series: these would be its.
func TestEarly_RefsWithoutARecordAreNotUsedAgain(t *testing.T) {
	for _, rec := range [][]byte{metadataRecord(500, "x"), exemplarsOf(1, 500)} {
		to, _ := replayLog(t, 10, seriesOf(1, "one"), rec)
		require.EqualValues(t, 501, to.Series.NextRef())
	}
}

// The end of all metadata, and the ring, do not depend on where series records stand.
func TestEarly_WhereSeriesRecordsStandChangesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var series, others [][]byte
		for _, ref := range rapid.Permutation([]uint64{1, 2, 3, 4, 5, 6}).Draw(rt, "refs") {
			series = append(series, seriesOf(ref, fmt.Sprint(ref%4)))
		}
		series = series[:rapid.IntRange(1, 6).Draw(rt, "series")]
		ref := rapid.Uint64Range(1, 6)
		for i := range rapid.IntRange(1, 30).Draw(rt, "others") {
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				others = append(others, metadataRecord(ref.Draw(rt, "ref"), fmt.Sprint(i)))
			case 1:
				others = append(others, exemplarsOf(rapid.Int64Range(0, 3).Draw(rt, "repeat"), ref.Draw(rt, "ref")))
			default:
				others = append(others, exemplarsOf(int64(i), ref.Draw(rt, "ref"), ref.Draw(rt, "another")))
			}
		}
		mixed := slices.Clone(others)
		at := 0
		for _, rec := range series {
			at = rapid.IntRange(at, len(mixed)).Draw(rt, "at")
			mixed = slices.Insert(mixed, at, rec)
			at++
		}
		most := rapid.IntRange(1, 12).Draw(rt, "most")
		wantRing, want := exemplarLog(rt, most, slices.Concat(series, others)...)
		ring, got := exemplarLog(rt, most, apart(mixed...)...)
		require.Equal(rt, metadataIn(want), metadataIn(got))
		require.Equal(rt, want.MetadataUnknown, got.MetadataUnknown)
		require.Equal(rt, want.ExemplarsUnknown, got.ExemplarsUnknown)
		require.Equal(rt, want.Exemplars, got.Exemplars)
		plain := func(ring *exemplars.Ring) (lines []string) {
			for _, e := range ring.Before(math.MaxUint64) {
				lines = append(lines, fmt.Sprint(e.Series, e.Ref, e.T))
			}
			return lines
		}
		require.Equal(rt, plain(wantRing), plain(ring))
	})
}

// Of very many that no record ever comes for, the first are given up. Those behind them count.
func TestEarly_WhatWaitsIsBounded(t *testing.T) {
	var recs [][]byte
	for i := range uint64(3000) {
		recs = append(recs, exemplarsOf(int64(i), 10+i))
	}
	recs = append(recs, seriesOf(1, "one"), exemplarsOf(5000, 1), seriesOf(3005, "late"))
	ring, report := exemplarLog(t, 2, apart(recs...)...)
	require.Len(t, ring.Before(math.MaxUint64), 2, "what waited, and what came behind it")
	require.EqualValues(t, 2999, report.ExemplarsUnknown)

	recs = nil
	var one []byte
	for i := range uint64(1<<16 + 100) {
		if len(one) == 0 {
			one = record.BeginMetadata(nil)
		}
		one = record.AppendMetadata(one, 10+i, record.Metadata{Help: "x"})
		if len(one) > 64<<10 {
			recs, one = append(recs, one), nil
		}
	}
	recs = append(recs, one, seriesOf(10, "one"), seriesOf(10+1<<16, "late"))
	_, report = exemplarLog(t, 2, apart(recs...)...)
	require.NotEmpty(t, report.Metadata.Of(10))
	require.Empty(t, report.Metadata.Of(10+1<<16))
	require.EqualValues(t, 1<<16+99, report.MetadataUnknown)
}
