package memseries

import "errors"

// ErrRefs says that no series ref is left, or that one is outside what the format
// allows: 1 to 2^40-1.
var ErrRefs = errors.New("series ref out of range")

// ErrRefUsed says that a ref belonged to a series that was removed. Refs are never
// used again.
var ErrRefUsed = errors.New("series ref was used before")
