package fileutil

import "golang.org/x/sys/unix"

// ProbeCached is CachedBytes where there is no cachestat(2).
func ProbeCached(f File, size int64) (int64, error) {
	return estimateCached(size, f.(*osFile).isCached)
}

// EstimateCached, LacksCachestat and IsDirect are the parts that need no file.
var EstimateCached, LacksCachestat, IsDirect = estimateCached, lacksCachestat, isDirect

// Statx is what IsDirect judges.
type Statx = unix.Statx_t
