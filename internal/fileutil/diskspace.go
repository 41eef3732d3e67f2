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

// DropCache asks the operating system to forget the cached pages of f that are on
// stable storage already (sync first), so that a long sequential write does not
// push out what others need. It is advice: where there is no such call it does
// nothing.
func DropCache(f File) error {
	if d, ok := f.(interface{ DropCache() error }); ok {
		return d.DropCache()
	}
	return nil
}
