package background

import (
	"context"
	stderrors "errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/tsdbtest"
)

var errWork = stderrors.New("work failed")

// scripted is a Runner whose threads use what a test says.
type scripted struct {
	Runner
	clock   *tsdbtest.Clock
	started atomic.Int64
	used    chan usage // what the next look finds
}

func newScripted() *scripted {
	s := &scripted{clock: tsdbtest.NewClock(time.UnixMilli(1_700_000_000_000)), used: make(chan usage, 1)}
	s.used <- usage{5 * time.Hour, 3 * time.Hour} // of the thread's former life
	s.Runner.clock = s.clock
	s.start = func(f func()) (meter, error) {
		s.started.Add(1)
		go f()
		return func() (usage, error) { return <-s.used, nil }, nil
	}
	return s
}

// look makes the runner look at what a thread has used in its last window.
func (s *scripted) look(total *usage, last usage) {
	total.ran += last.ran
	total.waited += last.waited
	s.used <- *total
	s.clock.Advance(window)
}

// unwatched is a Runner with real threads that does not look at how they fare: beside other tests
// they may starve.
func unwatched() *Runner {
	return &Runner{clock: tsdbtest.NewClock(time.UnixMilli(0)), start: startThread}
}

func TestRun_ReturnsWhatTheWorkReturns(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "value")
	for _, want := range []error{nil, errWork, context.Canceled} {
		calls := 0
		err := unwatched().Run(ctx, func(inner context.Context) error {
			calls++
			require.Equal(t, "value", inner.Value(key{}))
			require.NoError(t, inner.Err())
			return want
		})
		require.Equal(t, want, err)
		require.Equal(t, 1, calls)
	}
}

// What an ordinary thread uses is no reason to begin again, however long it takes.
func TestRun_OnOrdinaryThreads_IsLeftAlone(t *testing.T) {
	c := tsdbtest.NewClock(time.UnixMilli(0))
	result, end := make(chan error), make(chan struct{})
	r := NewOrdinary(c)
	calls := 0
	go func() {
		result <- r.Run(t.Context(), func(inner context.Context) error {
			calls++
			<-end
			return stderrors.Join(inner.Err(), errWork)
		})
	}()
	waitForTicker(c)
	for range 10 {
		c.Advance(window)
	}
	close(end)
	require.ErrorIs(t, <-result, errWork)
	require.Equal(t, 1, calls)
	require.False(t, r.resting())
}

func TestRun_WithoutSuchThreads_IsACall(t *testing.T) {
	s := newScripted()
	s.start = func(func()) (meter, error) { return nil, errWork }
	calls := 0
	require.Equal(t, context.Canceled, s.Run(t.Context(), func(inner context.Context) error {
		calls++
		require.Equal(t, t.Context(), inner)
		return context.Canceled
	}))
	require.Equal(t, 1, calls)
}

func TestRun_WorkThatIsStarved_BeginsAgainOnAnOrdinaryThread(t *testing.T) {
	for name, ended := range map[string]func(context.Context) error{
		"error": context.Context.Err,
		"cause": context.Cause,
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted()
			var calls []context.Context
			result, begun := make(chan error), make(chan struct{})
			go func() {
				result <- s.Run(t.Context(), func(inner context.Context) error {
					calls = append(calls, inner)
					if len(calls) == 1 {
						close(begun)
						<-inner.Done()
						return stderrors.Join(errWork, ended(inner))
					}
					return nil
				})
			}()
			<-begun
			total := usage{5 * time.Hour, 3 * time.Hour}
			waitForTicker(s.clock)
			s.look(&total, usage{window / 10, window * 9 / 10})
			require.NoError(t, <-result)
			require.Len(t, calls, 2)
			require.Error(t, calls[0].Err())
			require.Equal(t, t.Context(), calls[1])
			require.Zero(t, s.clock.Tickers())
			require.True(t, s.resting())
		})
	}
}

func waitForTicker(c *tsdbtest.Clock) {
	for c.Tickers() == 0 {
		runtime.Gosched()
	}
}

func TestRun_WorkThatGetsOn_IsLeftAlone(t *testing.T) {
	s := newScripted()
	result, end := make(chan error), make(chan struct{})
	go func() {
		result <- s.Run(t.Context(), func(inner context.Context) error {
			<-end
			return inner.Err()
		})
	}()
	total := usage{5 * time.Hour, 3 * time.Hour}
	waitForTicker(s.clock)
	for _, u := range []usage{
		{window, 0},
		{window / 4, window * 3 / 4},
		{window / 8, window},         // an eighth
		{0, 0},                       // waits for a disk
		{window / 100, window / 2},   // the same, and for a processor
		{window * 50, window * 150},  // a late look
		{window / 20, window/2 - 10}, // shortly
		{},                           // the one before has been looked at
	} {
		s.look(&total, u)
	}
	close(end)
	require.NoError(t, <-result)
	require.EqualValues(t, 1, s.started.Load())
}

func TestRun_AfterStarvation_RestsForTenMinutes(t *testing.T) {
	s := newScripted()
	s.rest()
	run := func() int64 {
		before := s.started.Load()
		require.NoError(t, s.Run(t.Context(), func(context.Context) error { return nil }))
		return s.started.Load() - before
	}
	require.Zero(t, run())
	s.clock.Advance(rest - 1)
	require.Zero(t, run())
	s.clock.Advance(1)
	require.EqualValues(t, 1, run())
	s.used <- usage{}
	s.rest()
	s.clock.Set(s.clock.Now().Add(-24 * time.Hour))
	require.EqualValues(t, 1, run(), "a clock that was set back")
}

func TestRun_StarvedWork_IsNotRepeatedBehindAnotherEnd(t *testing.T) {
	for name, test := range map[string]struct {
		work func(ctx context.Context) error
		want error
	}{
		"done all the same": {func(context.Context) error { return nil }, nil},
		"failed":            {func(context.Context) error { return errWork }, errWork},
		"cancelled":         {context.Context.Err, errWork},
		"cancelled, cause":  {context.Cause, errWork},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			calls := 0
			result := make(chan error)
			go func() {
				result <- s.Run(ctx, func(inner context.Context) error {
					calls++
					<-inner.Done()
					if strings.HasPrefix(name, "cancelled") {
						cancel(errWork)
					}
					return test.work(inner)
				})
			}()
			total := usage{5 * time.Hour, 3 * time.Hour}
			waitForTicker(s.clock)
			s.look(&total, usage{0, window})
			require.Equal(t, test.want, <-result)
			require.Equal(t, 1, calls)
		})
	}
}

func TestRun_WorkThatEndsItsGoroutine_IsAnError(t *testing.T) {
	require.Equal(t, errNoResult, newScripted().Run(t.Context(), func(context.Context) error {
		runtime.Goexit()
		return nil
	}))
}
