//go:build !unix

package bench

import "time"

var started = time.Now()

// cpuTime is wall time where the system does not tell: the benchmarks are for Linux.
func cpuTime() time.Duration { return time.Since(started) }
