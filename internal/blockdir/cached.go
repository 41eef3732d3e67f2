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

func cachedBytes(fsys fileutil.FS, path string) int64 {
	f, err := fsys.Open(path)
	if err != nil {
		return 0
	}
	size, err := f.Size()
	part := 0.0
	if err == nil {
		part, _ = fileutil.CachedPart(f)
	}
	_ = f.Close() // nothing was written through it
	return int64(part * float64(size))
}
