package fileutil

// DropCache asks the operating system to forget the cached pages of f that are on
// stable storage already (sync first), so that a long sequential write does not
// push out what others need. It is advice: where there is no such call it does
// nothing.
//
//go:noinline
func DropCache(f File) error {
	if d, ok := f.(interface{ DropCache() error }); ok {
		return d.DropCache()
	}
	return nil
}

// CachedBytes returns how many bytes of f the page cache has, or an estimate. A system, or a file
// system, that does not tell is ErrUnsupported.
func CachedBytes(f File) (int64, error) {
	if c, ok := f.(interface{ CachedBytes() (int64, error) }); ok {
		return c.CachedBytes()
	}
	return 0, ErrUnsupported
}
