package pool

import (
	"context"
	"errors"
)

var (
	// ErrClosed: the Pool is closed.
	ErrClosed = errors.New("closed")
	// ErrFull: as many things are open as may be, and all of them are used.
	ErrFull = errors.New("as many are open as may be, and all of them are in use")
)

// full is ErrFull together with the error of a context that has ended.
func full(ctx context.Context) error { return errors.Join(ErrFull, context.Cause(ctx)) }
