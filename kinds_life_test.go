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
	"github.com/seed347100a3/tsdb/histogram"
	"github.com/seed347100a3/tsdb/internal/histtest"
	"github.com/seed347100a3/tsdb/internal/sweep"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/labels"
)

// anyWorld is a database with samples of every kind, beside what is in it.
type anyWorld struct {
	*fixture
	rnd  *rand.Rand
	want map[string][]anySample
	now  int64 // time of the newest sample

	kinds map[string]chunkenc.ValueType // of the newest sample
	hists map[string]*histogram.Histogram
}

// anySeries are how often samples of a series have a start timestamp, in percent, and of which
// kinds they are.
var anySeries = map[string]struct {
	started int
	kinds   []chunkenc.ValueType
}{
	`{s="always"}`:         {100, []chunkenc.ValueType{chunkenc.ValFloat}},
	`{s="never"}`:          {0, []chunkenc.ValueType{chunkenc.ValFloat}},
	`{s="half"}`:           {50, []chunkenc.ValueType{chunkenc.ValFloat}},
	`{s="now and then"}`:   {3, []chunkenc.ValueType{chunkenc.ValFloat}},
	`{s="histograms"}`:     {0, []chunkenc.ValueType{chunkenc.ValHistogram}},
	`{s="floats of them"}`: {30, []chunkenc.ValueType{chunkenc.ValFloatHistogram}},
	`{s="all kinds"}`:      {10, []chunkenc.ValueType{chunkenc.ValFloat, chunkenc.ValHistogram, chunkenc.ValFloatHistogram}},
}

// draw makes the next sample of a series.
func (w *anyWorld) draw(key string, st int64) (s anySample) {
	series := anySeries[key]
	s.T = w.now
	if w.rnd.IntN(100) < series.started {
		s.ST = st
	}
	if w.kinds[key] == chunkenc.ValNone || w.rnd.IntN(20) == 0 {
		w.kinds[key], w.hists[key] = some(w.rnd, series.kinds...), histtest.Draw(w.rnd.Int64N)
	}
	h := w.hists[key]
	w.hists[key] = histtest.Follow(w.rnd.Int64N, h)
	switch w.kinds[key] {
	case chunkenc.ValHistogram:
		s.H = h
	case chunkenc.ValFloatHistogram:
		s.FH = histtest.Floats(h)
	default:
		s.V = math.Float64bits(float64(w.now))
	}
	return s
}

// some draws one of a few.
func some[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// append appends some rounds of samples, each in a commit of its own or all of them in one.
func (w *anyWorld) append() {
	rounds, alone := some(w.rnd, 1, 2, 30, 130), some(w.rnd, false, true)
	app := w.db.Appender()
	st := w.now
	for i := range rounds {
		w.now += some[int64](w.rnd, 1, 15_000, 15_000, 15_000, 70_000)
		if i%20 == 0 {
			st = w.now - w.rnd.Int64N(5000) + 5
		}
		for _, key := range slices.Sorted(maps.Keys(anySeries)) {
			s := w.draw(key, st)
			_, err := app.AppendSample(0, series(w.t, key), tsdb.Sample{T: s.T, ST: s.ST, V: math.Float64frombits(s.V), H: s.H, FH: s.FH})
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
func (w *anyWorld) remove() {
	gone := tombstones.Interval{Mint: w.now - w.rnd.Int64N(3_600_000)}
	gone.Maxt = gone.Mint + w.rnd.Int64N(600_000)
	ms, err := labels.ParseSelector(`{s=~"always|half|histograms|all kinds"}`)
	require.NoError(w.t, err)
	require.NoError(w.t, w.db.Delete(ctx, gone.Mint, gone.Maxt, ms...))
	for _, key := range []string{`{s="always"}`, `{s="half"}`, `{s="histograms"}`, `{s="all kinds"}`} {
		w.want[key] = slices.DeleteFunc(w.want[key], func(s anySample) bool { return gone.Contains(s.T) })
	}
}

// kill goes on with what a killed process leaves.
func (w *anyWorld) kill() {
	left := w.fs.KillClone()
	require.NoError(w.t, w.db.Close())
	w.fs, w.opts.FS = left, left
	w.open()
	report := w.db.OpenReport()
	require.True(w.t, report.Clean())
}

func (w *anyWorld) check(step string) {
	w.t.Helper()
	defer func() {
		if w.t.Failed() {
			w.t.Log("behind", step)
		}
	}()
	requireAny(w.t, w.db, w.want, math.MinInt64, math.MaxInt64)
	requireAny(w.t, w.db, w.want, w.now-1_000_000, w.now-100_000)
}

// Whatever becomes of samples, each stays what it is, with its start timestamp: in the open chunk
// and in full ones, in the log and after a kill, in snapshots of the head, in blocks and in what
// they are merged to.
func TestKinds_ThroughALife(t *testing.T) {
	t.Parallel()
	n := 12
	if !sweep.Whole() {
		n = fewer(4, 2)
	}
	for _, seed := range sweep.Seeds(t, n) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := &anyWorld{rnd: rand.New(rand.NewPCG(seed, 9)), want: map[string][]anySample{}, now: testNow.UnixMilli(),
				kinds: map[string]chunkenc.ValueType{}, hists: map[string]*histogram.Histogram{}}
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
