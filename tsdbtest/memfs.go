package tsdbtest

import (
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"syscall"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

var _ fileutil.FS = (*MemFS)(nil)

// MemFS is a file system in memory. It implements the FS option of tsdb; see the
// package comment for how it models power cuts. Make one with NewMemFS.
//
// Its root directory exists and is also the working directory, so "data" and
// "/data" are the same. Errors are *fs.PathError around the errno that a Unix
// system gives.
type MemFS struct {
	fate []Decision // how the power cut that made this file system went

	mu struct {
		sync.Mutex
		root     *node
		nextID   int64
		pending  []*nameOp // in the order in which they happened
		hook     func(Op) error
		ops      int64
		capacity int64 // bytes; 0 means no limit
		used     int64 // bytes of all files that have a name or are open
		locks    map[*node]*memLock
		handles  map[any]string // open files and mappings, by name
	}
}

// NewMemFS returns an empty file system.
func NewMemFS() *MemFS {
	m := &MemFS{}
	m.mu.root = newDir(0)
	m.mu.nextID = 1
	m.mu.locks = map[*node]*memLock{}
	m.mu.handles = map[any]string{}
	return m
}

// SetHook has every operation call hook first, without any lock held: it may call
// back into the file system, for example to take a CrashClone. An error from the
// hook is returned by the operation, which then has no effect, with two exceptions:
// a Close closes, and a ShortWriteError lets a part of the bytes through. A nil hook
// turns it off.
func (m *MemFS) SetHook(hook func(Op) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.hook = hook
}

// Ops returns how many operations there were.
func (m *MemFS) Ops() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.ops
}

// SetCapacity limits the bytes in all files together; a write beyond writes what
// fits and fails with ENOSPC. 0 lifts the limit. A limit below Used is allowed.
func (m *MemFS) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.capacity = bytes
}

// Used returns the bytes of all files that have a name or are open.
func (m *MemFS) Used() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.used
}

// DiskSpace returns what is left of the capacity, and the capacity. Without one it
// is an error.
func (m *MemFS) DiskSpace(string) (free, total int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.capacity == 0 {
		return 0, 0, fileutil.ErrUnsupported
	}
	return max(0, m.mu.capacity-m.mu.used), m.mu.capacity, nil
}

// OpenHandles returns the names of the files and mappings that are open, sorted: a
// test that ends with none has leaked none.
func (m *MemFS) OpenHandles() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := make([]string, 0, len(m.mu.handles))
	for _, name := range m.mu.handles {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// begin counts an operation and asks the hook. It must be called without the lock.
func (m *MemFS) begin(op Op) error {
	m.mu.Lock()
	m.mu.ops++
	op.N = m.mu.ops
	hook := m.mu.hook
	m.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(op)
}

// Create makes a new file for reading and writing.
func (m *MemFS) Create(name string) (fileutil.File, error) {
	if err := m.begin(Op{Kind: OpCreate, Name: name}); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.mu.root.findParent(splitPath(name))
	if err != nil {
		return nil, pathError("create", name, err)
	}
	if dir.entries[base] != nil {
		return nil, pathError("create", name, syscall.EEXIST)
	}
	n := m.newNodeLocked(&node{})
	m.addNameLocked("create "+name, entry{dir, base, n}, entry{})
	return m.openLocked(name, n, true), nil
}

// Open opens an existing file for reading.
func (m *MemFS) Open(name string) (fileutil.File, error) {
	return m.open(OpOpen, name, false)
}

// OpenWrite opens an existing file for reading and for writing at its end.
func (m *MemFS) OpenWrite(name string) (fileutil.File, error) {
	return m.open(OpOpenWrite, name, true)
}

func (m *MemFS) open(kind OpKind, name string, write bool) (fileutil.File, error) {
	if err := m.begin(Op{Kind: kind, Name: name}); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.mu.root.find(splitPath(name))
	if err != nil {
		return nil, pathError("open", name, err)
	}
	if n.dir {
		return nil, pathError("open", name, syscall.EISDIR)
	}
	return m.openLocked(name, n, write), nil
}

// ReadDir lists a directory, sorted by name.
func (m *MemFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := m.begin(Op{Kind: OpReadDir, Name: name}); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.mu.root.find(splitPath(name))
	if err == nil && !dir.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, pathError("readdir", name, err)
	}
	var list []fs.DirEntry
	for _, base := range sortedNames(dir.entries) {
		list = append(list, fs.FileInfoToDirEntry(infoOf(base, dir.entries[base])))
	}
	return list, nil
}

// Stat describes a file. Its time is made up, but later changes have later times.
func (m *MemFS) Stat(name string) (fs.FileInfo, error) {
	if err := m.begin(Op{Kind: OpStat, Name: name}); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	elems := splitPath(name)
	n, err := m.mu.root.find(elems)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	if len(elems) == 0 {
		elems = []string{"/"}
	}
	return infoOf(elems[len(elems)-1], n), nil
}

// Rename moves a file or directory; a file that is in the way is replaced.
func (m *MemFS) Rename(oldname, newname string) error {
	if err := m.begin(Op{Kind: OpRename, Name: oldname, NewName: newname}); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	from, to, err := m.renameArgsLocked(oldname, newname)
	if err != nil {
		return pathError("rename", oldname+" -> "+newname, err)
	}
	replaced := to.dir.entries[to.name]
	if replaced == from.node {
		return nil // two names of one file: both stay
	}
	m.addNameLocked(fmt.Sprintf("rename %s -> %s", oldname, newname), to, from)
	if replaced != nil {
		m.unlinkedLocked(replaced)
	}
	return nil
}

