package backfill

import "errors"

// Appending a sample. They are returned as they are.
var (
	// ErrDuplicate: the series has another value at this time.
	ErrDuplicate = errors.New("duplicate sample: the series has another value at this time")
	// ErrNotFound: the ref is not known any more, and no labels were given.
	ErrNotFound = errors.New("no such series: append again with labels")
)
