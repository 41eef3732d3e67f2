//go:build !linux

package background

// startThread is runner's start.
func startThread(func()) (meter, error) { return nil, errNoThread }
