package encbuf

import (
	"errors"
	"fmt"
)

// ErrCorrupt is what every kind of damage is: errors.Is(err, ErrCorrupt).
var ErrCorrupt = errors.New("corrupt data")

// CorruptError says where damage was found. It unwraps to ErrCorrupt, so that
// callers ask with errors.Is and take the place with AsCorrupt.
//
// Decoders of bare bytes leave File empty and count Offset from the start of
// their input; whoever knows the file fills both in with At.
type CorruptError struct {
	File   string // path, or empty when the decoder saw only bytes
	Offset int64  // bytes from the start of File or of the input
	Reason string // what was found and what was expected, lower case
}

// Corrupt returns damage at offset of a bare input. It is not inlined, nor is At: what is said
// in some two hundred places and hardly ever comes would take 25 kB of a small program.
//
//go:noinline
func Corrupt(offset int, reason string) *CorruptError {
	return &CorruptError{Offset: int64(offset), Reason: reason}
}

// At returns e placed in a file: base is where the decoder's input began.
//
//go:noinline
func (e *CorruptError) At(file string, base int64) *CorruptError {
	return &CorruptError{File: file, Offset: base + e.Offset, Reason: e.Reason}
}

// AsCorrupt returns the damage that an error tells of, if it is of any. errors.As would do
// the same by reflection, which is 20 kB of a small program.
//
//go:noinline
func AsCorrupt(err error) (damage *CorruptError, ok bool) {
	return errors.AsType[*CorruptError](err)
}

func (e *CorruptError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("corrupt data at offset %d: %s", e.Offset, e.Reason)
	}
	return fmt.Sprintf("corrupt data in %s at offset %d: %s", e.File, e.Offset, e.Reason)
}

// Unwrap makes errors.Is(err, ErrCorrupt) hold.
func (e *CorruptError) Unwrap() error { return ErrCorrupt }
