package background

import (
	"context"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// niceOf is how nice a thread is; getpriority(2) returns 20 less that.
func niceOf(t *testing.T, tid int) int {
	p, err := syscall.Getpriority(syscall.PRIO_PROCESS, tid)
	require.NoError(t, err)
	return 20 - p
}

func TestRun_HasAThreadOfTheLeastPriorityThatEnds(t *testing.T) {
	ours := niceOf(t, syscall.Getpid())
	var mu sync.Mutex
	seen := map[int]int{}
	var wg sync.WaitGroup
	r := unwatched()
	for range 32 {
		wg.Go(func() {
			_ = r.Run(t.Context(), func(context.Context) error {
				tid := syscall.Gettid()
				runtime.Gosched()
				mu.Lock()
				defer mu.Unlock()
				priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, tid)
				seen[tid] = 20 - priority
				if err != nil || syscall.Gettid() != tid {
					t.Error("another thread goes on with the work")
				}
				return nil
			})
		})
	}
	wg.Wait()
	require.NotEmpty(t, seen)
	require.NotContains(t, seen, syscall.Getpid(), "the first thread never ends")
	for tid, nice := range seen {
		require.Equal(t, niceness, nice)
		require.Eventually(t, func() bool {
			priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, tid)
			return err == syscall.ESRCH || 20-priority == ours // a new thread may have the number
		}, 2*time.Minute, time.Millisecond)
	}
	require.Equal(t, ours, niceOf(t, syscall.Getpid()))
}

func TestRun_ThreadsThatBeginMeanwhileAreOrdinary(t *testing.T) {
	ours := niceOf(t, syscall.Getpid())
	const threads = 16
	priorities := make(chan int, threads)
	require.NoError(t, unwatched().Run(t.Context(), func(context.Context) error {
		var all sync.WaitGroup
		all.Add(threads)
		for range threads {
			go func() {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				priority, _ := syscall.Getpriority(syscall.PRIO_PROCESS, syscall.Gettid())
				priorities <- priority
				all.Done()
				all.Wait() // each has a thread of its own, then
			}()
		}
		all.Wait()
		return nil
	}))
	for range threads {
		require.Equal(t, ours, 20-<-priorities)
	}
}

func TestMeter_CountsWhatAThreadUses(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	used := meterOf(syscall.Gettid())
	before, err := used()
	require.NoError(t, err)
	for now := before; now.ran-before.ran < 5*time.Millisecond; {
		now, err = used()
		require.NoError(t, err)
		require.GreaterOrEqual(t, now.waited, before.waited)
	}
}

func TestMeter_OfAThreadThatIsGone(t *testing.T) {
	_, err := meterOf(1 << 30)()
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestParseSchedstat_WantsThreeNumbersOfWhichTheLastCounts(t *testing.T) {
	u, ok := parseSchedstat("1500 20 3\n")
	require.True(t, ok)
	require.Equal(t, usage{ran: 1500, waited: 20}, u)
	for _, text := range []string{"", "1 2", "1 2 0", "1 2 x", "a b c", "9223372036854775808 1 1"} {
		_, ok := parseSchedstat(text)
		require.False(t, ok, text)
	}
}
