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

// cachedPlaces is how many pages of a file CachedPart asks for.
const cachedPlaces = 64

// CachedPart estimates how much of f the page cache has, from 0 to 1. A system, or a file
// system, that does not tell is ErrUnsupported.
func CachedPart(f File) (float64, error) {
	if c, ok := f.(interface {
		isCached(off int64) (bool, error)
	}); ok {
		return cachedPart(f, c.isCached)
	}
	return 0, ErrUnsupported
}

func cachedPart(f File, isCached func(off int64) (bool, error)) (float64, error) {
	size, err := f.Size()
	if err != nil || size == 0 {
		return 0, err
	}
	cached := 0
	for i := range int64(cachedPlaces) {
		// In the middle of as many equal parts.
		yes, err := isCached(size/cachedPlaces*i + size/(2*cachedPlaces))
		if err != nil {
			return 0, err
		}
		if yes {
			cached++
		}
	}
	return float64(cached) / cachedPlaces, nil
}
