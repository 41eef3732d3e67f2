package remote

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/itertest"
	"github.com/seed347100a3/tsdb/labels"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

// namesakesDB has series whose labels are drawn, so that many become the same when external labels
// are added; samples of them lie between each other, and at the same times.
func namesakesDB(t *testing.T, r *rand.Rand) *tsdb.DB {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Clock: tsdbtest.NewClock(time.UnixMilli(1 << 40)), Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	app := db.Appender()
	drawn := map[string]bool{}
	for i := range 60 {
		var b labels.Builder
		b.Set("__name__", fmt.Sprint("m", i%5))
		for _, name := range []string{"job", "region", "zone"} {
			if r.IntN(2) == 0 {
				b.Set(name, []string{"eu", "us"}[r.IntN(3)/2])
			}
		}
		if drawn[b.Labels().String()] {
			continue
		}
		drawn[b.Labels().String()] = true
		samples := r.IntN(6)
		if i%20 == 7 {
			samples = 2*heldSamples + r.IntN(100)
		}
		at := int64(r.IntN(5))
		for range samples {
			_, err := app.Append(0, b.Labels(), at, float64(i))
			require.NoError(t, err)
			at += int64(1 + r.IntN(3))
		}
	}
	_, err = app.Commit(context.Background())
	require.NoError(t, err)
	return db
}

// joined is what must be answered: for each label set, external labels included, the samples of all
// series that have it, by time; of several at one time that of the series first in order.
func joined(stored []series, ext external) []series {
	var all []series
	for _, s := range stored {
		ms, err := labels.ParseSelector(s.labels)
		if err != nil {
			panic(err)
		}
		var own []labels.Label
		for _, m := range ms {
			own = append(own, labels.Label{Name: m.Name(), Value: m.Value()})
		}
		s.labels = labels.New(ext.merge(nil, own)...).String()
		i := slices.IndexFunc(all, func(o series) bool { return o.labels == s.labels })
		if i < 0 {
			all = append(all, s)
			continue
		}
		merged := append(slices.Clone(all[i].samples), s.samples...)
		slices.SortStableFunc(merged, func(a, b sample) int { return int(a.t - b.t) })
		all[i].samples = slices.CompactFunc(merged, func(a, b sample) bool { return a.t == b.t })
	}
	return all
}

// Series that the external labels make one are answered as one, in both forms of the answer alike,
// with the samples of all of them.
func TestExternalLabels_SeriesThatBecomeTheSame_AreAnsweredAsOne(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 25))
	for _, external := range []labels.Labels{
		labels.FromStrings("region", "eu"), labels.FromStrings("zone", "us"), labels.FromStrings("a", "x"),
		labels.FromStrings("region", "eu", "zone", "eu"), labels.FromStrings("job", "eu", "region", "us", "zone", "eu"), {},
	} {
		db := namesakesDB(t, r)
		var ext []labels.Label
		for l := range external.All() {
			ext = append(ext, l)
		}
		for _, cut := range []struct{ mint, maxt int64 }{{math.MinInt64, math.MaxInt64}, {3, 9}} {
			want := joined(stored(t, db, cut.mint, cut.maxt), ext)
			for _, mode := range []Mode{ModeSamples, ModeStreamed} {
				c := clientOf(t, ReadHandler(db, &ReadOptions{ExternalLabels: external, FrameBytes: 2000}), &ReadClientOptions{Mode: mode})
				got := collect(t, c.Select(context.Background(), cut.mint, cut.maxt, nil, everyMatcher()))
				require.Equal(t, want, got, "%v %v", external, mode)
			}
		}
	}
}

// The limit of samples counts what is answered: a time that namesakes share once.
func TestExternalLabels_SampleLimitCountsNamesakesAsOne(t *testing.T) {
	db, err := tsdb.Open(t.TempDir(), &tsdb.Options{Clock: tsdbtest.NewClock(time.UnixMilli(1 << 40))})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	app := db.Appender()
	for at := range int64(10) {
		for _, s := range []labels.Labels{labels.FromStrings("a", "1"), labels.FromStrings("a", "1", "region", "eu")} {
			_, err := app.Append(0, s, at, 1)
			require.NoError(t, err)
		}
	}
	_, err = app.Commit(context.Background())
	require.NoError(t, err)
	for limit, ok := range map[int]bool{9: false, 10: true} {
		h := ReadHandler(db, &ReadOptions{ExternalLabels: labels.FromStrings("region", "eu"), SampleLimit: limit})
		set := clientOf(t, h, &ReadClientOptions{Mode: ModeSamples}).Select(context.Background(), 0, 100, nil, everyMatcher())
		require.Equal(t, ok, set.Next(), limit)
		require.NoError(t, set.Close())
	}
}

func TestUnionIterator_AllSequencesOfThreeMoves_EqualTheSlice(t *testing.T) {
	want := []itertest.Sample{{T: 10, V: 1, ST: 9}, {T: 13, V: 1}, {T: 16, V: 1, ST: 15}, {T: 19, V: 2}, {T: 22, V: 2}}
	chunk := func(samples ...itertest.Sample) chunkenc.Chunk {
		var enc chunkenc.Encoder
		for _, s := range samples {
			require.NoError(t, enc.Append(s.T, s.V, s.ST))
		}
		c, err := chunkenc.FromData(enc.Encoding(), enc.AppendTo(nil))
		require.NoError(t, err)
		return c
	}
	first, twins := chunk(want[0], want[1], want[2]), chunk(itertest.Sample{T: 13, V: 7}, itertest.Sample{T: 16, V: 7}, want[3], want[4])
	between, none := chunk(want[1], want[3]), chunk()
	rest := chunk(want[0], want[2], want[4])
	for _, in := range [][]chunkenc.Chunk{{first, twins}, {between, rest}, {rest, none, between, first}} {
		require.NoError(t, itertest.CheckAll(want, 3, func() chunkenc.Iterator {
			var its []chunkenc.Iterator
			for _, c := range in {
				its = append(its, c.Iterator(nil))
			}
			return newUnion(its...)
		}))
	}
	require.NoError(t, itertest.CheckAll(nil, 2, func() chunkenc.Iterator { return newUnion(none.Iterator(nil), none.Iterator(nil)) }))
}

// One series of several that cannot be read ends the whole with its error, for good.
func TestUnionIterator_BehindDamage_StaysAtItsEndWithTheError(t *testing.T) {
	var enc chunkenc.Encoder
	for i := range int64(100) {
		require.NoError(t, enc.Append(i, rand.Float64(), 0))
	}
	data := enc.AppendTo(nil)
	whole, err := chunkenc.FromData(chunkenc.EncXOR, data)
	require.NoError(t, err)
	cut, err := chunkenc.FromData(chunkenc.EncXOR, data[:len(data)/2])
	require.NoError(t, err)
	u := newUnion(cut.Iterator(nil), whole.Iterator(nil))
	for b := chunkenc.NewBatch(9); u.NextBatch(b) != chunkenc.ValNone; {
	}
	for range 2 {
		require.Error(t, u.Err())
		require.Equal(t, chunkenc.ValNone, u.Seek(0))
		require.Equal(t, chunkenc.ValNone, u.Next())
	}
}
