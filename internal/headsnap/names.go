package headsnap

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

const (
	prefix      = "head_snapshot."
	tmpName     = "tmp-head-snapshot"
	sidecarName = "sidecar"
)

// Name is the name of the snapshot that continues with a log segment.
//
//go:noinline
func Name(segment int) string { return fmt.Sprintf("%s%08d", prefix, segment) }

// IsName tells whether a directory entry has the name of a snapshot, and of which segment.
func IsName(e fs.DirEntry) (segment int, ok bool) {
	number, ok := strings.CutPrefix(e.Name(), prefix)
	n, err := strconv.Atoi(number)
	return n, ok && err == nil && n > 0 && e.IsDir() && e.Name() == Name(n)
}

// SidecarPath returns the file that makes a directory a snapshot: it comes last and goes first.
func SidecarPath(snapshot string) string { return filepath.Join(snapshot, sidecarName) }

// Found is a snapshot of a data directory, good or not.
type Found struct {
	Segment int // that it continues with
	Path    string
}

// List returns what has the name of a snapshot, that of the highest segment first. Other names
// are none of its business.
func List(fsys fileutil.FS, dataDir string) ([]Found, error) {
	entries, err := fsys.ReadDir(dataDir)
	if err != nil {
		return nil, err
	}
	var list []Found
	for _, e := range entries {
		if n, ok := IsName(e); ok {
			list = append(list, Found{Segment: n, Path: filepath.Join(dataDir, e.Name())})
		}
	}
	sort.Slice(list, func(i, k int) bool { return list[i].Segment > list[k].Segment })
	return list, nil
}
