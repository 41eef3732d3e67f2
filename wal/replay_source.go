package wal

import (
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// source reads the segments in order, checks their fragments and groups records into
// units and batches. It decides nothing but who wrote a segment, and with it whether
// records need a frame.
type source struct {
	*pipeline
	file    fileutil.File // the segment being read
	behind  fileutil.WriteBehind
	scan    scanner
	b       *Batch // being filled; nil between batches
	batches int
	done    int64 // bytes of finished segments
	busy    time.Duration
	since   time.Time

	seg     int  // index of the segment being read
	pending int  // first record in b.all that waits for its frame; len(b.all) if none does
	framed  bool // records of the segment count with their frame only
}

// run reads everything, or stops when the context does.
func (s *source) run() error {
	s.since = time.Now()
	for i := range s.report.segments[:s.covered] {
		if err := s.readSegment(i); err != nil {
			return err
		}
	}
	if s.b != nil {
		return s.send()
	}
	return nil
}

func (s *source) readSegment(i int) error {
	checkpoint := i < s.report.cpNumber
	own := ownerForeign
	if !checkpoint {
		var err error
		if own, err = s.pipeline.owner(i); err != nil {
			return err
		}
	}
	f, size, err := s.openSegment(i)
	if err != nil {
		return err
	}
	s.file, s.behind = f, fileutil.WriteBehind{}
	s.scan.reset(f, size)
	s.seg, s.framed = i, own == ownerUs
	err = s.readItems(checkpoint)
	if err == nil {
		err = s.endSegment(size)
	}
	if closeErr := f.Close(); err == nil && closeErr != nil {
		err = errors.WithMessage(closeErr, "close log segment")
	}
	s.done += size
	s.scan.reset(nil, 0)
	return err
}

// readItems reads to the end of the segment.
func (s *source) readItems(checkpoint bool) error {
	for {
		if err := s.ensureBatch(); err != nil {
			return err
		}
		b := s.b
		from := len(b.raw)
		var it item
		b.raw, it = s.scan.next(b.raw)
		switch {
		case s.scan.err != nil:
			return errors.WithMessagef(s.scan.err, "read log segment %s", s.report.segments[s.seg].file.Path)
		case it.kind == itemEnd:
			return nil
		case it.kind == itemDamage:
			s.add(unit{kind: unitDamage, off: it.off, end: it.end, reason: it.reason})
		case isPrivate(it, b.raw[from:]):
			if err := s.private(it, from, checkpoint); err != nil {
				return err
			}
		default:
			s.record(it, from)
		}
		if len(b.raw) >= batchBytes || len(b.units) >= maxUnits {
			if s.pending == len(b.all) {
				if err := s.send(); err != nil {
					return err
				}
			}
		}
	}
}

// isPrivate says that a record is one of private.go's.
func isPrivate(it item, rec []byte) bool {
	return it.comp == CompressionNone && len(rec) > 0 && isPrivateType(rec[0])
}

// add appends a unit of the segment being read.
// It is not inlined: units are large.
//
//go:noinline
func (s *source) add(u unit) {
	u.seg = s.seg
	s.b.units = append(s.b.units, u)
}

// record appends a record that stands in b.raw from from on. Without frames it counts
// by itself.
func (s *source) record(it item, from int) {
	b := s.b
	b.all = append(b.all, Record{Segment: s.report.segments[s.seg].file.Number, Offset: it.off})
	b.spans = append(b.spans, span{from: from, to: len(b.raw), end: it.end, comp: it.comp})
	if !s.framed {
		s.single()
	}
}

// single makes the pending records count by themselves.
func (s *source) single() {
	b := s.b
	n := len(b.all) - s.pending
	end := b.spans[len(b.all)-1].end
	if last := len(b.units) - 1; last >= 0 && b.units[last].kind == unitRecords && b.units[last].seg == s.seg {
		b.units[last].n += n
		b.units[last].end = end
	} else {
		s.add(unit{kind: unitRecords, first: s.pending, n: n, off: b.all[s.pending].Offset, end: end})
	}
	s.pending = len(b.all)
}

// orphans makes the first n pending records a unit of their own: no frame is theirs.
func (s *source) orphans(n int) {
	if n == 0 {
		return
	}
	b := s.b
	some := n
	for _, sp := range b.spans[s.pending : s.pending+n] {
		if sp.from == sp.to { // what zeros behind the first bytes of a fragment look like
			some--
		}
	}
	s.add(unit{kind: unitOrphans, first: s.pending, n: some, reason: "records without a commit frame",
		off: b.all[s.pending].Offset, end: b.spans[s.pending+n-1].end})
	s.pending += n
}

// private takes a record of ours: b.raw from from on.
func (s *source) private(it item, from int, checkpoint bool) error {
	b := s.b
	rec := b.raw[from:]
	switch kind := rec[0]; {
	case isFrame(rec) && s.framed:
		s.frame(it, from)
		return nil
	case kind == typeHeader && !checkpoint, kind == typeCheckpointHeader && checkpoint:
		h, newer, ok := parseHeader(rec)
		u := unit{kind: unitHeader, off: it.off, end: it.end, header: h}
		switch {
		case newer:
			return versionError(s.report.segments[s.seg].file.Path, rec[1])
		case !ok:
			u.kind, u.reason = unitOrphans, "header does not match its checksum"
		case checkpoint:
			u.kind = unitCheckpointHeader
		}
		s.add(u)
	case kind == typeCheckpointTrailer && checkpoint:
		t, ok := parseTrailer(rec)
		u := unit{kind: unitCheckpointTrailer, off: it.off, end: it.end, trailer: t}
		if !ok {
			u.kind, u.reason = unitOrphans, "malformed checkpoint trailer"
		}
		s.add(u)
	}
	b.raw = b.raw[:from]
	return nil
}

func versionError(path string, version byte) error {
	return &failure{means: []error{ErrVersion}, cause: errors.Errorf(
		"log segment %s has a header of version %d, this library reads up to %d: open the directory with a newer one",
		path, version, privateVersion)}
}

// frame closes a commit: its records are the last pending ones.
func (s *source) frame(it item, from int) {
	b := s.b
	f, ok := parseFrame(b.raw[from:])
	if !ok {
		b.raw = b.raw[:from]
		s.add(unit{kind: unitOrphans, off: it.off, end: it.end, reason: "malformed commit frame"})
		return
	}
	u := unit{kind: unitCommit, frame: f, from: from, to: len(b.raw) - crcSize, off: it.off, end: it.end}
	waiting := len(b.all) - s.pending
	if f.records > uint64(waiting) {
		u.reason = "commit lacks records"
	} else {
		s.orphans(waiting - int(f.records))
	}
	u.first, u.n = s.pending, len(b.all)-s.pending
	if u.n > 0 {
		u.off = b.all[u.first].Offset
	}
	for r := u.first; r < len(b.all); r++ {
		b.all[r].Seq = f.seq
	}
	s.pending = len(b.all)
	s.add(u)
}

// endSegment decides about records that wait for a frame which does not come. When
// somebody else continued the log behind this segment they have taken them one by one,
// and so do we.
func (s *source) endSegment(size int64) error {
	if err := s.ensureBatch(); err != nil {
		return err
	}
	if n := len(s.b.all) - s.pending; n > 0 {
		continued, err := s.pipeline.continued(s.seg)
		if err != nil {
			return err
		}
		if continued {
			s.single()
		} else {
			s.orphans(n)
		}
	}
	s.add(unit{kind: unitSegment, off: size, end: size})
	return nil
}

// ensureBatch makes sure that there is a batch to fill.
func (s *source) ensureBatch() error {
	if s.b != nil {
		return nil
	}
	s.busy += time.Since(s.since)
	select {
	case s.b = <-s.free:
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
	s.since = time.Now()
	s.b.reset(s.batches)
	if cap(s.b.raw) == 0 {
		s.b.raw = make([]byte, 0, min(batchBytes+batchBytes/8, s.total))
	}
	s.batches++
	s.pending = 0
	return nil
}

// send hands the batch to the decoders and the rules; both channels have room for all
// batches there are.
func (s *source) send() error {
	read := min(s.scan.off, s.scan.size)
	s.b.bytes = s.done + read
	// Repair syncs every segment that it keeps. What was copied or restored just before is dirty
	// still, and goes to the disk while it is read; for all others, and all other readers, this is
	// nothing to do.
	s.behind.Grown(s.file, read, writebackBytes)
	s.order <- s.b
	s.work <- s.b
	s.b = nil
	return s.ctx.Err()
}
