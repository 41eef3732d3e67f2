package memseries

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/xorchunk"
	"github.com/seed347100a3/tsdb/labels"
)

// restore makes a series as recovery does.
func restore(d *Directory, ref uint64, ls labels.Labels) (*Series, error) {
	return NewRestoration(d).Restore(ref, ls, ls.Hash())
}

// restoreOne replays one sample of commit 1.
func restoreOne(r *Restorer, ref uint64, t int64, v float64) {
	r.AppendOne(&Run{Ref: ref, Samples: []xorchunk.Sample{{T: t, V: v}}}, 1)
}

// restored replays n samples, one a second, into one series whose full chunks begin
// as given.
func restored(t *testing.T, n int, attached []Mapped) (*Directory, *Series, *Restorer) {
	d := NewDirectory(defaultCutting)
	s, err := restore(d, 7, labels.FromStrings("a", "b"))
	require.NoError(t, err)
	NewRestoration(d).Attach(s, attached)
	r := NewRestoration(d).NewRestorer()
	for i := range n {
		restoreOne(r, 7, int64(i)*1000, float64(i))
	}
	r.Close()
	require.NoError(t, NewRestoration(d).Finish(1, func(Mapped) (uint64, chunkenc.ValueType, error) { return math.Float64bits(42), chunkenc.ValFloat, nil }))
	return d, s, r
}

func TestRestorer_SamplesOfAttachedChunksAreNotAppended(t *testing.T) {
	_, s, r := restored(t, 300, []Mapped{{Ref: 1, MinT: 0, MaxT: 119_000, Num: 120}, {Ref: 2, MinT: 120_000, MaxT: 239_000, Num: 120}})
	require.EqualValues(t, 240, r.Covered)
	require.EqualValues(t, 60, r.Samples)
	require.EqualValues(t, 299_000, s.Maxt())
	require.EqualValues(t, 0, s.Mint())
}

func TestRestorer_AHoleInTheChunksIsRebuiltFromTheLog(t *testing.T) {
	d, s, r := restored(t, 300, []Mapped{{Ref: 1, MinT: 0, MaxT: 119_000, Num: 120}, {Ref: 2, MinT: 200_000, MaxT: 239_000, Num: 40}})
	require.EqualValues(t, 1, r.Holes)
	require.EqualValues(t, 120, r.Covered)
	require.EqualValues(t, 180, r.Samples)
	var v Excerpt
	require.True(t, d.Past(1).Excerpt(s, 120_000, math.MaxInt64, &v))
	n := 0
	for _, c := range v.Chunks {
		require.Zero(t, c.Ref)
		n += c.Num
	}
	require.Equal(t, 180, n)
}

func TestRestorer_LateAndUnknownSamplesAreCounted(t *testing.T) {
	d := NewDirectory(defaultCutting)
	_, err := restore(d, 7, labels.FromStrings("a", "b"))
	require.NoError(t, err)
	r := NewRestoration(d).NewRestorer()
	restoreOne(r, 7, 10, 1)
	restoreOne(r, 7, 10, 1)
	restoreOne(r, 7, 5, 1)
	restoreOne(r, 8, 5, 1)
	require.EqualValues(t, 1, r.Samples)
	require.EqualValues(t, 2, r.Late)
	r.Close()
	require.EqualValues(t, 1, r.Unknown)
}

func TestFinishRestore_KnowsTheLastValueOfAFullChunk(t *testing.T) {
	_, s, _ := restored(t, 120, []Mapped{{Ref: 1, MinT: 0, MaxT: 119_000, Num: 120}})
	require.EqualValues(t, 119_000, s.PendingT())
	require.Equal(t, math.Float64bits(42), s.PendingSum())
}

