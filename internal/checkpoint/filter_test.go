package checkpoint_test

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/checkpoint"
	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/internal/waytest"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/wal"
)

// checkpointed runs records through the filter and returns what is left.
func checkpointed(t testing.TB, mint int64, wanted func(uint64) bool, recs ...[]byte) (kept [][]byte) {
	t.Helper()
	f := checkpoint.NewFilter(mint, wanted, nil)
	scratch := make([]byte, 0, 1<<10)
	for _, rec := range recs {
		if out, ok := f.Keep(wal.Record{Data: rec}, scratch[:0]); ok {
			require.NotEmpty(t, out)
			kept = append(kept, slices.Clone(out))
		}
	}
	return kept
}

// Of series that left the head nothing is kept, of whatever kind and time.
func TestCheckpointFilter_OfSeriesThatLeft(t *testing.T) {
	wanted := func(ref uint64) bool { return ref != 2 }
	f := checkpoint.NewFilter(100, wanted, func(ref uint64) bool { return ref == 2 })
	h := histogram.Histogram{}
	hist := func(ref uint64) []byte {
		var enc record.HistogramEncoder
		rec := enc.Begin(nil, record.HistogramType(false, false, false))
		return enc.Append(rec, ref, 200, 0, record.AppendHistogram(nil, &h))
	}
	gone := record.Tombstone{Ref: 2, Mint: math.MinInt64, Maxt: math.MaxInt64}
	for name, c := range map[string]struct{ rec, want []byte }{
		"samples": {record.AppendSamples(nil, []record.Sample{{Ref: 1, T: 100, V: 1}, {Ref: 2, T: 200, V: 2}, {Ref: 1, T: 99, V: 3}}),
			record.AppendSamples(nil, []record.Sample{{Ref: 1, T: 100, V: 1}})},
		"nothing but its samples": {record.AppendSamples(nil, []record.Sample{{Ref: 2, T: 200, V: 2}}), nil},
		"a histogram":             {hist(2), nil},
		"one of another series":   {hist(1), hist(1)},
		"that it left":            {record.AppendTombstones(nil, []record.Tombstone{gone}), nil},
	} {
		out, ok := f.Keep(wal.Record{Data: c.rec}, nil)
		require.Equal(t, c.want != nil, ok, name)
		require.Equal(t, c.want, out, name)
	}
}

// Deleted intervals of late samples stand twice, one record behind the other: both keep the same.
func TestCheckpointFilter_TombstonesOfLateSamples(t *testing.T) {
	f := checkpoint.NewFilter(100, func(ref uint64) bool { return ref != 2 }, nil)
	late := []record.Tombstone{{Ref: 1, Mint: 0, Maxt: 99}, {Ref: 1, Mint: 0, Maxt: 100}, {Ref: 2, Mint: 0, Maxt: 100}}
	all := append([]record.Tombstone{{Ref: 3, Mint: 0, Maxt: 200}}, late...)
	twice := func(late, all []record.Tombstone) [][]byte {
		return [][]byte{record.AppendTombstones(record.AppendLateTombstones(nil), late), record.AppendTombstones(nil, all)}
	}
	recs, want := twice(late, all), twice(late[1:2], []record.Tombstone{all[0], late[1]})
	for i := range recs {
		out, ok := f.Keep(wal.Record{Data: recs[i]}, nil)
		require.True(t, ok)
		require.Equal(t, want[i], out)
		out, ok = f.Keep(wal.Record{Data: want[i]}, nil)
		require.True(t, ok)
		require.Equal(t, want[i], out, "as it is")
	}
	_, ok := f.Keep(wal.Record{Data: twice(late[:1], nil)[0]}, nil)
	require.False(t, ok)
}

// The reference's checkpoint of the same records. Three differences are meant: records that this
// version does not take apart are kept whole, those of unknown types are kept, and metadata and
// exemplars are added by who has them in memory.
func TestCheckpointFilter_KeepsWhatTheReferenceKeeps(t *testing.T) {
	raw, err := os.ReadFile("testdata/wal_checkpoint.json")
	require.NoError(t, err)
	var vec struct {
		Records []string `json:"checkpoint_records"`
		Refs    []uint64 `json:"keep_refs"`
		Mint    int64
		To      int
		WAL     []struct {
			Record  string
			Segment int
		}
	}
	require.NoError(t, json.Unmarshal(raw, &vec))
	var in [][]byte
	want := map[record.Type][]string{}
	for _, r := range vec.WAL {
		rec, err := hex.DecodeString(r.Record)
		require.NoError(t, err)
		if r.Segment <= vec.To {
			in = append(in, rec)
		}
		switch typ := record.TypeOf(rec); typ {
		case record.Type(0xc8):
			want[typ] = append(want[typ], r.Record)
		}
	}
	for _, r := range vec.Records {
		rec, err := hex.DecodeString(r)
		require.NoError(t, err)
		if typ := record.TypeOf(rec); typ != record.TypeExemplars {
			want[typ] = append(want[typ], r)
		}
	}
	got := map[record.Type][]string{}
	kept := checkpointed(t, vec.Mint, func(ref uint64) bool { return slices.Contains(vec.Refs, ref) }, in...)
	for _, rec := range kept {
		got[record.TypeOf(rec)] = append(got[record.TypeOf(rec)], hex.EncodeToString(rec))
	}
	delete(want, record.TypeMetadata)
	require.Equal(t, want, got)
}

