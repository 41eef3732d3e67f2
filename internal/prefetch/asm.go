//go:build amd64 || arm64

package prefetch

// Byte asks for the line that p is in.
//
//go:noescape
func Byte(p *byte)

// Int64s asks for the lines that p and q are in.
//
//go:noescape
func Int64s(p, q *int64)
