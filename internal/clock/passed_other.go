//go:build !linux

package clock

// Passed counts from the start of the process.
func (*system) Passed() Passed { return processPassed() }