func TestDropStale_ChunksThatTheLogDoesNotReachGo(t *testing.T) {
	chunk := func(ref, mint, maxt int64) Mapped {
		return Mapped{Ref: chunks.Ref(ref), MinT: mint, MaxT: maxt, Num: 2}
	}
	for name, tc := range map[string]struct {
		attached []Mapped
		log      []int64
		kept     int
		behind   int // chunks that have what the log should
	}{
		"the log begins in the first":        {[]Mapped{chunk(1, 0, 10), chunk(2, 20, 30)}, []int64{10, 20, 30, 40}, 2, 0},
		"the log begins in the second":       {[]Mapped{chunk(1, 0, 10), chunk(2, 20, 30)}, []int64{30, 40}, 1, 0},
		"the log begins between":             {[]Mapped{chunk(1, 0, 10), chunk(2, 20, 30)}, []int64{20, 30}, 1, 0},
		"the log begins behind all":          {[]Mapped{chunk(1, 0, 10), chunk(2, 20, 30)}, []int64{40}, 0, 0},
		"the log has nothing":                {[]Mapped{chunk(1, 0, 10), chunk(2, 20, 30)}, nil, 0, 0},
		"the log ends before the last":       {[]Mapped{chunk(1, 0, 10), chunk(2, 20, 30)}, []int64{0, 10}, 2, 1},
		"a hole that the log fills, and old": {[]Mapped{chunk(1, 0, 10), chunk(2, 20, 30), chunk(3, 60, 70)}, []int64{20, 30, 40}, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDirectory(defaultCutting)
			s, err := restore(d, 7, labels.FromStrings("a", "b"))
			require.NoError(t, err)
			NewRestoration(d).Attach(s, slices.Clone(tc.attached))
			r := NewRestoration(d).NewRestorer()
			for _, ts := range tc.log {
				restoreOne(r, 7, ts, 1)
			}
			r.Close()
			before := int(s.numMapped)
			behind, unreached := NewRestoration(d).BeyondLog()
			require.Equal(t, before-tc.kept, unreached)
			require.Equal(t, tc.behind, behind)
			dropped, newest := NewRestoration(d).DropStale(math.MaxInt64)
			require.Equal(t, before-tc.kept, dropped)
			if dropped > 0 {
				require.Equal(t, tc.attached[dropped-1].MaxT, newest)
			}
			require.EqualValues(t, tc.kept, s.numMapped)
			require.NoError(t, NewRestoration(d).Finish(1, func(Mapped) (uint64, chunkenc.ValueType, error) { return math.Float64bits(42), chunkenc.ValFloat, nil }))
			if len(tc.log) == 0 {
				require.EqualValues(t, int64(NoTime), s.PendingT())
				return
			}
			last := tc.log[len(tc.log)-1]
			if tc.kept > 0 {
				last = max(last, s.mappedMaxt(tc.kept-1))
			}
			require.Equal(t, last, s.PendingT())
		})
	}
}

func TestDropStale_ChunksFromWhereTheLogWasTruncatedStay(t *testing.T) {
	for truncated, kept := range map[int64]int{0: 2, 10: 2, 11: 1, 30: 1, 31: 0} {
		d := NewDirectory(defaultCutting)
		s, err := restore(d, 7, labels.FromStrings("a", "b"))
		require.NoError(t, err)
		NewRestoration(d).Attach(s, []Mapped{{Ref: 1, MinT: 0, MaxT: 10, Num: 2}, {Ref: 2, MinT: 20, MaxT: 30, Num: 2}})
		dropped, _ := NewRestoration(d).DropStale(truncated)
		require.Equal(t, 2-kept, dropped, "truncated at %d", truncated)
	}
}

func TestTakeFull_TakesWhatIsSyncedInTheOrderOfCutting(t *testing.T) {
	d := NewDirectory(defaultCutting)
	s, err := restore(d, 7, labels.FromStrings("a", "b"))
	require.NoError(t, err)
	r := NewRestoration(d).NewRestorer()
	for i := range int64(5 * 120) {
		r.Append([]Run{{Ref: 7, Samples: []xorchunk.Sample{{T: i * 1000, V: float64(i)}}}}, uint64(i))
	}
	mints := func(fulls []Full) (got []int64) {
		for i := range fulls {
			require.Nil(t, fulls[i].Data)
			got = append(got, fulls[i].MinT)
		}
		return got
	}
	var want []int64
	for _, m := range s.mapped() {
		want = append(want, m.MinT)
	}
	require.Len(t, r.full, len(want))
	one, whole, third := int(r.full[0].bytes.size), r.FullBytes(), r.full[2].seq

	require.Empty(t, r.TakeFull(nil, r.full[0].seq-1, 0, math.MaxInt))
	require.Empty(t, r.TakeFull(nil, math.MaxUint64, whole+1, math.MaxInt))
	require.Equal(t, whole, r.FullBytes())
	some := r.TakeFull(nil, third, one+1, math.MaxInt)
	require.Equal(t, want[:3], mints(some))
	r.GiveFull(some[1:])
	require.Equal(t, whole-one, r.FullBytes())
	require.Equal(t, want[1:2], mints(r.TakeFull(nil, math.MaxUint64, 0, 1)), "one at least")
	require.Equal(t, want[2:], mints(r.TakeFull(nil, math.MaxUint64, 0, math.MaxInt)))
	require.Zero(t, r.FullBytes())
}

// Recovery gives the labels as they lie in a record of the log, whose buffer has other records
// later.
func TestRestore_KeepsNothingOfTheLabelsThatItIsGiven(t *testing.T) {
	d := NewDirectory(defaultCutting)
	sets := []labels.Labels{
		labels.FromStrings("job", "api", "long", strings.Repeat("l", 4096), "pod", "a"),
		labels.FromStrings("job", "api", "long", strings.Repeat("l", 4096), "pod", "b"),
		labels.FromStrings("job", "db", "pod", "b"),
	}
	buf := make([]byte, 0, 8192)
	for i, ls := range sets {
		buf = ls.AppendEncoded(buf[:0])
		lying, err := labels.UnsafeFromEncoded(buf)
		require.NoError(t, err)
		_, err = restore(d, uint64(i)+1, lying)
		require.NoError(t, err)
		for k := range buf {
			buf[k] = '?'
		}
	}
	require.NoError(t, NewRestoration(d).Finish(1, nil))
	for i, ls := range sets {
		s := d.ByLabels(ls, ls.Hash())
		require.NotNil(t, s, "series %d", i)
		require.EqualValues(t, i+1, s.Ref())
	}
}
