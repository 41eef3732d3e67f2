package tsdbtest

import (
	"io/fs"
	"time"
)

// epoch is when the first operation of every MemFS took place.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// fileInfo is an fs.FileInfo.
type fileInfo struct {
	name     string
	size     int64
	dir      bool
	modified int64
}

func infoOf(name string, n *node) fileInfo {
	return fileInfo{name: name, size: n.file.size(), dir: n.dir, modified: n.modified}
}

func (i fileInfo) Name() string { return i.name }
func (i fileInfo) Size() int64  { return i.size }
func (i fileInfo) IsDir() bool  { return i.dir }
func (i fileInfo) Sys() any     { return nil }

func (i fileInfo) ModTime() time.Time {
	return epoch.Add(time.Duration(i.modified) * time.Millisecond)
}

func (i fileInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o755
	}
	return 0o644
}
