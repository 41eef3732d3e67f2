//go:build !amd64 && !arm64

package prefetch

// Byte does nothing here.
func Byte(*byte) {}

// Int64s does nothing here.
func Int64s(_, _ *int64) {}
