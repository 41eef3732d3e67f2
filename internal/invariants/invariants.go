// Package invariants holds assertions that tests pay for and users do not: they
// are compiled in under the build tag invariants and under the race detector. A
// failed one is a bug of this library, never a matter of input or of the disk.
package invariants

import "fmt"

// Check panics with "BUG: ..." when cond is false and Enabled. The arguments are
// evaluated in any case; where computing cond costs something, or on a hot path,
// write
//
//	if invariants.Enabled { invariants.Check(...) }
func Check(cond bool, format string, args ...any) {
	if Enabled && !cond {
		panic("BUG: " + fmt.Sprintf(format, args...))
	}
}
