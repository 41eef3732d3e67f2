//go:build !linux

package bench

import "time"

// machineTime is known on Linux only.
func machineTime() (all, used time.Duration, ok bool) { return 0, 0, false }

// childTime is known on Linux only.
func childTime() time.Duration { return 0 }
