package wal

import "github.com/seed347100a3/tsdb/internal/fileutil"

// EndsForeign reports whether somebody else may have had the log after us: its newest segment
// does not begin with a header of ours. Whoever opens a log begins a segment. One without
// a byte may be anybody's. A log without segments is nobody's.
func EndsForeign(fsys fileutil.FS, dir string) (bool, error) {
	l, err := list(fsys, dir)
	if err != nil || len(l.Segments) == 0 {
		return false, err
	}
	newest := l.Segments[len(l.Segments)-1]
	if newest.Size == 0 {
		return true, nil
	}
	_, ours, err := headerOfSegment(fsys, newest.Path)
	return !ours && err == nil, err
}
