package tsdbtest

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// node is a file or a directory. A directory has two sets of entries: those that
// the program sees, and those that are there after a power cut that takes every
// pending change of names.
type node struct {
	id       int64 // order of creation in this MemFS; clones keep it
	dir      bool
	entries  map[string]*node
	durable  map[string]*node
	file     content
	links    int   // names of a file that the program sees
	opens    int   // handles and mappings
	modified int64 // the operation that changed it last
}

func newDir(id int64) *node {
	return &node{id: id, dir: true, entries: map[string]*node{}, durable: map[string]*node{}}
}

// entry is a name in a directory and what it names.
type entry struct {
	dir  *node
	name string
	node *node
}

// nameOp is a change of names that is not durable yet. A rename has both halves,
// and they happen together; a half is zero once it is durable, or if it never was.
//
// Invariant: the removal of a rename is never durable before its addition, so that
// no crash loses the file.
type nameOp struct {
	text      string
	add, del  entry
	delSynced bool // the directory of del was synced before that of add
	stuck     bool // a sync of the directory failed: it will never be durable
}

// syncDir moves op towards the disk; it reports whether something is still pending.
func (op *nameOp) syncDir(dir *node) bool {
	if op.stuck {
		return true
	}
	if op.del.dir == dir {
		op.delSynced = true
	}
	if op.add.dir == dir {
		op.add.apply(dir.durable)
		op.add = entry{}
	}
	if op.add.dir == nil && op.delSynced {
		op.del.unapply(op.del.dir.durable)
		op.del = entry{}
	}
	return op.add.dir != nil || op.del.dir != nil
}

func (e entry) apply(names map[string]*node) { names[e.name] = e.node }

// unapply removes the name only if it still means the same file.
func (e entry) unapply(names map[string]*node) {
	if names[e.name] == e.node {
		delete(names, e.name)
	}
}

// splitPath returns the elements of a path. The root of the tree is the root
// directory and the working directory at once.
func splitPath(name string) []string {
	var elems []string
	for _, e := range strings.Split(cleanPath(name), "/") {
		if e != "" && e != "." && e != ".." {
			elems = append(elems, e)
		}
	}
	return elems
}

func cleanPath(name string) string { return path.Clean(filepath.ToSlash(name)) }

// find walks from the root.
func (n *node) find(elems []string) (*node, error) {
	for _, e := range elems {
		if !n.dir {
			return nil, syscall.ENOTDIR
		}
		next, ok := n.entries[e]
		if !ok {
			return nil, syscall.ENOENT
		}
		n = next
	}
	return n, nil
}

// findParent returns the directory of the last element. The root has no parent.
func (n *node) findParent(elems []string) (dir *node, base string, err error) {
	if len(elems) == 0 {
		return nil, "", syscall.EINVAL
	}
	dir, err = n.find(elems[:len(elems)-1])
	if err == nil && !dir.dir {
		err = syscall.ENOTDIR
	}
	return dir, elems[len(elems)-1], err
}

// holds reports whether other is n or below it.
func (n *node) holds(other *node) bool {
	if n == other {
		return true
	}
	for _, e := range n.entries {
		if e.dir && e.holds(other) {
			return true
		}
	}
	return false
}

// copier copies a tree with its pending changes; a node becomes one node.
type copier map[*node]*node

func (cp copier) node(n *node) *node {
	if n == nil {
		return nil
	}
	if same, ok := cp[n]; ok {
		return same
	}
	same := &node{id: n.id, dir: n.dir, links: n.links, modified: n.modified}
	cp[n] = same
	if n.dir {
		same.entries, same.durable = cp.names(n.entries), cp.names(n.durable)
	} else {
		same.file = n.file.clone()
	}
	return same
}

func (cp copier) names(names map[string]*node) map[string]*node {
	same := make(map[string]*node, len(names))
	for name, n := range names {
		same[name] = cp.node(n)
	}
	return same
}

func (cp copier) entry(e entry) entry {
	return entry{cp.node(e.dir), e.name, cp.node(e.node)}
}

func sortedNames(names map[string]*node) []string {
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted
}
