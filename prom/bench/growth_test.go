package bench

import (
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pkg/errors"
	"github.com/stretchr/testify/require"
)

// A cost that is there for each series may grow as the logarithm of their number, and by what a
// measurement differs by.
func TestCurve_Judge_AllowsALogarithm(t *testing.T) {
	line := func(engine string, of func(n float64) float64) Line {
		l := Line{Engine: engine, Procs: 1}
		for _, n := range []int{1000, 10_000, 1_000_000} {
			l.Points = append(l.Points, Point{n, of(float64(n))})
		}
		return l
	}
	constant := func(float64) float64 { return 3 }
	logarithm := func(n float64) float64 { return 5 * math.Log(n) }
	root := func(n float64) float64 { return math.Sqrt(n) }
	c := Curve{Grows: growsEach, Lines: []Line{line(Ours, constant), line(Ours, logarithm)}}
	require.InDelta(t, 1, growth(c.Lines[1]), 1e-9)
	require.True(t, c.judge().reached)
	require.Contains(t, c.judge().text, "ours, GOMAXPROCS=1 0.67 (0.50); ours, GOMAXPROCS=1 1.00 (1.00). Goal for ours <= 1.25: PASS")
	c.Lines = append(c.Lines, line(Reference, root))
	require.Contains(t, c.judge().text, "PASS", "the goal is ours")
	c.Lines = append(c.Lines, line(Ours, root))
	require.Contains(t, c.judge().text, "SHORT")
	require.False(t, c.judge().reached)
	c.Grows = ""
	require.Empty(t, c.judge().text)
	c = Curve{Grows: growsEach, Lines: []Line{{Engine: Ours, Points: []Point{{10, 1}}}}}
	require.Empty(t, c.judge().text, "one point is no curve")
}

// What is flat stays within its bound, whatever the number of series is: a line that grows with
// it does not pass because it grows evenly.
func TestCurve_Judge_FlatStaysWithinABound(t *testing.T) {
	flat := func(values ...float64) Curve {
		l := Line{Engine: Ours}
		for i, v := range values {
			l.Points = append(l.Points, Point{100 << i, v})
		}
		return Curve{Name: "flat", Grows: growsFlat, Bound: 8, Lines: []Line{l, {Engine: Reference, Points: []Point{{100, 99}}}}}
	}
	require.Equal(t, judgement{"The most: ours 7.90; reference 99.0. Goal for ours <= 8.00: PASS", true}, flat(7, 7.9, 7.5).judge())
	require.False(t, flat(2, 4, 8, 16).judge().reached)
	require.False(t, flat(16, 2).judge().reached, "the last one is not all")
	for _, bad := range []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.False(t, flat(1, bad).judge().reached, bad)
		require.False(t, flat(bad, 1).judge().reached, bad)
		c := flat(bad, 1)
		c.Grows = growsEach
		require.False(t, c.judge().reached, bad)
		c = flat(1, bad)
		c.Grows = growsEach
		require.Contains(t, c.judge().text, "SHORT", bad)
	}
	for _, c := range remoteCurveFigures {
		require.Equal(t, growsFlat, c.Grows)
		require.Greater(t, c.Bound, 0.0)
	}
	old := Report{Curves: []Curve{{Name: "remote-chunks", Grows: "all", Lines: []Line{{Engine: Ours, Points: []Point{{100, 9}}}}}}}
	require.False(t, Report{}.over(old).Curves[0].judge().reached, "measured before, judged as it is now")
	require.Equal(t, "1 of 2 goals are reached; short: curve flat.", Report{Curves: []Curve{flat(1), flat(9)}}.verdict())
}

func TestParallel_DoesAllAndTellsWhatFailed(t *testing.T) {
	var sum atomic.Int64
	require.NoError(t, parallel(5, func(i int) error { sum.Add(int64(i)); return nil }))
	require.EqualValues(t, 10, sum.Load())
	failed := errors.New("failed")
	require.ErrorIs(t, parallel(3, func(i int) error {
		if i == 1 {
			return failed
		}
		return nil
	}), failed)
}

// Engines that find something else in the same data are not compared.
func TestCompare_Agree_KnowsQueriesAndWarmup(t *testing.T) {
	for _, row := range []string{"queries/panel", "queries/one/over", "warmup", "warmuplog/scan", "agg/rate", firstLabels} {
		for _, what := range []string{"/series", "/samples", "/check"} {
			c := &comparison{Config: tiny(), all: map[string]map[string][]float64{row + what: {Ours: {1}, Reference: {1}}}}
			require.NoError(t, c.agree())
			c.all[row+what][Reference][0] = 2
			require.ErrorContains(t, c.agree(), row+what)
		}
	}
}

// A row without a figure has not reached its goal.
func TestReport_RowThatIsNotKnown_IsShort(t *testing.T) {
	c := &comparison{Config: tiny(), all: map[string]map[string][]float64{"append/cpu": {Ours: {1}, Reference: {1}}}}
	rep, err := c.report()
	require.NoError(t, err)
	i := slices.IndexFunc(rep.Rows, func(r Row) bool { return r.Name == "append/gc" })
	require.False(t, rep.Rows[i].Reached())
	require.Contains(t, rep.Rows[i].goalText(), "SHORT (not known)")
	require.Contains(t, rep.Missed(), "append/gc")
	require.Contains(t, rep.String(), "one run")
}

// What garbage collection takes is a part of what was done meanwhile; work without a collection
// gets a whole one.
func TestSpent_NoteGC_IsAPartOrAllOfOne(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // only when it is told to
	before := nowCollected()
	cost := now().since(before)
	m := measures{}
	require.Zero(t, cost.collections)
	cost.cpu = time.Second
	cost.noteGC(m, "append/gc")
	require.Greater(t, m["append/gc"], 0.0)

	before = nowCollected()
	var kept [][]byte
	for range 100 {
		kept = append(kept, make([]byte, 1<<20))
		runtime.GC()
	}
	cost = now().since(before)
	require.Len(t, kept, 100)
	require.EqualValues(t, 100, cost.collections)
	cost.noteGC(m, "append/gc")
	require.Greater(t, m["append/gc"], 0.0)
	require.LessOrEqual(t, cost.runtime.gc, cost.wall.Seconds()*float64(runtime.GOMAXPROCS(0)))

	// What was spent before the work began is no part of its share.
	cost = spent{cpu: 2 * time.Second, collections: 1, runtime: runtimeTime{gc: 0.5}}
	cost.noteGC(m, "append/gc")
	require.Equal(t, 0.25, m["append/gc"])
}

// Without a limit there is nothing to measure.
func TestLimited_WithoutAPeak_IsAnError(t *testing.T) {
	_, err := task{Kind: "limited", Engine: Ours, Dir: t.TempDir()}.run()
	require.ErrorContains(t, err, "not known")
}
