package fileutil

// ProbeCached is CachedBytes where there is no cachestat(2).
func ProbeCached(f File) (int64, error) {
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	return f.(*osFile).probeCached(size)
}
