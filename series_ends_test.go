package tsdb_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/internal/itertest"
	"github.com/seed347100a3/tsdb/labels"
)

// Over head and blocks, with gaps, deletes, overlaps, any range: loops, the newest sample and the
// bounds are those of all samples, of each series and of what any matchers select.
func TestSeries_SamplesLastAndBounds_AreThoseOfAllSamples(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(t, rt)
		reader, err := tsdb.OpenReadOnly("data", w.opts)
		require.NoError(rt, err)
		defer func() { require.NoError(rt, reader.Close()) }()
		for range 5 {
			mint, maxt := drawRange(rt)
			hints := &tsdb.SelectHints{Transient: rapid.Bool().Draw(rt, "transient"), MayBeEmpty: rapid.Bool().Draw(rt, "may be empty")}
			q, err := rapid.SampledFrom([]func(int64, int64) (*tsdb.Querier, error){w.db.Querier, reader.Querier}).Draw(rt, "of")(mint, maxt)
			require.NoError(rt, err)
			want := w.samples(mint, maxt)
			for s, err := range q.Select(ctx, hints).All() {
				require.NoError(rt, err)
				requireEnds(rt, s, want[s.Labels().String()], rapid.IntRange(0, 100).Draw(rt, "loop"))
			}
			var ms []*labels.Matcher
			if i := rapid.IntRange(-2, worldSeries).Draw(rt, "series"); i >= 0 {
				ms = append(ms, labels.Equal("n", fmt.Sprint(i)))
			}
			maps.DeleteFunc(want, func(key string, _ []itertest.Sample) bool { return len(ms) > 0 && key != keyOf(ms[0]) })
			requireBounds(rt, want, func() (int64, int64, tsdb.Warnings, error) { return q.Bounds(ctx, ms...) })
			require.NoError(rt, q.Close())
		}
		all := w.samples(math.MinInt64, math.MaxInt64)
		requireBounds(rt, all, func() (int64, int64, tsdb.Warnings, error) { return w.db.Bounds(ctx) })
		requireBounds(rt, all, func() (int64, int64, tsdb.Warnings, error) { return reader.Bounds(ctx) })
	})
}

// keyOf is the series of the world that a matcher on its number selects.
func keyOf(m *labels.Matcher) string {
	for i := range worldSeries {
		if m.Matches(fmt.Sprint(i)) {
			return worldLabels(i).String()
		}
	}
	return ""
}

// requireEnds compares what a series says of itself, also of a loop that ends after some samples.
func requireEnds(t require.TestingT, s *tsdb.Series, want []itertest.Sample, some int) {
	for _, n := range []int{some, math.MaxInt} {
		got := []itertest.Sample{}
		for at, v := range s.Samples() {
			if len(got) == n {
				break
			}
			got = append(got, itertest.Sample{T: at, V: v})
		}
		require.NoError(t, s.Err())
		require.Equal(t, append([]itertest.Sample{}, want[:min(n, len(want))]...), got)
	}
	last, ok, err := s.Last()
	require.NoError(t, err)
	mint, maxt, err := s.Bounds()
	require.NoError(t, err)
	if len(want) == 0 {
		require.False(t, ok)
		require.Equal(t, []int64{math.MaxInt64, math.MinInt64}, []int64{mint, maxt})
		return
	}
	newest := want[len(want)-1]
	require.True(t, ok)
	require.Equal(t, tsdb.Sample{T: newest.T, V: newest.V}, last)
	require.Equal(t, []int64{want[0].T, newest.T}, []int64{mint, maxt})
}

func requireBounds(t require.TestingT, want map[string][]itertest.Sample, bounds func() (int64, int64, tsdb.Warnings, error)) {
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, all := range want {
		if len(all) > 0 {
			first, last = min(first, all[0].T), max(last, all[len(all)-1].T)
		}
	}
	mint, maxt, warnings, err := bounds()
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, []int64{first, last}, []int64{mint, maxt})
}

// kindsOf opens a database with a float, a histogram, and one with float counts behind them, in
// blocks or in the head.
func kindsOf(t *testing.T, flush bool) (f *fixture, ls labels.Labels) {
	f = newFixture(t, nil)
	ls = labels.FromStrings("a", "1")
	h := &histogram.Histogram{Count: 2, ZeroCount: 2, Sum: 1}
	app := f.db.Appender()
	for _, s := range []tsdb.Sample{{T: 1000, V: 1}, {T: 2000, ST: 500, H: h}, {T: 3000, FH: histtest.Floats(h)}} {
		_, err := app.AppendSample(0, ls, s)
		require.NoError(t, err)
	}
	_, err := app.Commit(ctx)
	require.NoError(t, err)
	if flush {
		require.NoError(t, f.db.Flush(ctx))
	}
	return f, ls
}

