//go:build unix

package fileutil

import (
	"io"
	"io/fs"
	"os"

	"github.com/pkg/errors"
)

// maxLockTries bounds how often a lock file may vanish between open and flock; one
// vanishes when its holder closes at that moment.
const maxLockTries = 100

// unixLock holds two files for as long as the directory is open.
//
// Invariant: while it is held, path names the inode of file; Check asks for it.
type unixLock struct {
	path  string
	file  *os.File
	owner *os.File
}

// lockDir takes the shared lock first and the private one second. A process of
// another program can hold only the first.
func lockDir(dir, owner string) (DirLock, error) {
	lockPath, ownerPath := lockPaths(dir)
	f, err := lockPathExclusive(lockPath)
	if errors.Is(err, ErrLocked) {
		return nil, lockedError(dir, readOwner(ownerPath))
	}
	if err != nil {
		return nil, err
	}
	l := &unixLock{path: lockPath, file: f}
	if err := l.takeOwner(ownerPath, owner); err != nil {
		_ = l.Release() // the first error is the one that counts
		if errors.Is(err, ErrLocked) {
			return nil, lockedError(dir, readOwner(ownerPath))
		}
		return nil, err
	}
	return l, nil
}

// lockPathExclusive locks the file that path names at this moment. Whoever held
// the lock before may have unlinked the file after we opened it; then ours has no
// name any more, locks nothing, and we start over.
func lockPathExclusive(path string) (*os.File, error) {
	for range maxLockTries {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, filePerm)
		if err != nil {
			return nil, errors.WithStack(err)
		}
		if err := lockFile(f); err != nil {
			return nil, closeAfter(f, err)
		}
		err = checkSame(f, path)
		if err == nil {
			return f, nil
		}
		if err := closeAfter(f, err); !errors.Is(err, ErrLockLost) {
			return nil, err
		}
	}
	return nil, errors.Wrapf(ErrLocked, "%s keeps being replaced", path)
}

// takeOwner locks the private file and writes who we are. The content need not be
// durable: it matters only while this process lives.
func (l *unixLock) takeOwner(path, owner string) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, filePerm)
	if err != nil {
		return errors.WithStack(err)
	}
	if err := lockFile(f); err != nil {
		return closeAfter(f, err)
	}
	if err := f.Truncate(0); err != nil {
		return closeAfter(f, errors.WithStack(err))
	}
	if _, err := f.WriteAt([]byte(owner+"\n"), 0); err != nil && !IsDiskFull(err) {
		return closeAfter(f, errors.WithStack(err)) // a full disk must not keep readers out
	}
	l.owner = f
	return nil
}

// Check reports ErrLockLost when the path no longer names the file that we locked.
func (l *unixLock) Check() error {
	return checkSame(l.file, l.path)
}

// Release empties and frees the private file first, so that nobody who gets the
// shared lock can be refused by the private one. The shared file is unlinked while
// it is held, unless it is somebody else's by now.
func (l *unixLock) Release() error {
	var errs []error
	if l.owner != nil {
		errs = append(errs, l.owner.Truncate(0), unlockFile(l.owner), l.owner.Close())
	}
	err := l.Check()
	if err == nil {
		err = errors.WithStack(os.Remove(l.path))
	}
	if !errors.Is(err, ErrLockLost) && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	return JoinErrors(append(errs, unlockFile(l.file), l.file.Close())...)
}

// checkSame compares the inode of f with the one that path names.
func checkSame(f *os.File, path string) error {
	held, err := f.Stat()
	if err != nil {
		return errors.WithStack(err)
	}
	named, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return errors.WithMessage(ErrLockLost, path)
	}
	if err != nil {
		return errors.WithStack(err)
	}
	if !os.SameFile(held, named) {
		return errors.WithMessage(ErrLockLost, path)
	}
	return nil
}

// readOwner is for an error text only, so whatever goes wrong means no text.
func readOwner(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	text := make([]byte, maxOwner)
	n, err := f.ReadAt(text, 0)
	if errors.Is(err, io.EOF) { // as it should be: it is shorter than that
		err = nil
	}
	if closeAfter(f, err) != nil {
		return ""
	}
	return string(text[:n])
}

// closeAfter closes f on an error path; err stays the error.
func closeAfter(f *os.File, err error) error {
	if closeErr := f.Close(); err == nil {
		return errors.WithStack(closeErr)
	}
	return err
}
