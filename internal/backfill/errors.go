package backfill

import (
	"errors"

	"github.com/seed347100a3/tsdb/internal/late"
)

// Appending a sample. They are returned as they are.
var (
	// ErrDuplicate: the series has another value at this time.
	ErrDuplicate = late.ErrDuplicate
	// ErrNotFound: the ref is not known any more, and no labels were given.
	ErrNotFound = errors.New("no such series: append again with labels")
)