func TestSeries_Last_IsOfAnyKind(t *testing.T) {
	for name, flush := range map[string]bool{"head": false, "block": true} {
		t.Run(name, func(t *testing.T) {
			f, _ := kindsOf(t, flush)
			for maxt, check := range map[int64]func(tsdb.Sample){
				1500: func(s tsdb.Sample) { require.Equal(t, tsdb.Sample{T: 1000, V: 1}, s) },
				2500: func(s tsdb.Sample) {
					require.Equal(t, [2]int64{2000, 500}, [2]int64{s.T, s.ST})
					require.EqualValues(t, 2, s.H.Count)
					require.Nil(t, s.FH)
				},
				3500: func(s tsdb.Sample) {
					require.EqualValues(t, 3000, s.T)
					require.EqualValues(t, 2, s.FH.Count)
					require.Nil(t, s.H)
				},
			} {
				s := f.one(0, maxt)
				last, ok, err := s.Last()
				require.NoError(t, err)
				require.True(t, ok)
				check(last)
				mint, to, err := s.Bounds()
				require.NoError(t, err)
				require.Equal(t, []int64{1000, last.T}, []int64{mint, to})
				n := 0
				for at, v := range s.Samples() { // histograms are left out
					require.Equal(t, [2]float64{1000, 1}, [2]float64{float64(at), v})
					n++
				}
				require.NoError(t, s.Err())
				require.Equal(t, 1, n)
			}
		})
	}
}

// one returns the only series of a range, good until the test ends.
func (f *fixture) one(mint, maxt int64) *tsdb.Series {
	f.t.Helper()
	q, err := f.db.Querier(mint, maxt)
	require.NoError(f.t, err)
	f.t.Cleanup(func() { require.NoError(f.t, q.Close()) })
	set := q.Select(ctx, nil)
	require.True(f.t, set.Next())
	return set.At()
}

// Bounds of a chunk of a foreign block may be wrong: the newest sample is the one that is there.
func TestSeries_Last_BelievesSamplesMoreThanBounds(t *testing.T) {
	m := newMergeTest(t)
	c := floats(10, 1, 20, 2)
	c.MaxT = 50
	m.block(0, 100, blockSeries{Labels: worldLabels(0), Chunks: []blockdir.Chunk{c}})
	db, err := tsdb.Open("data", &tsdb.Options{FS: m.fs, Clock: m.clock, Blocks: tsdb.BlockOptions{Manual: true}})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	q, err := db.Querier(0, 100)
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	set := q.Select(ctx, nil)
	require.True(t, set.Next())
	last, ok, err := set.At().Last()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, tsdb.Sample{T: 20, V: 2}, last)
}

// What cannot be read is told, by each of them, of its series and of no other one; a loop that goes
// well afterwards takes it back.
func TestSeries_ThatIsDamaged_SaysSo(t *testing.T) {
	f := newFixture(t, nil)
	f.commit(sample{`{i="0"}`, 1000, 1}, sample{`{i="0"}`, 2000, 2}, sample{`{i="0"}`, 3000, 3}, sample{`{i="1"}`, 1000, 1})
	require.NoError(t, f.db.Flush(ctx))
	flipByte(t, f.fs, filepath.Join("data", f.db.Blocks()[0].ULID.String(), "chunks", "000001"), 8+6) // in the first chunk
	for _, transient := range []bool{false, true} {
		q, err := f.db.Querier(0, 2500)
		require.NoError(t, err)
		set := q.Select(ctx, &tsdb.SelectHints{Transient: transient})
		require.True(t, set.Next())
		s := set.At()
		for range s.Samples() {
			t.Fatal("a sample of a damaged chunk")
		}
		require.ErrorIs(t, s.Err(), tsdb.ErrCorrupt)
		_, ok, err := s.Last()
		require.ErrorIs(t, err, tsdb.ErrCorrupt)
		require.False(t, ok)
		_, _, err = s.Bounds() // the range cuts into the chunk
		require.ErrorIs(t, err, tsdb.ErrCorrupt)
		_, _, _, err = q.Bounds(ctx, labels.Equal("i", "0"))
		require.ErrorIs(t, err, tsdb.ErrCorrupt)
		require.ErrorIs(t, s.Err(), tsdb.ErrCorrupt, "it stays")
		require.True(t, set.Next())
		require.NoError(t, set.At().Err())
		for range set.At().Samples() {
		}
		require.NoError(t, set.At().Err())
		require.NoError(t, q.Close())
		for range set.At().Samples() {
			t.Fatal("a sample of a closed Querier")
		}
		require.ErrorIs(t, set.At().Err(), tsdb.ErrClosed)
		_, _, err = set.At().Last()
		require.ErrorIs(t, err, tsdb.ErrClosed)
		mint, maxt, err := set.At().Bounds()
		require.ErrorIs(t, err, tsdb.ErrClosed)
		require.Greater(t, mint, maxt)
		_, _, _, err = q.Bounds(ctx)
		require.ErrorIs(t, err, tsdb.ErrClosed)
	}
}

