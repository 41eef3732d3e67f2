package wal

import (
	"github.com/pkg/errors"
)

// lookahead is what the rest of the log knows, asked for when damage is met.
type lookahead struct {
	synced  uint64 // highest watermark in any header or frame
	foreign int    // index of the last segment with records of somebody else, -1 for none
}

// remainder is what follows some place of the log.
type remainder struct {
	commits int
	records int
	bytes   int64
}

// lookAhead scans the segments from index from to the end. The source goes on
// meanwhile, so nothing is shared with it.
func (p *pipeline) lookAhead(from int) (*lookahead, error) {
	look := &lookahead{foreign: -1}
	for i := from; i < len(p.report.segments); i++ {
		var w ownership
		err := p.scanSegment(i, 0, func(it item, rec []byte) bool {
			if synced, ok := watermarkIn(it, rec); ok {
				look.synced = max(look.synced, synced)
			}
			w.see(it, rec)
			return true
		})
		if err != nil {
			return nil, err
		}
		if w.owner == ownerForeign {
			look.foreign = i
		}
	}
	return look, nil
}

// watermarkIn returns the watermark that a header or frame carries.
func watermarkIn(it item, rec []byte) (uint64, bool) {
	if it.kind != itemRecord || !isPrivate(it, rec) {
		return 0, false
	}
	switch {
	case isFrame(rec):
		f, ok := parseFrame(rec)
		return f.synced(), ok
	case rec[0] == typeHeader:
		h, _, ok := parseHeader(rec)
		return h.synced, ok
	default:
		return 0, false
	}
}

// countFrom counts what stands behind off in segment i, and in those that follow.
func (p *pipeline) countFrom(i int, off int64) (rest remainder, err error) {
	for ; i < len(p.report.segments); i, off = i+1, 0 {
		rest.bytes += max(p.report.segments[i].file.Size-off, 0)
		err := p.scanSegment(i, off, func(it item, rec []byte) bool {
			switch {
			case it.kind != itemRecord || len(rec) == 0: // see source.orphans about empty ones
			case !isPrivate(it, rec):
				rest.records++
			case isFrame(rec):
				rest.commits++
			}
			return true
		})
		if err != nil {
			return rest, err
		}
	}
	return rest, nil
}

// scanSegment walks segment i from off on and shows each find until visit returns
// false. rec is valid during the call.
func (p *pipeline) scanSegment(i int, off int64, visit func(it item, rec []byte) bool) (err error) {
	f, size, err := p.openSegment(i)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil && closeErr != nil {
			err = errors.WithMessage(closeErr, "close log segment")
		}
	}()
	var s scanner
	s.reset(f, size)
	s.off = off
	var rec []byte
	for {
		var it item
		rec, it = s.next(rec[:0])
		if s.err != nil {
			return errors.WithMessagef(s.err, "read log segment %s", p.report.segments[i].file.Path)
		}
		if it.kind == itemEnd || !visit(it, rec) {
			return p.ctx.Err()
		}
	}
}

// owner returns who wrote segment i of the log. Ours begin with a header; without one
// the whole segment is searched for a header or frame, so that what others wrote is
// read twice.
func (p *pipeline) owner(i int) (owner, error) {
	seg := &p.report.segments[i]
	if seg.known {
		return seg.owner, nil
	}
	var w ownership
	err := p.scanSegment(i, 0, func(it item, rec []byte) bool {
		w.see(it, rec)
		return w.owner != ownerUs
	})
	seg.owner, seg.known = w.owner, err == nil
	return w.owner, err
}

// ownership finds out who wrote a segment by its records.
type ownership struct {
	owner owner
	d     decompressor
	text  []byte
}

// see looks at a find. A header or frame decides; any other record that can be read
// shows somebody else, until one of those comes.
func (w *ownership) see(it item, rec []byte) {
	switch {
	case it.kind != itemRecord || w.owner == ownerUs:
	case isOurs(it, rec):
		w.owner = ownerUs
	case w.owner == ownerNobody && !isPrivate(it, rec):
		var err error
		w.d.begin()
		if w.text, err = w.d.appendDecoded(w.text[:0], it.comp, rec); err == nil {
			w.owner = ownerForeign
		}
	}
}

// isOurs says that a record is a valid segment header or frame.
func isOurs(it item, rec []byte) bool {
	if !isPrivate(it, rec) {
		return false
	}
	switch {
	case isFrame(rec):
		_, ok := parseFrame(rec)
		return ok
	case rec[0] == typeHeader:
		_, newer, ok := parseHeader(rec)
		return ok || newer
	default:
		return false
	}
}

// continued says that somebody else went on writing behind segment i.
func (p *pipeline) continued(i int) (bool, error) {
	for i++; i < len(p.report.segments); i++ {
		own, err := p.owner(i)
		if err != nil || own != ownerNobody {
			return own == ownerForeign, err
		}
	}
	return false, nil
}
