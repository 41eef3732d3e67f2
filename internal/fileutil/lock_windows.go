package fileutil

import (
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/windows"
)

// windowsLock holds two files open without sharing. Nobody can remove or replace
// them meanwhile, so Check has nothing to ask.
type windowsLock struct {
	path  string
	file  windows.Handle
	owner windows.Handle
}

func lockDir(dir, owner string) (DirLock, error) {
	lockPath, ownerPath := lockPaths(dir)
	file, err := openLock(lockPath, 0)
	if errors.Is(err, ErrLocked) {
		return nil, lockedError(dir, readOwner(ownerPath))
	}
	if err != nil {
		return nil, err
	}
	private, err := openLock(ownerPath, windows.FILE_SHARE_READ)
	if err != nil {
		_ = windows.CloseHandle(file) // the first error is the one that counts
		if errors.Is(err, ErrLocked) {
			return nil, lockedError(dir, readOwner(ownerPath))
		}
		return nil, err
	}
	l := &windowsLock{path: lockPath, file: file, owner: private}
	if err := l.writeOwner(owner); err != nil {
		_ = l.Release()
		return nil, err
	}
	return l, nil
}

func openLock(path string, share uint32) (windows.Handle, error) {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return 0, errors.WithStack(err)
	}
	h, err := windows.CreateFile(name, windows.GENERIC_READ|windows.GENERIC_WRITE, share, nil,
		windows.OPEN_ALWAYS, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if errors.Is(err, windows.ERROR_SHARING_VIOLATION) {
		return 0, ErrLocked
	}
	if err != nil {
		return 0, errors.WithStack(&os.PathError{Op: "open exclusively", Path: path, Err: err})
	}
	return h, nil
}

func (l *windowsLock) writeOwner(owner string) error {
	if err := windows.Ftruncate(l.owner, 0); err != nil {
		return errors.Wrap(err, "truncate lock owner")
	}
	var n uint32
	if err := windows.WriteFile(l.owner, []byte(owner+"\n"), &n, nil); err != nil && !IsDiskFull(err) {
		return errors.Wrap(err, "write lock owner")
	}
	return nil
}

func (l *windowsLock) Check() error { return nil }

// Release closes before it removes: an open file cannot be removed here. If
// somebody took the lock in between, the removal fails, and that is right.
func (l *windowsLock) Release() error {
	err := JoinErrors(windows.Ftruncate(l.owner, 0), windows.CloseHandle(l.owner), windows.CloseHandle(l.file))
	_ = os.Remove(l.path)
	return err
}

func readOwner(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(text[:min(len(text), maxOwner)])
}
