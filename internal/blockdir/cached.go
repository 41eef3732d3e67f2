package blockdir

import (
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// CachedBytes estimates how many bytes of the chunks the page cache has: none where the system
// does not tell.
func (d *Dir) CachedBytes() (n int64) {
	for i := range d.chunks.Len() {
		n += cachedBytes(d.fs, d.chunks.Path(chunks.NewBlockRef(uint32(i), 0)))
	}
	return n
}

// cachedBytes takes a file that it cannot ask for one that is not cached: a merge that reads it
// meets the error, if there is one.
func cachedBytes(fsys fileutil.FS, path string) int64 {
	f, err := fsys.Open(path)
	if err != nil {
		return 0
	}
	n, err := fileutil.CachedBytes(f)
	if closeErr := f.Close(); err != nil || closeErr != nil {
		return 0
	}
	return n
}