func TestCheckpointFilter_AtTheBoundsOfTime(t *testing.T) {
	even := func(ref uint64) bool { return ref%2 == 0 }
	samples := func(ss ...record.Sample) []byte { return record.AppendSamples(nil, ss) }
	stones := func(ts ...record.Tombstone) []byte { return record.AppendTombstones(nil, ts) }
	for _, mint := range []int64{math.MinInt64, -100, 0, 100, math.MaxInt64} {
		before := mint - 1 // wraps at the least time, before which nothing is
		if mint == math.MinInt64 {
			before = mint
		}
		old, at := record.Sample{Ref: 1, T: before, V: 1}, record.Sample{Ref: 3, T: mint, V: 2}
		late := record.Sample{Ref: 4, T: math.MaxInt64, V: 3}
		want := [][]byte{samples(at, late)}
		if mint == math.MinInt64 {
			want = [][]byte{samples(old, at, late), samples(old)}
		}
		require.Equal(t, want, checkpointed(t, mint, even, samples(old, at, late), samples(old)))

		gone, reaches := record.Tombstone{Ref: 2, Mint: math.MinInt64, Maxt: before}, record.Tombstone{Ref: 2, Mint: math.MinInt64, Maxt: mint}
		whole := record.Tombstone{Ref: 4, Mint: math.MinInt64, Maxt: math.MaxInt64}
		dead := record.Tombstone{Ref: 3, Mint: math.MinInt64, Maxt: math.MaxInt64}
		want = [][]byte{stones(reaches, whole)}
		if mint == math.MinInt64 {
			want = [][]byte{stones(gone, reaches, whole)}
		}
		require.Equal(t, want, checkpointed(t, mint, even, stones(gone, dead, reaches, whole), stones(dead)))
	}
}

func TestCheckpointFilter_SeriesAndMetadata(t *testing.T) {
	entry := func(rec []byte, ref uint64, ls labels.Labels) []byte { return record.AppendSeries(rec, ref, ls) }
	a, b := labels.FromStrings("a", "1"), labels.FromStrings("a", "2", "b", "")
	all := entry(entry(entry(record.BeginSeries(nil), 1, a), 2, b), 4, a)
	meta := func(text ...byte) []byte { return append(record.BeginMetadata(nil), text...) }
	got := checkpointed(t, 0, func(ref uint64) bool { return ref%2 == 0 },
		all,
		entry(record.BeginSeries(nil), 3, a),
		meta(2, 1, 1, 1, 'u', 1, 's'), // ref 2, a counter, u="s"
		meta(3, 1, 0, 4, 2, 0),        // of refs 3 and 4
		meta(2, 1, 0),                 // newer
		meta(2, 1, 9),                 // damaged
	)
	require.Equal(t, [][]byte{
		entry(entry(record.BeginSeries(nil), 2, b), 4, a),
	}, got)
}

// One commit may make any number of series.
func TestCheckpointFilter_LetsOthersRun(t *testing.T) {
	rec := record.BeginSeries(nil)
	for ref := range uint64(25_600) {
		rec = record.AppendSeries(rec, ref, labels.FromStrings("a", "1"))
	}
	foreground.Begin()
	defer foreground.End()
	turns := waytest.Count(func() {
		checkpointed(t, 0, func(ref uint64) bool { return ref%2 == 0 }, rec)
	}, runtime.Gosched)
	require.GreaterOrEqual(t, turns, 2*25_600/256*9/10, "looking and copying")
}

func TestCheckpointFilter_KeepsWhatItCannotTakeApart(t *testing.T) {
	recs := [][]byte{
		{byte(record.TypeSamples), 1, 2},
		{byte(record.TypeSeries), 1, 2},
		{byte(record.TypeTombstones), 1, 2},
		{byte(record.TypeHistograms), 1, 2},
		{0xc8, 1, 2, 3},
	}
	got := checkpointed(t, math.MaxInt64, func(uint64) bool { return false }, append(slices.Clone(recs), []byte{byte(record.TypeMinValidTime), 0, 0, 0, 0, 0, 0, 0, 1})...)
	require.Equal(t, recs, got)
}

// How far the out-of-order log reached is written anew by each checkpoint.
func TestCheckpointFilter_LeavesOutHowFarTheOutOfOrderLogReached(t *testing.T) {
	all := func(uint64) bool { return true }
	require.Empty(t, checkpointed(t, 0, all, record.AppendLateReach(nil, &wal.Reach{Segment: 1, Synced: 7}), record.AppendLate(nil, 1)))
}
