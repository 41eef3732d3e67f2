package ship

import "errors"

// What New and NewDir give.
var (
	// ErrLabels: there are no external labels, or some that no series could have. Thanos tells the
	// blocks of many databases apart by them.
	ErrLabels = errors.New("external labels are missing or wrong")
	// ErrMerges: the database merges blocks, and might merge some away before they are uploaded.
	ErrMerges = errors.New("the database merges blocks")
	// ErrRetention: the database removes blocks, and might do so before they are uploaded.
	ErrRetention = errors.New("the database removes blocks")
)

var (
	// errUnsuited: Thanos could not read the block.
	errUnsuited = errors.New("not known to Thanos")
	// errLocal: a file of the block cannot be read.
	errLocal = errors.New("the block cannot be read")
	// errGone: the block was removed.
	errGone = errors.New("the block is gone")
)
