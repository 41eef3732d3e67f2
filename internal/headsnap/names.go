package headsnap

import (
	"fmt"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Prefix begins the names of head snapshots.
const Prefix = "head_snapshot."

const (
	tmpName     = "tmp-head-snapshot"
	sidecarName = "sidecar"
)

// Name is the name of the snapshot that continues with a log segment.
func Name(segment int) string { return fmt.Sprintf("%s%08d", Prefix, segment) }

// Found is a snapshot of a data directory, good or not.
type Found struct {
	Segment int // that it continues with; -1 if the name has none
	Path    string
}

// List returns what has the name of a snapshot, that of the highest segment first.
func List(fsys fileutil.FS, dataDir string) ([]Found, error) {
	entries, err := fsys.ReadDir(dataDir)
	if err != nil {
		return nil, err
	}
	var list []Found
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), Prefix)
		if !ok {
			continue
		}
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || !e.IsDir() {
			n = -1
		}
		list = append(list, Found{Segment: n, Path: filepath.Join(dataDir, e.Name())})
	}
	sort.Slice(list, func(i, k int) bool {
		a, b := list[i], list[k]
		return a.Segment > b.Segment || a.Segment == b.Segment && a.Path < b.Path
	})
	return list, nil
}
