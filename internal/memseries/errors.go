package memseries

import "errors"

// ErrRefs says that no series ref is left, or that one is outside what the format
// allows: 1 to 2^40-1.
var ErrRefs = errors.New("series ref out of range")

// ErrFull says that the labels of all series are more than a head can number, long after
// most machines are out of memory.
var ErrFull = errors.New("no room for more labels in the head")

// ErrBudget says that a new series is beyond the Budget.
var ErrBudget = errors.New("no room for another series")

// ErrRefUsed says that a ref belonged to a series that was removed. Refs are never
// used again.
var ErrRefUsed = errors.New("series ref was used before")
