package record_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/labels"
)

func TestSeriesDecoder_EveryCutOfARecordIsDamageOrAPrefix(t *testing.T) {
	all := []series{
		{1, [][2]string{{"__name__", "up"}, {"job", "api"}}},
		{2, [][2]string{}},
		{300, [][2]string{{"a", ""}}},
	}
	rec := encodeSeries(all)
	clean := 0
	for cut := 1; cut < len(rec); cut++ {
		got, err := decodeSeries(rec[:cut])
		require.Equal(t, all[:len(got)], got)
		if err == nil {
			clean++
			require.Equal(t, encodeSeries(got), rec[:cut])
			continue
		}
		requirePlace(t, rec[:cut], err)
	}
	require.Equal(t, 3, clean, "cuts between entries are not damage")
}

func TestSeriesDecoder_SkipsLabelsThatNobodyRead(t *testing.T) {
	rec := encodeSeries([]series{
		{1, [][2]string{{"a", "1"}, {"b", "2"}}},
		{2, [][2]string{{"c", "3"}, {"d", "4"}}},
		{3, [][2]string{{"e", "5"}}},
	})
	var d record.SeriesDecoder
	d.Reset(rec)
	require.True(t, d.Next())
	require.True(t, d.Next())
	require.EqualValues(t, 2, d.Ref())
	name, value, ok := d.Label()
	require.True(t, ok)
	require.Equal(t, "c=3", string(name)+"="+string(value))
	require.True(t, d.Next())
	require.EqualValues(t, 3, d.Ref())
	require.False(t, d.Next())
	require.False(t, d.Next())
	require.NoError(t, d.Err())
}

func TestSeriesDecoder_MakesLabelsOfASeries(t *testing.T) {
	up := labels.FromStrings("__name__", "up", "job", "api")
	rec := record.AppendSeries(record.BeginSeries(nil), 1, up)
	rec = record.AppendSeries(rec, 2, labels.Labels{})
	rec = record.AppendSeriesRef(rec, 3, 2)
	rec = record.AppendLabel(record.AppendLabel(rec, "z", "1"), "a", "2")

	var d record.SeriesDecoder
	d.Reset(rec)
	want := []labels.Labels{up, {}, labels.FromStrings("a", "2", "z", "1")}
	for _, w := range want {
		require.True(t, d.Next())
		d.Label()
		got, err := d.Labels()
		require.NoError(t, err)
		require.Equal(t, w, got)
	}
	require.False(t, d.Next())
	require.NoError(t, d.Err())

	d.Reset(rec[:len(rec)-1])
	for d.Next() && d.Ref() < 3 {
	}
	_, err := d.Labels()
	require.ErrorIs(t, err, encbuf.ErrCorrupt)
}

func TestSeriesDecoder_LabelsAllocateNothing(t *testing.T) {
	rec := record.AppendSeries(record.BeginSeries(nil), 1, labels.FromStrings("__name__", "up", "long", strings.Repeat("x", 4096)))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var d record.SeriesDecoder
		d.Reset(rec)
		if !d.Next() {
			t.Fail()
		}
		if ls, err := d.Labels(); err != nil || ls.Len() != 2 {
			t.Fail()
		}
	}))
}

func TestSeriesDecoder_RefusesALabelCountBeyondTheRecord(t *testing.T) {
	rec := record.AppendSeriesRef(record.BeginSeries(nil), 7, 1<<30)
	var d record.SeriesDecoder
	d.Reset(append(rec, 1, 'a', 1, 'b'))
	require.False(t, d.Next())
	require.ErrorIs(t, d.Err(), encbuf.ErrCorrupt)
	requirePlace(t, rec, d.Err())
}

func TestSampleDecoder_KeepsWhatStandsBeforeTheDamage(t *testing.T) {
	var want []record.Sample
	for i := range 100 {
		want = append(want, record.Sample{Ref: uint64(i * 1000), T: int64(i) * -15_000, V: float64(i)})
	}
	rec := record.AppendSamples(nil, want)
	for cut := 1; cut < len(rec); cut++ {
		got, _, err := decodeSamples(rec[:cut], 7)
		require.Equal(t, want[:len(got)], append([]record.Sample{}, got...))
		if err != nil {
			requirePlace(t, rec[:cut], err)
		}
	}
	_, _, err := decodeSamples(append(rec, 0, 0, 0), 7)
	require.ErrorIs(t, err, encbuf.ErrCorrupt, "leftover bytes are damage")
}

