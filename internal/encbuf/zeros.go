package encbuf

import "encoding/binary"

// AllZero reports whether b has only zeros. It is asked about whole preallocated tails, so it goes
// by words.
//
//go:noinline
func AllZero(b []byte) bool {
	for len(b) >= 8 {
		if binary.NativeEndian.Uint64(b) != 0 {
			return false
		}
		b = b[8:]
	}
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
