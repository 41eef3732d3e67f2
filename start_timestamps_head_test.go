package tsdb_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/labels"
)

// startedWorld is a database whose samples may have start timestamps, beside what is in it.
type startedWorld struct {
	*fixture
	rnd  *rand.Rand
	want map[string][]started
	now  int64 // time of the newest sample
}

// startedSeries are how often samples of a series have a start timestamp, in percent.
var startedSeries = map[string]int{`{s="always"}`: 100, `{s="never"}`: 0, `{s="half"}`: 50, `{s="now and then"}`: 3}

// some draws one of a few.
func some[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// append appends some rounds of samples, each in a commit of its own or all of them in one.
func (w *startedWorld) append() {
	rounds, alone := some(w.rnd, 1, 2, 30, 130), some(w.rnd, false, true)
	app := w.db.Appender()
	st := w.now
	for i := range rounds {
		w.now += some[int64](w.rnd, 1, 15_000, 15_000, 15_000, 70_000)
		if i%20 == 0 {
			st = w.now - w.rnd.Int64N(5000) + 5
		}
		for _, key := range slices.Sorted(maps.Keys(startedSeries)) {
			s := started{T: w.now, V: math.Float64bits(float64(i))}
			if w.rnd.IntN(100) < startedSeries[key] {
				s.ST = st
			}
			_, err := app.AppendSample(0, series(w.t, key), tsdb.Sample{T: s.T, ST: s.ST, V: float64(i)})
			require.NoError(w.t, err)
			w.want[key] = append(w.want[key], s)
		}
		if alone || i == rounds-1 {
			res, err := app.Commit(ctx)
			require.NoError(w.t, err)
			require.Empty(w.t, res.Rejected)
			app = w.db.Appender()
		}
	}
	require.NoError(w.t, app.Rollback())
	w.clock.Set(time.UnixMilli(w.now))
}

// remove deletes a part of two series.
func (w *startedWorld) remove() {
	gone := tombstones.Interval{Mint: w.now - w.rnd.Int64N(3_600_000)}
	gone.Maxt = gone.Mint + w.rnd.Int64N(600_000)
	ms, err := labels.ParseSelector(`{s=~"always|half"}`)
	require.NoError(w.t, err)
	require.NoError(w.t, w.db.Delete(ctx, gone.Mint, gone.Maxt, ms...))
	for _, key := range []string{`{s="always"}`, `{s="half"}`} {
		w.want[key] = slices.DeleteFunc(w.want[key], func(s started) bool { return gone.Contains(s.T) })
	}
}

// kill goes on with what a killed process leaves.
func (w *startedWorld) kill() {
	left := w.fs.KillClone()
	require.NoError(w.t, w.db.Close())
	w.fs, w.opts.FS = left, left
	w.open()
	report := w.db.OpenReport()
	require.True(w.t, report.Clean())
}

func (w *startedWorld) check(step string) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			w.t.Log("behind", step)
		}
	}()
	requireStarted(w.t, w.db, w.want, math.MinInt64, math.MaxInt64)
	requireStarted(w.t, w.db, w.want, w.now-1_000_000, w.now-100_000)
}

// Whatever becomes of samples, each keeps its start timestamp: in the open chunk and in full ones, in
// the log and after a kill, in snapshots of the head, in blocks and in what they are merged to.
func TestStartTimestamps_ThroughALife(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &startedWorld{rnd: rand.New(rand.NewPCG(seed, 9)), want: map[string][]started{}, now: testNow.UnixMilli()}
			w.fixture = newFixture(t, func(o *tsdb.Options) {
				o.Blocks = tsdb.BlockOptions{Manual: true, Range: 10 * time.Minute}
				o.Head.SamplesPerChunk = some(w.rnd, 16, 120)
				o.Head.SnapshotThreshold = 1 << 10
			})
			steps := map[string]func(){
				"append": w.append,
				"delete": w.remove,
				"kill":   w.kill,
				"reopen": w.reopen,
				"flush":  func() { require.NoError(t, w.db.Flush(ctx)) },
				"compact": func() {
					require.NoError(t, w.db.Compact(ctx))
				},
				"clean": func() { require.NoError(t, w.db.CleanTombstones(ctx)) },
			}
			names := slices.Sorted(maps.Keys(steps))
			w.append()
			for range 25 {
				name := some(w.rnd, append(names, "append", "append")...)
				steps[name]()
				w.check(name)
			}
		})
	}
}

// Chunks are of the usual encoding unless a start timestamp is there.
func TestStartTimestamps_CostNothingElsewhere(t *testing.T) {
	f := newFixture(t, func(o *tsdb.Options) { o.Blocks.Manual = true })
	base := testNow.UnixMilli()
	for i := range int64(300) {
		app := f.db.Appender()
		for key, st := range map[string]int64{`{s="plain"}`: 0, `{s="started"}`: base} {
			_, err := app.AppendSample(0, series(t, key), tsdb.Sample{T: base + i*1000, ST: st, V: float64(i)})
			require.NoError(t, err)
		}
		_, err := app.Commit(ctx)
		require.NoError(t, err)
	}
	want := map[string]chunkenc.Encoding{`{s="plain"}`: chunkenc.EncXOR, `{s="started"}`: chunkenc.EncXOR2}
	check := func() {
		t.Helper()
		q, err := f.db.Querier(math.MinInt64, math.MaxInt64)
		require.NoError(t, err)
		defer func() { require.NoError(t, q.Close()) }()
		for s, err := range q.SelectChunks(ctx, nil).All() {
			require.NoError(t, err)
			n := 0
			it := s.Chunks(nil)
			for ; it.Next(); n++ {
				require.Equal(t, want[s.Labels().String()], it.At().Chunk.Encoding())
				require.LessOrEqual(t, it.At().Chunk.NumSamples(), 240)
			}
			require.NoError(t, it.Err())
			require.Greater(t, n, 1)
		}
	}
	check()
	f.reopen()
	check()
	require.NoError(t, f.db.Flush(ctx))
	check()
}

// Two samples of one time and one value are the same sample, whatever their start timestamps.
func TestStartTimestamps_OfARepeat_DoNotCount(t *testing.T) {
	f := newFixture(t, nil)
	at := testNow.UnixMilli()
	put := func(st int64, v float64) error {
		app := f.db.Appender()
		_, err := app.AppendSample(0, series(t, `{a="b"}`), tsdb.Sample{T: at, ST: st, V: v})
		if err != nil {
			require.NoError(t, app.Rollback())
			return err
		}
		_, err = app.Commit(ctx)
		return err
	}
	require.NoError(t, put(at-5, 1))
	require.NoError(t, put(at-7, 1))
	require.NoError(t, put(0, 1))
	require.ErrorIs(t, put(at-5, 2), tsdb.ErrDuplicateSample)
	requireStarted(t, f.db, map[string][]started{`{a="b"}`: {{T: at, ST: at - 5, V: math.Float64bits(1)}}}, math.MinInt64, math.MaxInt64)
}
