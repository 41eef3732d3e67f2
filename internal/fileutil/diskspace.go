package fileutil

// DiskSpace returns the bytes that a process may still write in dir and the bytes
// of the whole device. A file system that does not know is ErrUnsupported.
func DiskSpace(fsys FS, dir string) (free, total int64, err error) {
	if s, ok := fsys.(interface {
		DiskSpace(dir string) (free, total int64, err error)
	}); ok {
		return s.DiskSpace(dir)
	}
	return 0, 0, ErrUnsupported
}