func (m *MemFS) renameArgsLocked(oldname, newname string) (from, to entry, err error) {
	from.dir, from.name, err = m.mu.root.findParent(splitPath(oldname))
	if err != nil {
		return from, to, err
	}
	from.node = from.dir.entries[from.name]
	if from.node == nil {
		return from, to, syscall.ENOENT
	}
	to.node = from.node
	to.dir, to.name, err = m.mu.root.findParent(splitPath(newname))
	if err != nil {
		return from, to, err
	}
	old := to.dir.entries[to.name]
	switch {
	case old != nil && old.dir:
		err = syscall.EEXIST
	case old != nil && from.node.dir:
		err = syscall.ENOTDIR
	case from.node.dir && from.node.holds(to.dir):
		err = syscall.EINVAL
	}
	return from, to, err
}

// Link gives a file a second name.
func (m *MemFS) Link(oldname, newname string) error {
	if err := m.begin(Op{Kind: OpLink, Name: oldname, NewName: newname}); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.mu.root.find(splitPath(oldname))
	if err == nil && n.dir {
		err = syscall.EPERM
	}
	if err != nil {
		return pathError("link", oldname, err)
	}
	dir, base, err := m.mu.root.findParent(splitPath(newname))
	if err == nil && dir.entries[base] != nil {
		err = syscall.EEXIST
	}
	if err != nil {
		return pathError("link", newname, err)
	}
	m.addNameLocked(fmt.Sprintf("link %s -> %s", oldname, newname), entry{dir, base, n}, entry{})
	return nil
}

// Remove removes a file or an empty directory.
func (m *MemFS) Remove(name string) error {
	if err := m.begin(Op{Kind: OpRemove, Name: name}); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.mu.root.findParent(splitPath(name))
	if err != nil {
		return pathError("remove", name, err)
	}
	n := dir.entries[base]
	switch {
	case n == nil:
		return pathError("remove", name, syscall.ENOENT)
	case n.dir && len(n.entries) > 0:
		return pathError("remove", name, syscall.ENOTEMPTY)
	}
	m.addNameLocked("remove "+name, entry{}, entry{dir, base, n})
	m.unlinkedLocked(n)
	return nil
}

// MkdirAll makes a directory and its missing parents.
func (m *MemFS) MkdirAll(name string) error {
	if err := m.begin(Op{Kind: OpMkdirAll, Name: name}); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir := m.mu.root
	for _, base := range splitPath(name) {
		next := dir.entries[base]
		if next == nil {
			next = m.newNodeLocked(newDir(0))
			m.addNameLocked("mkdir "+base+" of "+name, entry{dir, base, next}, entry{})
		}
		if !next.dir {
			return pathError("mkdir", name, syscall.ENOTDIR)
		}
		dir = next
	}
	return nil
}

// SyncDir makes the names in a directory durable.
func (m *MemFS) SyncDir(name string) error {
	if err := m.begin(Op{Kind: OpSyncDir, Name: name}); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.mu.root.find(splitPath(name))
	if err == nil && !dir.dir {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return pathError("syncdir", name, err)
	}
	m.dropOverwrittenLocked(dir)
	m.mu.pending = slices.DeleteFunc(m.mu.pending, func(op *nameOp) bool { return !op.syncDir(dir) })
	return nil
}

// dropOverwrittenLocked forgets what failed syncs left undecided about names that were
// changed again since: what is about to be durable decides them.
func (m *MemFS) dropOverwrittenLocked(dir *node) {
	decided := map[string]bool{}
	for _, op := range m.mu.pending {
		for _, e := range []entry{op.add, op.del} {
			if e.dir == dir && !op.stuck {
				decided[e.name] = true
			}
		}
	}
	m.mu.pending = slices.DeleteFunc(m.mu.pending, func(op *nameOp) bool {
		if !op.stuck {
			return false
		}
		for _, e := range []*entry{&op.add, &op.del} {
			if e.dir == dir && decided[e.name] {
				*e = entry{}
			}
		}
		return op.add.dir == nil && op.del.dir == nil
	})
}

// FailSync does to a file or a directory what the kernel does when an fsync fails:
// what was not on the disk yet is marked as if it were. It can still be read, later
// Syncs succeed, and yet a power cut may take it, until it is written again. The
// failing operation itself is made by a hook, or by the caller.
func (m *MemFS) FailSync(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.mu.root.find(splitPath(name))
	if err != nil {
		return pathError("sync", name, err)
	}
	m.failSyncLocked(n)
	return nil
}

func (m *MemFS) failSyncLocked(n *node) {
	if !n.dir {
		n.file.failSync()
		return
	}
	for _, op := range m.mu.pending {
		op.stuck = op.stuck || op.add.dir == n || op.del.dir == n
	}
}

// newNodeLocked numbers n.
func (m *MemFS) newNodeLocked(n *node) *node {
	n.id = m.mu.nextID
	n.modified = m.mu.ops
	m.mu.nextID++
	return n
}

// addNameLocked does a change of names and remembers it as pending.
func (m *MemFS) addNameLocked(text string, add, del entry) {
	for _, e := range []entry{add, del} {
		if e.dir != nil {
			e.dir.modified = m.mu.ops
		}
	}
	if del.dir != nil {
		del.unapply(del.dir.entries)
	}
	if add.dir != nil {
		add.apply(add.dir.entries)
	}
	if add.dir != nil && del.dir == nil {
		add.node.links++
	}
	m.mu.pending = append(m.mu.pending, &nameOp{text: text, add: add, del: del})
}

// unlinkedLocked notes that n lost a name. The last one frees the bytes.
func (m *MemFS) unlinkedLocked(n *node) {
	n.links--
	m.freeLocked(n)
}

func (m *MemFS) freeLocked(n *node) {
	if n.links == 0 && n.opens == 0 {
		m.mu.used -= n.file.size()
	}
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
