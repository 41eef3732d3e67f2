package blockdir

import "errors"

// Writing a block.
var (
	// ErrEmpty: no series has a chunk; there is no block.
	ErrEmpty = errors.New("block would be empty")
	// ErrExists: there is a block of that name already.
	ErrExists = errors.New("block exists")
	// ErrClosed: the writer was committed or aborted, or the block was closed.
	ErrClosed = errors.New("block is closed")
	// ErrNotMoved: a block that is to be removed has its name still.
	ErrNotMoved = errors.New("block could not be moved away")
	// ErrInvalid: what was given cannot be stored: chunks outside of the block's times
	// or without samples, a change of what never changes.
	ErrInvalid = errors.New("not valid for a block")
)

// Opening a block.
var (
	// ErrUnsupportedVersion: the meta file has a version that this library does not
	// know.
	ErrUnsupportedVersion = errors.New("unsupported version of a block")
	// ErrDeletedLost: what was deleted of a damaged block is not known any more.
	ErrDeletedLost = errors.New("the list of deleted samples is lost: they would come back")
	// ErrNotWhole: Salvage could not read all of a block that is known to be readable.
	ErrNotWhole = errors.New("a block that could be read before cannot be read now")
	// ErrNeedsRepair: the block has the wrong version numbers of Prometheus 2.1, and
	// this call may not write.
	ErrNeedsRepair = errors.New("version numbers of the block need repair")
)
