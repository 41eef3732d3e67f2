package datadir

import (
	"path/filepath"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headsnap"
)

// HeadBytes returns the size of both logs, the head-chunk files and the snapshots of the
// head.
func HeadBytes(fsys fileutil.FS, dir string) (n int64, err error) {
	dirs := []string{filepath.Join(dir, WALDir), filepath.Join(dir, WBLDir), filepath.Join(dir, HeadChunksDir)}
	snapshots, err := headsnap.List(fsys, dir)
	if err != nil {
		return 0, err
	}
	for _, s := range snapshots {
		dirs = append(dirs, s.Path)
	}
	for _, dir := range dirs {
		size, err := fileutil.TreeSize(fsys, dir)
		if err != nil {
			return 0, err
		}
		n += size
	}
	return n, nil
}
