package wal

import (
	"bytes"
	"context"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Start is a place in the log from which on it can be read by who has all that is before:
// the beginning of a segment.
type Start struct {
	Segment int    // its number
	NextSeq uint64 // sequence number of the first commit in it
	NextRef uint64 // smallest series ref never handed out before it
	// LastFrame is the checksum of the frame that the segment before ends with, 0 if that
	// has none. It tells one log from another with the same numbers.
	LastFrame uint32
	// Synced is the newest commit that is known to be on stable storage: the loss of one up to
	// it is damage, and no torn end. What is below NextSeq-1 stands for that.
	Synced uint64
}

// StaleReason says why the log in dir is not the one that s is a place of, or cannot be
// read from there: an empty reason means that it can. The segment must be there and begin
// with the commit, what is before it, if it is still there, must end as it did, and nobody
// else may have written since.
func StaleReason(ctx context.Context, fsys fileutil.FS, dir string, s Start) (reason string, err error) {
	list, err := readable(ctx, fsys, dir)
	if err != nil {
		return "", err
	}
	if _, ok := list.segment(s.Segment); !ok {
		return "its log segment is gone", nil
	}
	p := newPipeline(ctx, ReplayOptions{FS: fsys, Decoders: 1}, newReport(list.from(s.Segment)))
	defer p.stop()
	h, found, err := headerOfSegment(fsys, p.report.segments[0].file.Path)
	switch {
	case err != nil:
		return "", err
	case !found || h.segment != uint64(s.Segment) || h.nextSeq != s.NextSeq:
		return "its log segment begins with another commit", nil
	}
	for i := range p.report.segments {
		switch own, err := p.owner(i); {
		case err != nil:
			return "", err
		case own == ownerForeign:
			return "somebody else has written to the log", nil
		}
	}
	if before, ok := list.segment(s.Segment - 1); ok {
		switch sum, err := lastFrame(ctx, fsys, before); {
		case err != nil:
			return "", err
		case sum != s.LastFrame:
			return "the log before it ends with another commit", nil
		}
	}
	return "", nil
}

// segment returns a segment of the log.
func (l *Listing) segment(n int) (SegmentFile, bool) {
	for _, s := range l.Segments {
		if s.Number == n {
			return s, true
		}
	}
	return SegmentFile{}, false
}

// from is the listing without what is before segment n.
//
//go:noinline
func (l *Listing) from(n int) *Listing {
	part := *l
	part.partial, part.CheckpointSegments = true, nil
	for len(part.Segments) > 0 && part.Segments[0].Number < n {
		part.Segments = part.Segments[1:]
	}
	return &part
}

// headerOfSegment returns the header that a segment of ours begins with.
func headerOfSegment(fsys fileutil.FS, path string) (h header, found bool, err error) {
	f, err := fsys.Open(path)
	if err != nil {
		return header{}, false, errors.WithMessage(err, "open log segment")
	}
	defer func() { err = fileutil.JoinErrors(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return header{}, false, err
	}
	first := make([]byte, min(size, PageSize))
	if n, err := f.ReadAt(first, 0); n < len(first) {
		return header{}, false, errors.WithMessage(err, "read log segment")
	}
	var s scanner
	s.reset(bytes.NewReader(first), int64(len(first)))
	rec, it := s.next(nil)
	h, found = headerOf(it, rec)
	return h, found && it.kind == itemRecord, s.err
}

// framePages is how many pages from its end on a segment is searched for its last frame,
// which stands within the last two that have anything.
const framePages = 3

// lastFrame returns the checksum of the last frame of a segment, 0 if there is none near
// its end.
func lastFrame(ctx context.Context, fsys fileutil.FS, seg SegmentFile) (sum uint32, err error) {
	list := &Listing{Checkpoint: -1, Segments: []SegmentFile{seg}}
	p := newPipeline(ctx, ReplayOptions{FS: fsys, Decoders: 1}, newReport(list))
	defer p.stop()
	from := max(0, (seg.Size+PageSize-1)/PageSize-framePages) * PageSize
	err = p.scanSegment(0, from, func(it item, rec []byte) bool {
		if it.kind == itemRecord && isPrivate(it, rec) && isFrame(rec) {
			if f, ok := parseFrame(rec); ok {
				sum = f.crc
			}
		}
		return true
	})
	return sum, err
}
