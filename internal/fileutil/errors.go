package fileutil

import "errors"

// Locking a data directory.
var (
	// ErrLocked: another process, or another DB of this one, holds the directory.
	// The text of the returned error names the holder if it is one of ours.
	ErrLocked = errors.New("data directory is locked")
	// ErrLockLost: the lock file was removed or replaced while we held it, so that
	// somebody else may believe to hold the directory.
	ErrLockLost = errors.New("lock file was removed or replaced")
)

// Reading through a mapping.
var (
	// ErrMemoryFault: touching mapped memory failed, because the file was cut behind
	// our back, the bytes are not written yet, or the device cannot read them.
	ErrMemoryFault = errors.New("memory fault in a mapped file")
	// ErrOutOfRange: Mapping.At was asked for bytes outside the mapped length.
	ErrOutOfRange = errors.New("out of the mapped range")
)

// ErrUnsupported: this file system has no such operation.
var ErrUnsupported = errors.ErrUnsupported
