package backfill

import "errors"

// Appending a sample. They are returned as they are.
var (
	// ErrOutOfOrder: the series has a newer sample.
	ErrOutOfOrder = errors.New("out of order sample: the series has a newer one")
	// ErrDuplicate: the series has another value at this time.
	ErrDuplicate = errors.New("duplicate sample: the series has another value at this time")
	// ErrNotFound: the ref is not known any more, and no labels were given.
	ErrNotFound = errors.New("no such series: append again with labels")
)
