//go:build !unix

package bench

import "time"

// cpuTime is not known here; rows by processor time have no value.
func cpuTime() time.Duration { return 0 }
