//go:build !linux

package memlimit

// groupLimit returns None: there are no control groups.
func groupLimit() int64 { return None }
