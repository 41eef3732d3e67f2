package tsdbtest

import (
	"syscall"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// memLock is a held directory. The two files of the lock appear in the directory
// as they do on a disk, and are durable at once: nothing depends on what a power
// cut makes of them, and so there is nothing to enumerate.
type memLock struct {
	fs    *MemFS
	dir   *node
	path  string
	lock  *node
	owner string
}

// LockDir locks a directory of this MemFS. Clones are not locked.
func (m *MemFS) LockDir(dir, owner string) (fileutil.DirLock, error) {
	if err := m.begin(Op{Kind: OpLockDir, Name: dir}); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.mu.root.find(splitPath(dir))
	if err == nil && !n.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("lockdir", dir, err)
	}
	if held := m.mu.locks[n]; held != nil {
		return nil, errors.Wrapf(fileutil.ErrLocked, "lock %s: last taken by %q", dir, held.owner)
	}
	l := &memLock{fs: m, dir: n, path: dir, owner: owner}
	l.lock = m.putFileLocked(n, fileutil.LockName, nil)
	m.putFileLocked(n, fileutil.OwnerName, []byte(owner+"\n"))
	m.mu.locks[n] = l
	return l, nil
}

func (l *memLock) Check() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	return l.checkLocked()
}

func (l *memLock) checkLocked() error {
	if l.fs.mu.locks[l.dir] != l || l.dir.entries[fileutil.LockName] != l.lock {
		return errors.WithMessage(fileutil.ErrLockLost, l.path)
	}
	return nil
}

// Release unlocks even if the hook fails it. A second Release does nothing.
func (l *memLock) Release() error {
	hookErr := l.fs.begin(Op{Kind: OpUnlockDir, Name: l.path})
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	if l.fs.mu.locks[l.dir] != l {
		return hookErr
	}
	if l.checkLocked() == nil {
		delete(l.dir.entries, fileutil.LockName)
		delete(l.dir.durable, fileutil.LockName)
		l.fs.unlinkedLocked(l.lock)
	}
	l.fs.putFileLocked(l.dir, fileutil.OwnerName, nil)
	delete(l.fs.mu.locks, l.dir)
	return hookErr
}

// putFileLocked makes or replaces a durable file, keeping its identity.
func (m *MemFS) putFileLocked(dir *node, base string, data []byte) *node {
	n := dir.entries[base]
	if n == nil {
		n = m.newNodeLocked(&node{links: 1})
		dir.entries[base] = n
	}
	dir.durable[base] = n
	m.changeLocked(n, func(c *content) { *c = durableContent(data) })
	return n
}
