package chunks

import "errors"

// Misuse.
var (
	// ErrClosed: the files were closed, and nobody who could still read them is left;
	// or the writer of segments was.
	ErrClosed = errors.New("chunk files are closed")
	// ErrNotLoaded: there are files that Load has not read yet, so that it is not
	// known whether new ones may follow them.
	ErrNotLoaded = errors.New("head chunk files are not loaded")
	// ErrInvalidChunk: the chunk cannot be stored: its series ref, times, encoding or size
	// are out of range.
	ErrInvalidChunk = errors.New("invalid chunk")
)

// Reading.
var (
	// ErrUnknownRef: there is no file, or nothing in the file, at that place.
	ErrUnknownRef = errors.New("unknown chunk ref")
)

// Writing.
var (
	// ErrNeedsRepair: Load found damage; nothing is written before Repair.
	ErrNeedsRepair = errors.New("head chunk files need repair")
	// ErrPoisoned: a sync or close failed before, so what was written may or may not be
	// on stable storage. Nothing is written any more; reading goes on. The returned
	// error also is the one that failed.
	ErrPoisoned = errors.New("head chunk files are not written any more after a failed sync")
)
