package clock

import (
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bootID names the start of this machine.
var bootID = sync.OnceValue(func() string {
	fd, err := unix.Open("/proc/sys/kernel/random/boot_id", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return processID
	}
	defer func() { _ = unix.Close(fd) }() // it was only read
	var id [64]byte
	n, err := unix.Read(fd, id[:])
	if err != nil || n <= 0 {
		return processID
	}
	return strings.TrimSpace(string(id[:n]))
})

// Passed counts from the start of the machine, which a process survives that is started again, and
// with the time that it slept.
func (*system) Passed() Passed {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return processPassed()
	}
	return Passed{Since: bootID(), Time: time.Duration(ts.Nano())}
}
