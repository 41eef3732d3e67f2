package background

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pkg/errors"
)

// niceness of a thread in the background: it gets 15 shares of a processor where others get 1,024
// each (setpriority(2), sched(7)). A greater share does not do: with 335, niceness 5, a thread that
// has got its slice of 4 ms is given the next one 12 ms later, in the middle of the next query.
const niceness = 19

// startThread is Runner's start.
func startThread(f func()) (used meter, err error) {
	begun := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		tid := syscall.Gettid()
		if tid == syscall.Getpid() {
			// The first thread of a process does not end with a goroutine, and tells the system's
			// tools how nice the process is. While it is locked another goroutine gets another one.
			used, err = startThread(f)
		} else if used, err = lower(tid); err == nil {
			close(begun)
			f()
			return // without unlocking: a thread without privileges can never raise its priority again
		}
		runtime.UnlockOSThread()
		close(begun)
	}()
	<-begun
	return used, err
}

// lower lowers the priority of a thread, if somebody can tell how it fares then.
func lower(tid int) (meter, error) {
	used := meterOf(tid)
	if _, err := used(); err != nil {
		return nil, err
	}
	return used, errors.Wrap(syscall.Setpriority(syscall.PRIO_PROCESS, tid, niceness), "setpriority")
}

// meterOf reads a thread's schedstat: nanoseconds on a processor, nanoseconds waiting for one, and
// how many times it got one, which is 0 where the kernel does not count (its
// Documentation/scheduler/sched-stats.rst).
func meterOf(tid int) meter {
	path := "/proc/self/task/" + strconv.Itoa(tid) + "/schedstat"
	return func() (usage, error) {
		text, err := os.ReadFile(path)
		if err != nil {
			return usage{}, errors.Wrap(err, "read what a thread used")
		}
		u, ok := parseSchedstat(string(text))
		if !ok {
			return usage{}, errors.Errorf("%s is %q, want two times and how many", path, text)
		}
		return u, nil
	}
}

// parseSchedstat reads three numbers, by hand as package fmt's scanner is 20 kB.
func parseSchedstat(text string) (u usage, ok bool) {
	var n [3]int64
	text = strings.TrimSpace(text)
	for i := range n {
		field, rest, _ := strings.Cut(text, " ")
		var err error
		if n[i], err = strconv.ParseInt(field, 10, 64); err != nil {
			return u, false
		}
		text = rest
	}
	return usage{ran: time.Duration(n[0]), waited: time.Duration(n[1])}, n[2] > 0
}
