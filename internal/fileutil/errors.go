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

// ErrNotTried: SyncDir could not open the directory, for want of descriptors or memory most
// often. Nothing was synced, and no sync has failed: nothing is in doubt that was not before,
// and the call may be repeated. NotTried makes one.
var ErrNotTried = errors.New("directory could not be opened to be synced")

// Meaning returns an error with the text of why that is a sentinel as well, which callers ask for.
//
//go:noinline
func Meaning(sentinel, why error) error { return &meaning{sentinel, why} }

type meaning struct{ sentinel, why error }

func (m *meaning) Error() string   { return m.why.Error() }
func (m *meaning) Unwrap() []error { return []error{m.sentinel, m.why} }

// ErrUnsupported: this file system has no such operation.
var ErrUnsupported = errors.ErrUnsupported

// NotTried returns an ErrNotTried with its cause.
//
//go:noinline
func NotTried(cause error) error { return &notTried{cause} }

type notTried struct{ cause error }

func (e *notTried) Error() string   { return ErrNotTried.Error() + ": " + e.cause.Error() }
func (e *notTried) Unwrap() []error { return []error{ErrNotTried, e.cause} }