func TestBounds_OfNothing(t *testing.T) {
	f := newFixture(t, nil)
	mint, maxt, warnings, err := f.db.Bounds(ctx)
	require.NoError(t, err)
	require.Empty(t, warnings)
	require.Equal(t, []int64{math.MaxInt64, math.MinInt64}, []int64{mint, maxt})
	var none context.Context
	_, _, _, err = f.db.Bounds(none)
	require.ErrorIs(t, err, tsdb.ErrInvalidArgument)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	f.commit(sample{`{i="0"}`, 1000, 1})
	_, _, _, err = f.db.Bounds(ended)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, f.db.Close())
	_, _, _, err = f.db.Bounds(ctx)
	require.ErrorIs(t, err, tsdb.ErrClosed)
	f.open()
}

// Series are for any number of goroutines at once.
func TestSeries_EndsAndLoops_ByManyGoroutines(t *testing.T) {
	f := newFixture(t, nil)
	for i := range int64(300) {
		f.commit(sample{`{i="0"}`, 1000 * i, float64(i)})
	}
	require.NoError(t, f.db.Flush(ctx))
	f.commit(sample{`{i="0"}`, 1_000_000, 5})
	s := f.one(500, 1_000_000)
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			for range 50 {
				n := 0
				for range s.Samples() {
					n++
				}
				last, _, err := s.Last()
				mint, maxt, err2 := s.Bounds()
				if err = errors.Join(err, err2, s.Err()); err != nil || n != 300 || last.V != 5 || mint != 1000 || maxt != 1_000_000 {
					errs[i] = errors.Join(err, fmt.Errorf("%d samples, %v, %d to %d", n, last, mint, maxt))
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
}

// Flushes split chunks, and the last one writes them, while the ends of their series are looked for
// in a range that cuts into them from both sides.
func TestSeries_Ends_BesideFlushes(t *testing.T) {
	const n = 1000
	for range 3 {
		f := newFixture(t, func(o *tsdb.Options) { o.Blocks.Manual = true })
		for k := range int64(60) {
			app := f.db.Appender()
			for i := range n {
				_, err := app.Append(0, labels.FromStrings("i", fmt.Sprint(i)), 1000*k, float64(k))
				require.NoError(t, err)
			}
			_, err := app.Commit(ctx)
			require.NoError(t, err)
		}
		q, err := f.db.Querier(4500, 55_500)
		require.NoError(t, err)
		var all []*tsdb.Series
		for s, err := range q.Select(ctx, nil).All() {
			require.NoError(t, err)
			all = append(all, s)
		}
		require.Len(t, all, n)
		flushed := make(chan error, 1)
		go func() {
			for border := int64(54_500); border > 5000; border -= 1000 {
				tsdb.CutAt(f.db, border)
			}
			flushed <- f.db.Flush(ctx)
		}()
		for i := 0; len(flushed) == 0; i = (i + 7) % n { // not one behind the other: those are read ahead
			mint, maxt, err := all[i].Bounds()
			if err != nil || mint != 5000 || maxt != 55_000 {
				t.Fatalf("%d to %d, %v", mint, maxt, err)
			}
			last, ok, err := all[i].Last()
			if err != nil || !ok || last != (tsdb.Sample{T: 55_000, V: 55}) {
				t.Fatalf("the last one is %v (%v), %v", last, ok, err)
			}
		}
		require.NoError(t, <-flushed)
		require.NoError(t, q.Close())
	}
}

// Loops and ends of passing series allocate nothing for each.
func TestSeries_EndsAndLoops_AllocateNothing(t *testing.T) {
	f := newFixture(t, nil)
	const n = 3000
	var rows []sample
	for i := range n {
		rows = append(rows, sample{fmt.Sprintf(`{i="%04d"}`, i), 1000, 1}, sample{fmt.Sprintf(`{i="%04d"}`, i), 2000, 1})
	}
	f.commit(rows...)
	for _, place := range []string{"head", "block"} {
		if place == "block" {
			require.NoError(t, f.db.Flush(ctx))
		}
		for name, do := range map[string]func(*tsdb.Series) error{
			"nothing": func(*tsdb.Series) error { return nil },
			"Samples": func(s *tsdb.Series) error {
				for range s.Samples() {
				}
				return s.Err()
			},
			"Last": func(s *tsdb.Series) error {
				_, _, err := s.Last()
				return err
			},
			"Bounds": func(s *tsdb.Series) error {
				_, _, err := s.Bounds()
				return err
			},
		} {
			allocs := testing.AllocsPerRun(10, func() {
				q, err := f.db.Querier(0, 10_000)
				require.NoError(t, err)
				set := q.Select(ctx, &tsdb.SelectHints{Transient: true, MayBeEmpty: true})
				for set.Next() {
					err = errors.Join(err, do(set.At()))
				}
				require.NoError(t, errors.Join(err, set.Err(), q.Close()))
			})
			require.Less(t, allocs, float64(n/10), "%s of the %s", name, place)
		}
	}
}
