package datadir

import "errors"

// Why a directory is not taken for a data directory, or for what its name says.
var (
	// ErrNotDataDir: the directory is not empty, and has nothing of a database. The error names
	// some of what is in it.
	ErrNotDataDir = errors.New("not a data directory")
	// ErrUnsupported: the directory holds something that this version does not read. The error
	// names it.
	ErrUnsupported = errors.New("not supported by this version")
	// ErrNotBlock: a directory with the name of a block is that of a database.
	ErrNotBlock = errors.New("it is the directory of a database and no block: a snapshot, maybe, that was made here")
)