func TestSampleDecoder_AnOverlongVarintIsDamageAtItsEntry(t *testing.T) {
	rec := record.AppendSamples(nil, []record.Sample{{Ref: 1, T: 1, V: 1}})
	off := len(rec)
	for range 40 {
		rec = append(rec, 0xff)
	}
	var d record.SampleDecoder
	d.Reset(rec)
	var buf [4]record.Sample
	n, err := d.Decode(buf[:])
	require.Equal(t, 1, n)
	var ce *encbuf.CorruptError
	require.ErrorAs(t, err, &ce)
	require.EqualValues(t, off, ce.Offset)
	n, again := d.Decode(buf[:])
	require.Zero(t, n)
	require.Equal(t, err, again, "the error stays")
}

// What the encoder writes is what the reference wrote of the same samples.
func TestStartEncoder_EqualsTheVectors(t *testing.T) {
	for _, v := range loadVectors(t, record.TypeSamplesV2) {
		var d record.SampleDecoder
		d.Reset(v.bytes(t))
		require.True(t, d.HasStarts())
		var buf [16]record.Sample
		var starts [16]int64
		n, err := d.DecodeStarts(buf[:], starts[:])
		require.NoError(t, err)
		var enc record.StartEncoder
		rec := enc.Begin(nil)
		for i, s := range buf[:n] {
			rec = enc.Append(rec, s, starts[i])
		}
		require.Equal(t, v.bytes(t), rec, v.Name)
	}
}

func TestStartEncoder_ComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var enc record.StartEncoder
		rec := enc.Begin(nil)
		var want []record.Sample
		var starts []int64
		for range rapid.IntRange(0, 20).Draw(t, "samples") {
			s := record.Sample{Ref: rapid.Uint64().Draw(t, "ref"), T: rapid.Int64().Draw(t, "t"), V: float64(len(want))}
			st := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(1, 3), rapid.Int64()).Draw(t, "start")
			want, starts = append(want, s), append(starts, st)
			rec = enc.Append(rec, s, st)
		}
		var d record.SampleDecoder
		d.Reset(rec)
		got, gotStarts := make([]record.Sample, len(want)+1), make([]int64, len(want)+1)
		n, err := d.DecodeStarts(got, gotStarts)
		require.NoError(t, err)
		require.Len(t, want, n)
		require.Equal(t, want, append([]record.Sample(nil), got[:n]...))
		require.Equal(t, starts, append([]int64(nil), gotStarts[:n]...))
	})
}

func TestTombstone_AllOfTimeIsTheWholeSeries(t *testing.T) {
	require.True(t, record.Tombstone{Mint: math.MinInt64, Maxt: math.MaxInt64}.WholeSeries())
	require.False(t, record.Tombstone{Mint: math.MinInt64, Maxt: 0}.WholeSeries())
	require.False(t, record.Tombstone{Mint: 0, Maxt: math.MaxInt64}.WholeSeries())
}

func TestTombstoneDecoder_ACutEntryIsDamage(t *testing.T) {
	rec := record.AppendTombstones(nil, []record.Tombstone{{Ref: 9, Mint: -5000, Maxt: 5000}})
	for cut := 2; cut < len(rec); cut++ {
		got, err := decodeTombstones(rec[:cut])
		require.Empty(t, got)
		requirePlace(t, rec[:cut], err)
	}
}

