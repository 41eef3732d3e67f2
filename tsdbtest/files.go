package tsdbtest

import (
	"bytes"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// WriteFile makes a file hold data, making it and its directories if need be. All
// of it is durable at once, and no hook is called: it is for preparing a test, and
// for damaging files.
func (m *MemFS) WriteFile(name string, data []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	elems := splitPath(name)
	if len(elems) == 0 {
		return pathError("write", name, syscall.EISDIR)
	}
	dir := m.mu.root
	for _, base := range elems[:len(elems)-1] {
		next := dir.entries[base]
		if next == nil {
			next = m.newNodeLocked(newDir(0))
			next.links = 1
			dir.entries[base] = next
		}
		if !next.dir {
			return pathError("write", name, syscall.ENOTDIR)
		}
		dir.durable[base] = next
		dir = next
	}
	base := elems[len(elems)-1]
	if old := dir.entries[base]; old != nil && old.dir {
		return pathError("write", name, syscall.EISDIR)
	}
	m.putFileLocked(dir, base, bytes.Clone(data))
	return nil
}

// ReadFile returns a copy of what a file holds, without calling the hook.
func (m *MemFS) ReadFile(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.mu.root.find(splitPath(name))
	if err == nil && n.dir {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, pathError("read", name, err)
	}
	return bytes.Clone(n.file.data), nil
}

// Files returns the paths of all files, sorted, with slashes and without a leading
// one; directories that hold nothing are listed too, with a slash at the end.
func (m *MemFS) Files() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []string
	var walk func(n *node, path string)
	walk = func(n *node, path string) {
		switch {
		case !n.dir:
			list = append(list, path)
		case len(n.entries) == 0 && path != "":
			list = append(list, path+"/")
		}
		for name, child := range n.entries {
			sub := name
			if path != "" {
				sub = path + "/" + name
			}
			walk(child, sub)
		}
	}
	walk(m.mu.root, "")
	slices.Sort(list)
	return list
}

// Export writes the file system into a directory of the real one, which need not
// exist: to look at a failing crash state with tools. Files that are there already
// are an error.
func (m *MemFS) Export(dir string) error {
	if err := fileutil.OS.MkdirAll(dir); err != nil {
		return err
	}
	for _, name := range m.Files() {
		if err := m.exportFile(name, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	return nil
}

func (m *MemFS) exportFile(name, path string) error {
	if name[len(name)-1] == '/' {
		return fileutil.OS.MkdirAll(path)
	}
	data, err := m.ReadFile(name)
	if err != nil {
		return err
	}
	if err := fileutil.OS.MkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	f, err := fileutil.OS.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}
