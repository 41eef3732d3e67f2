//go:build unix

package bench

import (
	"syscall"
	"time"
)

// cpuTime returns the processor time of all threads of this process.
func cpuTime() time.Duration {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		panic("BUG: getrusage of this process: " + err.Error())
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
