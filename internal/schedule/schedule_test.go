package schedule_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/schedule"
	"github.com/seed347100a3/tsdb/tsdbtest"
)

const patience = 20 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// quick is the system's clock with ticks that follow each other at once.
type quick struct{ clock.Clock }

func (quick) NewTicker(time.Duration) clock.Ticker { return clock.System.NewTicker(time.Millisecond) }

// Whatever number there is of them, all that is done as often has one ticker and one goroutine, and
// none when nobody is left.
func TestScheduler_SharesATickerAndAGoroutine(t *testing.T) {
	c := tsdbtest.NewClock(time.UnixMilli(0))
	s := schedule.New(c)
	before := runtime.NumGoroutine()
	require.Zero(t, c.Tickers())
	const some = 100
	var seconds, minutes [some]int
	var members [some][2]*schedule.Member
	for i := range members {
		members[i] = [...]*schedule.Member{s.Every(time.Second, func() { seconds[i]++ }), s.Every(time.Minute, func() { minutes[i]++ })}
	}
	stop := func(from, to int) {
		for _, pair := range members[from:to] {
			for _, m := range pair {
				m.Stop()
				m.Stop()
			}
		}
	}
	require.Equal(t, 2, c.Tickers())
	require.Equal(t, before+2, runtime.NumGoroutine())
	c.Advance(time.Minute)
	stop(30, 70)
	c.Advance(time.Minute)
	stop(0, 30)
	stop(70, some)
	require.Zero(t, c.Tickers())
	for i := range members { // the last tick before a Stop may be too late
		want := 120
		if i >= 30 && i < 70 {
			want = 60
		}
		require.InDelta(t, want-1, seconds[i], 1)
		require.InDelta(t, want/60, minutes[i], 1)
	}
	again := s.Every(time.Second, func() {})
	require.Equal(t, 1, c.Tickers())
	again.Stop()
	require.Zero(t, c.Tickers())
}

// A job has a goroutine while it runs, is never run twice at a time, and what comes meanwhile makes
// it run once more.
func TestJob_RunsOnceMoreForAllThatComeMeanwhile(t *testing.T) {
	enter, leave := make(chan struct{}), make(chan struct{})
	j := schedule.NewJob(func() { enter <- struct{}{}; <-leave })
	require.True(t, j.Idle())
	require.True(t, j.Begin())
	<-enter
	require.False(t, j.Idle())
	for range 5 {
		require.False(t, j.Begin())
	}
	leave <- struct{}{}
	<-enter
	leave <- struct{}{}
	require.Eventually(t, j.Idle, patience, time.Millisecond)
	m := schedule.New(tsdbtest.NewClock(time.UnixMilli(0))).Every(time.Second, nil, j)
	m.Stop()
	require.False(t, j.Begin(), "it is stopped")
	require.False(t, j.Idle())
}

// Stop waits for what runs, and nothing runs behind it.
func TestStop_WaitsForTheJob(t *testing.T) {
	s := schedule.For(quick{clock.System})
	var running, runs atomic.Int32
	begun := make(chan struct{}, 100)
	j := schedule.NewJob(func() {
		running.Add(1)
		defer running.Add(-1)
		runs.Add(1)
		select {
		case begun <- struct{}{}:
		default:
		}
		runtime.Gosched()
	})
	m := s.Every(time.Hour, nil, j)
	<-begun
	<-begun
	m.Stop()
	require.Zero(t, running.Load())
	n := runs.Load()
	j.Begin()
	require.Equal(t, n, runs.Load())
}

// By the system's clock a job that takes long makes no other late; by another one the next tick
// waits for it, so that a test knows what is done.
func TestScheduler_SlowJobs(t *testing.T) {
	s := schedule.System
	release := make(chan struct{})
	slow := schedule.NewJob(func() { <-release })
	var looks atomic.Int32
	a := s.Every(time.Millisecond, nil, slow)
	b := s.Every(time.Millisecond, func() { looks.Add(1) })
	n := looks.Load()
	require.Eventually(t, func() bool { return looks.Load() > n+3 }, patience, time.Millisecond)
	close(release)
	a.Stop()
	b.Stop()

	c := tsdbtest.NewClock(time.UnixMilli(0))
	var done atomic.Int32
	j := schedule.NewJob(func() {
		for range 100 {
			runtime.Gosched()
		}
		done.Add(1)
	})
	m := schedule.For(c).Every(time.Second, nil, j)
	for i := range int32(20) {
		c.Advance(time.Second)
		require.GreaterOrEqual(t, done.Load(), i, "the tick before is over")
	}
	m.Stop()
}

func TestFor_ClocksOfTestsAreApart(t *testing.T) {
	require.Same(t, schedule.System, schedule.For(clock.System))
	c := tsdbtest.NewClock(time.UnixMilli(0))
	require.NotSame(t, schedule.For(c), schedule.For(c))
}

// Members come and go at the same time as ticks.
func TestScheduler_ManyAtOnce(t *testing.T) {
	s := schedule.New(quick{clock.System})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				var running atomic.Bool
				j := schedule.NewJob(func() {
					if running.Swap(true) {
						t.Error("it runs twice at a time")
					}
					runtime.Gosched()
					running.Store(false)
				})
				m := s.Every(time.Second, func() { j.Begin() }, j)
				j.Begin()
				runtime.Gosched()
				m.Stop()
				if running.Load() {
					t.Error("it runs behind Stop")
				}
			}
		})
	}
	wg.Wait()
}
