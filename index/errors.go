package index

import "errors"

// Writing a block index.
var (
	// ErrTooLarge: a symbol table, list or file would outgrow what its field holds. The
	// text names it. Nothing wrong was written, but the index cannot be finished.
	ErrTooLarge = errors.New("block index too large")
	// ErrInvalid: a symbol, a label set or a chunk is not what may come next, by its order
	// or by itself. The text names it; the index is as it was before the call.
	ErrInvalid = errors.New("invalid block index entry")
)

// ErrClosed: the reader or the writer was closed.
var ErrClosed = errors.New("block index is closed")
