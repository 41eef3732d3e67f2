package fileutil

import (
	"io"
	"io/fs"
)

// Held returns fsys for who holds a directory: before each operation that takes a name it
// calls check, and returns its error instead of doing anything. So nothing is made, removed
// or read under a path that leads elsewhere by now. Files that are open go on: whoever
// renamed the directory, they are in it.
func Held(fsys FS, check func() error) FS { return &heldFS{fsys, check} }

type heldFS struct {
	FS
	check func() error
}

// Under returns the file system that Held was given, others as they are.
func Under(fsys FS) FS {
	for {
		h, ok := fsys.(*heldFS)
		if !ok {
			return fsys
		}
		fsys = h.FS
	}
}

func (h *heldFS) Create(name string) (File, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	return h.FS.Create(name)
}

func (h *heldFS) Open(name string) (File, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	return h.FS.Open(name)
}

func (h *heldFS) OpenWrite(name string) (File, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	return h.FS.OpenWrite(name)
}

func (h *heldFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	return h.FS.ReadDir(name)
}

func (h *heldFS) Stat(name string) (fs.FileInfo, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	return h.FS.Stat(name)
}

func (h *heldFS) Rename(oldname, newname string) error {
	if err := h.check(); err != nil {
		return err
	}
	return h.FS.Rename(oldname, newname)
}

func (h *heldFS) Link(oldname, newname string) error {
	if err := h.check(); err != nil {
		return err
	}
	return h.FS.Link(oldname, newname)
}

func (h *heldFS) Remove(name string) error {
	if err := h.check(); err != nil {
		return err
	}
	return h.FS.Remove(name)
}

func (h *heldFS) MkdirAll(name string) error {
	if err := h.check(); err != nil {
		return err
	}
	return h.FS.MkdirAll(name)
}

// SyncDir has not been tried if the check fails: no sync has failed.
func (h *heldFS) SyncDir(name string) error {
	if err := h.check(); err != nil {
		return NotTried(err)
	}
	return h.FS.SyncDir(name)
}

// DiskSpace passes on what the function of that name looks for.
func (h *heldFS) DiskSpace(dir string) (free, total int64, err error) {
	return DiskSpace(h.FS, dir)
}

// OpenDirect passes on what the function of that name looks for.
func (h *heldFS) OpenDirect(name string) (io.ReadCloser, int64, error) {
	if err := h.check(); err != nil {
		return nil, 0, err
	}
	return OpenDirect(h.FS, name)
}

// IsLink passes on what the function of that name looks for.
func (h *heldFS) IsLink(name string) (bool, error) {
	if err := h.check(); err != nil {
		return false, err
	}
	return IsLink(h.FS, name)
}

// Abs passes on what the function of that name looks for. It asks for nothing on the disk.
func (h *heldFS) Abs(path string) (string, error) { return Abs(h.FS, path) }
