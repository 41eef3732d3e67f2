package fileutil

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

// IsCached tells whether the page cache has the byte at off. A system, or a file system, that does
// not tell is ErrUnsupported.
func IsCached(f File, off int64) (bool, error) {
	if c, ok := f.(interface {
		IsCached(off int64) (bool, error)
	}); ok {
		return c.IsCached(off)
	}
	return false, ErrUnsupported
}

// cachedPlaces is how many pages of a file CachedBytes asks for.
const cachedPlaces = 64

// CachedBytes estimates how many bytes of f the page cache has. Errors: those of IsCached and Size.
func CachedBytes(f File) (int64, error) {
	size, err := f.Size()
	if err != nil || size == 0 {
		return 0, err
	}
	cached := int64(0)
	for i := range int64(cachedPlaces) {
		// In the middle of as many equal parts.
		yes, err := IsCached(f, size*(2*i+1)/(2*cachedPlaces))
		if err != nil {
			return 0, err
		}
		if yes {
			cached++
		}
	}
	return size * cached / cachedPlaces, nil
}
