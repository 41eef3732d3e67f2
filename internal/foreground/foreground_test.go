package foreground_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/foreground"
)

// turns returns how many of n steps let a goroutine that is ready run, on one processor.
func turns(n int, step func()) (seen int) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var turn atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				turn.Add(1)
				runtime.Gosched()
			}
		}
	}()
	runtime.Gosched()
	for range n {
		before := turn.Load()
		step()
		if turn.Load() > before {
			seen++
		}
	}
	close(stop)
	<-done
	return seen
}

// The scheduler takes the same one twice now and then, and preempts for reasons of its own:
// the bounds leave room for a tenth of the turns.
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