func TestCodecs_AllocateNothing(t *testing.T) {
	samples := make([]record.Sample, 500)
	for i := range samples {
		samples[i] = record.Sample{Ref: uint64(i), T: 1000, V: 1}
	}
	dst := make([]byte, 0, 1<<16)
	rec := record.AppendSamples(nil, samples)
	require.Zero(t, testing.AllocsPerRun(20, func() {
		dst = record.AppendSamples(dst[:0], samples)
		var d record.SampleDecoder
		d.Reset(rec)
		if n, err := d.Decode(samples); n != len(samples) || err != nil {
			t.Fatal(n, err)
		}
		dst = record.BeginSeries(dst[:0])
		dst = record.AppendSeriesRef(dst, 1, 1)
		dst = record.AppendLabel(dst, "job", "api")
		var s record.SeriesDecoder
		s.Reset(dst)
		for s.Next() {
			s.Label()
		}
	}))
}

// BenchmarkSampleDecoder reads records as commits of 1000 write them. One operation
// is one sample.
func BenchmarkSampleDecoder(b *testing.B) {
	for name, stride := range map[string]int{"dense": 1, "sparse": 37, "wide": 5000} {
		b.Run(name, func(b *testing.B) {
			samples := make([]record.Sample, 1000)
			for i := range samples {
				samples[i] = record.Sample{Ref: uint64(i * stride), T: 1_700_000_000_000, V: float64(i)}
			}
			rec := record.AppendSamples(nil, samples)
			var d record.SampleDecoder
			b.SetBytes(int64(len(rec)) / 1000)
			for n := 0; n < b.N; n += len(samples) {
				d.Reset(rec)
				if got, err := d.Decode(samples); got != len(samples) || err != nil {
					b.Fatal(got, err)
				}
			}
		})
	}
}

// BenchmarkSampleEncoder writes commits of 1000. One operation is one sample.
func BenchmarkSampleEncoder(b *testing.B) {
	for name, stride := range map[string]int{"dense": 1, "sparse": 37} {
		b.Run(name, func(b *testing.B) {
			samples := make([]record.Sample, 1000)
			for i := range samples {
				samples[i] = record.Sample{Ref: uint64(i * stride), T: 1_700_000_000_000, V: float64(i)}
			}
			var dst []byte
			for n := 0; n < b.N; n += len(samples) {
				dst = record.AppendSamples(dst[:0], samples)
			}
		})
	}
}

func TestMetadataDecoder_EntriesMoveAsTheyAre(t *testing.T) {
	var all []byte
	for _, v := range loadVectors(t, record.TypeMetadata) {
		var d record.MetadataDecoder
		rec := v.bytes(t)
		again := record.BeginMetadata(nil)
		for d.Reset(rec); d.Next(); {
			require.NotZero(t, d.Ref())
			again = append(again, d.Entry()...)
		}
		require.NoError(t, d.Err())
		require.Equal(t, rec, again)
		all = rec
	}
	for cut := len(all) - 1; cut > 1; cut-- {
		var d record.MetadataDecoder
		n := 0
		for d.Reset(all[:cut]); d.Next(); {
			n += len(d.Entry())
		}
		if d.Err() == nil {
			require.Equal(t, cut, n+1, "a cut between entries")
			continue
		}
		requirePlace(t, all[:cut], d.Err())
	}
}

// Whatever a ref and a time are to the first ones, the entry is the two varints and the value.
func TestSampleEncoder_EntriesAreVarints(t *testing.T) {
	const ref, at = 1 << 40, 1_700_000_000_000
	for _, dr := range []int64{0, 1, -1, 63, -64, 64, -65, 8191, -8192, 8192, -8193, 1 << 20, math.MaxInt64, math.MinInt64} {
		for _, dt := range []int64{0, 1, -1, 64, math.MaxInt64 - at, math.MinInt64} {
			want := record.AppendSamples(nil, []record.Sample{{Ref: ref, T: at, V: 1}})
			want = binary.AppendVarint(want, dr)
			want = binary.AppendVarint(want, dt)
			want = binary.BigEndian.AppendUint64(want, math.Float64bits(2.5))
			ref, at := uint64(ref), int64(at)
			got := record.AppendSamples(nil, []record.Sample{{Ref: ref, T: at, V: 1}, {Ref: ref + uint64(dr), T: at + dt, V: 2.5}})
			require.Equal(t, want, got, "ref %d, time %d", dr, dt)
		}
	}
}
