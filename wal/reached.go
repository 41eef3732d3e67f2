package wal

import "math"

// What is known from elsewhere of how far a log reached (Reach) is held against what there is of
// it. A log whose newest segment is empty, missing, or cut between two commits looks whole.

// reached reports whether r says something of the log that is there. It does not if a checkpoint
// covers the segment, as another engine may have made it and dropped our frames; nor if we
// began a segment behind that one: its header knows more.
func (p *pipeline) reached(r *Reach) (bool, error) {
	if r == nil || r.Segment <= p.report.listing.Checkpoint {
		return false, nil
	}
	for _, seg := range p.report.listing.Segments {
		if seg.Number <= r.Segment {
			continue
		}
		if _, found, err := headerOfSegment(p.opts.FS, seg.Path); found || err != nil {
			return false, err
		}
	}
	return true, nil
}

// takeReach makes what is known of the log's end count as its watermark, and what is known of its
// beginning, if it still begins there, as the number of its first commit.
func (p *pipeline) takeReach(r *Reach) error {
	if s := p.report.listing.Segments; p.opts.Bounds && r != nil && len(s) > 0 && int64(s[0].Number) == r.Mark {
		p.next = r.NextRef
	}
	ok, err := p.reached(r)
	if !ok || err != nil {
		return err
	}
	p.reach, p.report.Reached = r, true
	p.report.Watermark = max(p.report.Watermark, r.Synced)
	if !p.opts.Bounds {
		p.report.NextRef = max(p.report.NextRef, r.NextRef)
	}
	return nil
}

// noneLeft is called at the end of a log in which nothing says which commits it had. It tells which
// one was to come first, if that is known.
func (j *rules) noneLeft() uint64 {
	switch r := j.report; {
	case j.reach == nil:
		return 0
	case r.Checkpoint < 0 && r.Foreign == 0:
		return 1 // nothing of it was ever removed
	default: // what somebody else has made of what was before is not known
		return j.reach.FirstSeq
	}
}

// cutBehindCheckpoint notes that nothing is left behind a checkpoint of ours. There was a segment
// with a header before the checkpoint got its name.
func (p *pipeline) cutBehindCheckpoint() {
	r := p.report
	if r.cpHeader == nil || p.reach != nil || r.listing.partial {
		return
	}
	for _, s := range r.segments[r.cpNumber:] {
		if s.owner != ownerNobody {
			return
		}
	}
	r.Damages = append(r.Damages, Damage{File: r.listing.CheckpointDir, Segment: r.Checkpoint, Checkpoint: true,
		Reason: "the log behind the checkpoint is gone"})
}

// lostAtEnd notes that commits up to the watermark are missing behind all others.
func (j *rules) lostAtEnd() {
	r, reason := j.report, "commits are missing at the end of the log"
	first, last := j.expect, r.Watermark
	j.expect = last + 1
	if len(r.segments) == 0 {
		n := int(min(last-first+1, math.MaxInt32))
		r.DroppedCommits += n
		r.Damages = append(r.Damages, Damage{File: j.opts.Dir, Reason: reason, FirstSeq: first, LastSeq: last, Commits: n})
		return
	}
	end := len(r.segments) - 1
	if r.ended {
		end = r.endSeg
	}
	off := j.lost.endOff
	if end != r.endSeg {
		off = 0
	}
	j.lost.book(&unit{seg: end, off: off, end: off}, first, last, 0, reason)
	i := r.lastOurs(end)
	if i < 0 {
		i = r.emptyBehindCheckpoint(end)
	}
	if i >= 0 {
		j.lost.fill(i, math.MaxInt64, first, last)
	}
}

// emptyBehindCheckpoint returns the index of an empty segment that was ours, as the checkpoint
// before it is, -1 if there is none: it gets bare frames.
func (r *ReplayReport) emptyBehindCheckpoint(upTo int) int {
	i := r.cpNumber
	if r.cpHeader == nil || r.Foreign > 0 || i > upTo || r.segments[i].file.Size > 0 {
		return -1
	}
	r.segments[i].owner = ownerUs
	return i
}

// lastOurs returns the index of the last segment of ours up to one, -1 if there is none: bare
// frames may be put there.
func (r *ReplayReport) lastOurs(upTo int) int {
	for i := upTo; i >= r.cpNumber; i-- {
		if r.segments[i].owner == ownerUs {
			return i
		}
	}
	return -1
}

// frameless says that records of segment i count by themselves. Nobody knows whose one
// without any record is; a segment of ours that a crash tore at its header is the rule, so
// it must stand behind one of somebody else.
//
//go:noinline
func (r *ReplayReport) frameless(i int) bool {
	for i >= r.cpNumber && r.segments[i].owner == ownerNobody {
		i--
	}
	return i >= 0 && (i < r.cpNumber || r.segments[i].owner == ownerForeign)
}
