package foreground_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/foreground"
	"github.com/seed347100a3/tsdb/internal/waytest"
)

// turns returns how many turns others had in so many steps. The bounds of the tests leave room for
// a tenth of them.
func turns(n int, step func()) int {
	return waytest.Count(func() {
		for range n {
			step()
		}
	}, runtime.Gosched)
}

func TestMakeWay_AlwaysWhileSomethingIsUnderWay(t *testing.T) {
	foreground.Begin()
	defer foreground.End()
	require.GreaterOrEqual(t, turns(100, foreground.MakeWay), 90)
}

func TestMakeWay_NowAndThenWhileNothingIsKnown(t *testing.T) {
	seen := turns(800, foreground.MakeWay)
	require.GreaterOrEqual(t, seen, 90)
	require.Less(t, seen, 400)
}

func TestSteps_MakesWayOnceInSoMany(t *testing.T) {
	foreground.Begin()
	defer foreground.End()
	var s foreground.Steps
	seen := turns(1000, func() { s.Step(4) })
	require.GreaterOrEqual(t, seen, 225)
	require.Less(t, seen, 500)
}

func TestSteps_AddMakesWayOnceInSoMany(t *testing.T) {
	foreground.Begin()
	defer foreground.End()
	var s foreground.Steps
	seen := turns(1000, func() { s.Add(30, 100) })
	require.GreaterOrEqual(t, seen, 225)
	require.Less(t, seen, 500)
}

// A query keeps its processor as long as nothing is done that can wait, whatever was done before.
func TestPauses_OnlyBesideMaintenance(t *testing.T) {
	foreground.MakeWay()
	require.Less(t, turns(1000, func() {
		var q foreground.Pauses
		for range 4 {
			q.Step(1)
		}
	}), 100)
}

func TestPauses_OnceInSoManyBesideMaintenance(t *testing.T) {
	const least = 180 + 90
	seen := 0
	for range 100 { // after a pause that takes long, as the system has others to run, the next one comes later
		var q foreground.Pauses
		seen = turns(1000, func() {
			foreground.MakeWay() // an eighth of the turns are its
			q.Step(4)
			spin(2 * time.Microsecond)
		})
		require.Less(t, seen, 600)
		if seen >= least {
			break
		}
	}
	require.GreaterOrEqual(t, seen, least)
}

// spin computes for a while.
func spin(d time.Duration) {
	for start := time.Now(); time.Since(start) < d; {
	}
}

// Beside others who compute a query has half of a processor.
func TestPauses_NotAsOftenAsOthersTakeLong(t *testing.T) {
	var q foreground.Pauses
	q.Step(1)
	var took time.Duration
	seen := waytest.Count(func() {
		start := time.Now()
		for steps := 0; steps < 1000 || took < 100*time.Millisecond; steps++ {
			q.Step(1)
			took = time.Since(start)
		}
	}, func() {
		spin(time.Millisecond)
		foreground.NoteWay()
		runtime.Gosched()
	})
	require.Positive(t, seen)
	// Each is followed by as much for the query; the scheduler has its own reasons once in ten
	// milliseconds.
	require.LessOrEqual(t, seen, int(took/(2*time.Millisecond)+took/(10*time.Millisecond)), "turns of a millisecond in %v", took)
}

// A query pauses for those who wait behind it, not for maintenance.
func TestPauses_MaintenanceComesLast(t *testing.T) {
	foreground.Begin()
	defer foreground.End()
	var q foreground.Pauses
	require.Less(t, waytest.Count(func() {
		for range 1000 {
			q.Step(1)
		}
	}, foreground.MakeWay), 10)
}
