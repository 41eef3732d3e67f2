package bench

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTicks is how many of the ticks of /proc/stat are in a second: what Linux shows to
// programs is always this.
const clockTicks = 100

// machineTime returns the processor time that the machine had, and the part of it that was
// used, up to now; false where the system does not say.
func machineTime() (all, used time.Duration, ok bool) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, false
	}
	line, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0, false
	}
	for i, field := range fields[1:9] { // user nice system idle iowait irq softirq steal
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, false
		}
		d := time.Duration(n) * time.Second / clockTicks
		all += d
		if i != 3 && i != 4 {
			used += d
		}
	}
	return all, used, true
}

// childTime returns the processor time of processes that this one has waited for.
func childTime() time.Duration {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_CHILDREN, &r) != nil {
		return 0
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
