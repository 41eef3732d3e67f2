package tsdbtest

import "fmt"

// OpKind is a kind of file operation.
type OpKind uint8

// The operations of a file system, of a locked directory, of an open file and of a
// mapping.
const (
	OpCreate OpKind = iota + 1
	OpOpen
	OpOpenWrite
	OpReadDir
	OpStat
	OpRename
	OpLink
	OpRemove
	OpMkdirAll
	OpSyncDir
	OpLockDir
	OpUnlockDir

	OpWrite
	OpReadAt
	OpSize
	OpTruncate
	OpSync
	OpMmap
	OpMapRead
	OpClose
)

var opNames = [...]string{
	OpCreate: "create", OpOpen: "open", OpOpenWrite: "openwrite", OpReadDir: "readdir",
	OpStat: "stat", OpRename: "rename", OpLink: "link", OpRemove: "remove",
	OpMkdirAll: "mkdirall", OpSyncDir: "syncdir", OpLockDir: "lockdir", OpUnlockDir: "unlockdir",
	OpWrite: "write", OpReadAt: "readat", OpSize: "size", OpTruncate: "truncate",
	OpSync: "sync", OpMmap: "mmap", OpMapRead: "mapread", OpClose: "close",
}

func (k OpKind) String() string {
	if int(k) < len(opNames) && opNames[k] != "" {
		return opNames[k]
	}
	return fmt.Sprintf("OpKind(%d)", k)
}

// Mutates reports whether the operation changes what is on the disk or what a power
// cut may take from it. A crash test needs to crash only around these.
func (k OpKind) Mutates() bool {
	switch k {
	case OpCreate, OpRename, OpLink, OpRemove, OpMkdirAll, OpSyncDir, OpWrite, OpTruncate, OpSync:
		return true
	default:
		return false
	}
}

// Op is one file operation, as a hook sees it before it happens.
type Op struct {
	Kind OpKind
	// Name is the path that was given: for an operation of a file the one that it
	// was opened with, for a rename or link the old one.
	Name string
	// NewName is the new path of a rename or link, else empty.
	NewName string
	// N counts the operations of this file system from 1.
	N int64
	// Bytes is the length of a write, read or mapping and the size of a truncation.
	Bytes int64
}

func (op Op) String() string {
	s := fmt.Sprintf("#%d %s %s", op.N, op.Kind, op.Name)
	if op.NewName != "" {
		s += " -> " + op.NewName
	}
	switch op.Kind {
	case OpWrite, OpReadAt, OpTruncate, OpMmap, OpMapRead:
		s += fmt.Sprintf(" (%d)", op.Bytes)
	}
	return s
}

// ShortWriteError, returned by a hook for OpWrite, lets the first Written bytes
// through and then fails the write with Err.
type ShortWriteError struct {
	Written int
	Err     error
}

func (e *ShortWriteError) Error() string {
	return fmt.Sprintf("short write of %d bytes: %v", e.Written, e.Err)
}

// Unwrap returns Err.
func (e *ShortWriteError) Unwrap() error { return e.Err }
