package wal

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

const (
	checkpointPrefix = "checkpoint."
	tmpSuffix        = ".tmp" // checkpoint.N.tmp: never finished, not looked at
)

// segmentName is how we name a segment; any decimal number is read.
//
//go:noinline
func segmentName(n int) string { return fmt.Sprintf("%08d", n) }

// SegmentFile is one segment of a log or of a checkpoint.
type SegmentFile struct {
	Number int
	Path   string
	Size   int64 // bytes, when it was listed
}

// Listing is what a log directory has.
type Listing struct {
	Checkpoint         int           // number of the highest checkpoint, -1 if there is none
	CheckpointDir      string        // its directory
	CheckpointSegments []SegmentFile // in order
	Segments           []SegmentFile // those that follow the checkpoint, in order
	Covered            []SegmentFile // left over from before the checkpoint, in order

	partial bool      // without what is before a Start
	doubted []doubted // higher checkpoints that are not believed
}

// Next returns the number of the segment to create next.
func (l *Listing) Next() int {
	if n := len(l.Segments); n > 0 {
		return l.Segments[n-1].Number + 1
	}
	return l.Checkpoint + 1
}

// Bytes returns the size of all that is replayed.
//
//go:noinline
func (l *Listing) Bytes() int64 {
	n := int64(0)
	for _, s := range l.CheckpointSegments {
		n += s.Size
	}
	for _, s := range l.Segments {
		n += s.Size
	}
	return n
}

// BytesFrom returns how much log there is to read behind a snapshot that continues with a
// segment, and altogether if that is gone.
func (l *Listing) BytesFrom(segment int) (n int64) {
	if len(l.Segments) == 0 || segment < l.Segments[0].Number {
		return l.Bytes()
	}
	for _, s := range l.Segments {
		if s.Number >= segment {
			n += s.Size
		}
	}
	return n
}

// List lists a log directory; one that does not exist is empty. Names that are no
// numbers are none of its business. A hole in the numbers, or a number that is no
// regular file, is ErrSegments with the name and what to do.
func List(fsys fileutil.FS, dir string) (*Listing, error) {
	l, err := list(fsys, dir)
	if err != nil {
		return nil, err
	}
	if err := contiguous(l.Segments, l.Checkpoint+1, dir); err != nil {
		return nil, err
	}
	return l, contiguous(l.CheckpointSegments, 0, l.CheckpointDir)
}

// list is List that lets holes be.
func list(fsys fileutil.FS, dir string) (*Listing, error) {
	l := &Listing{Checkpoint: -1}
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, errors.WithMessage(err, "list log")
	}
	for _, e := range entries {
		if n, ok := checkpointNumber(e); ok && n > l.Checkpoint {
			l.Checkpoint, l.CheckpointDir = n, filepath.Join(dir, e.Name())
		}
	}
	all, err := segmentFiles(dir, entries)
	if err != nil {
		return nil, err
	}
	l.split(all)
	return l, l.listCheckpoint(fsys)
}

// split takes over all segments: those that the checkpoint covers, and those that follow it.
//
//go:noinline
func (l *Listing) split(all []SegmentFile) {
	split := len(all)
	for i, s := range all {
		if s.Number > l.Checkpoint {
			split = i
			break
		}
	}
	l.Covered, l.Segments = all[:split:split], all[split:]
}

func (l *Listing) listCheckpoint(fsys fileutil.FS) error {
	if l.Checkpoint < 0 {
		return nil
	}
	entries, err := fsys.ReadDir(l.CheckpointDir)
	if err != nil {
		return errors.WithMessage(err, "list checkpoint")
	}
	l.CheckpointSegments, err = segmentFiles(l.CheckpointDir, entries)
	return err
}

// checkpointNumber parses checkpoint.N, a directory.
func checkpointNumber(e fs.DirEntry) (int, bool) {
	number, found := strings.CutPrefix(e.Name(), checkpointPrefix)
	if !found || !e.IsDir() || strings.HasSuffix(number, tmpSuffix) {
		return 0, false
	}
	n, err := strconv.Atoi(number)
	return n, err == nil && n >= 0
}

// segmentFiles returns the entries whose names are numbers, sorted by number.
func segmentFiles(dir string, entries []fs.DirEntry) ([]SegmentFile, error) {
	var segments []SegmentFile
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if n < 0 || !e.Type().IsRegular() {
			return nil, segmentsError("%s has the name of a log segment but is none: move it out of the directory", path)
		}
		info, err := e.Info()
		if err != nil {
			return nil, errors.Wrapf(err, "stat log segment %s", path)
		}
		segments = append(segments, SegmentFile{Number: n, Path: path, Size: info.Size()})
	}
	sort.Slice(segments, func(i, k int) bool { return segments[i].Number < segments[k].Number })
	return segments, nil
}

// OutOfOrderDir is the name of the directory of a log whose oldest segments go without a
// checkpoint: it begins with any segment.
const OutOfOrderDir = "wbl"

// contiguous checks that segments count up from first without a hole.
func contiguous(segments []SegmentFile, first int, dir string) error {
	if len(segments) > 0 && filepath.Base(dir) == OutOfOrderDir {
		first = max(first, segments[0].Number)
	}
	for i, s := range segments {
		if want := first + i; s.Number > want {
			return segmentsError("segment %s is missing in %s (the next one is %s): restore it, or move the segments from %s on out of the directory to open what is before it",
				segmentName(want), dir, filepath.Base(s.Path), filepath.Base(s.Path))
		}
		if i > 0 && s.Number == segments[i-1].Number {
			return segmentsError("%s and %s are the same segment: move one of them out of the directory", segments[i-1].Path, s.Path)
		}
	}
	return nil
}

//go:noinline
func segmentsError(format string, args ...any) error {
	return &failure{means: []error{ErrSegments}, cause: errors.Errorf(format, args...)}
}
