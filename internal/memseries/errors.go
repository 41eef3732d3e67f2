package memseries

import "errors"

// ErrRefs says that no series ref is left, or that one is outside what the format
// allows: 1 to 2^40-1.
var ErrRefs = errors.New("series ref out of range")
