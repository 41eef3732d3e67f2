// Package fileutil is the seam between the library and the file system: every
// file operation of every other package goes through FS. It knows names, bytes,
// mappings and locks; it does not know any file format.
//
// OS is the real thing. Two others exist for tests: an in-memory file system that
// models power loss (package tsdbtest) and one that fails chosen operations
// (internal/faultfs). An FS is safe for concurrent use; so is a File, except that
// Write must not run beside Write or Truncate of the same file.
package fileutil

import (
	"io"
	"io/fs"
)

// FS is a tree of files. Paths are those of the operating system. Errors unwrap to
// fs.ErrNotExist, fs.ErrExist and fs.ErrPermission where they apply; IsDiskFull
// asks for the rest.
//
// A call that a signal interrupts (EINTR) is repeated by the implementation, a sync like any
// other: an interrupted one has not failed, and what it had to write is still dirty. Only a
// close is not, since the file is closed all the same. An EINTR that comes through is an error
// like any other.
//
// Durability: bytes are on stable storage after File.Sync, names (created, renamed,
// linked, removed) after SyncDir of their directory. Nothing else promises anything.
type FS interface {
	// Create makes a new file for reading and writing; it must not exist.
	Create(name string) (File, error)
	// Open opens an existing file for reading only.
	Open(name string) (File, error)
	// OpenWrite opens an existing file for reading and for writing at its end.
	OpenWrite(name string) (File, error)
	// ReadDir lists a directory, sorted by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	Stat(name string) (fs.FileInfo, error)
	// Rename replaces newname if it exists; both are in directories of this FS.
	Rename(oldname, newname string) error
	Link(oldname, newname string) error
	// Remove removes a file or an empty directory.
	Remove(name string) error
	MkdirAll(name string) error
	// SyncDir makes the names in a directory durable. It does nothing where the
	// operating system has no such operation (Windows). After an error nobody knows
	// which names are durable, unless it is ErrNotTried: then nothing has changed, and
	// the call may be repeated.
	SyncDir(name string) error
	// LockDir takes the exclusive locks of a data directory without waiting.
	// owner is written into lock.owner and names the holder in the ErrLocked that
	// the next one gets.
	LockDir(dir, owner string) (DirLock, error)
}

// File is an open file. Write appends at the end of what was written through this
// handle (OpenWrite starts at the end of the file).
type File interface {
	io.Writer
	io.ReaderAt
	io.Closer
	Name() string
	Size() (int64, error)
	// Truncate cuts the file; the next Write goes to the new end.
	Truncate(size int64) error
	Sync() error
	// Mmap maps the first length bytes for reading. length may exceed the size of
	// the file: bytes that are written later can be read once they are.
	Mmap(length int64) (Mapping, error)
}

// Mapping is a read-only view of a file.
type Mapping interface {
	// At returns n bytes at off. They alias the mapping: valid until Close, and
	// a fault while they are touched is caught by GuardFaults only.
	At(off int64, n int) ([]byte, error)
	Close() error
}

// DirLock is a held lock of a data directory.
type DirLock interface {
	// Check reports an error when the lock file was replaced behind our back.
	Check() error
	// Release gives the lock up; the shared lock file is unlinked while held.
	Release() error
}
