package wal

import "math"

// ledger is the account of what a log has lost: the damages and dropped records of a report, and
// the gaps that Repair fills. What was found since the last unit that counts stays open: a tail
// that a crash tore consists of that.
type ledger struct {
	report   *ReplayReport
	numbered bool // the log has shown the number of a commit

	suspect int   // index in report.Damages of the first damage that is open, len if there is none
	records int   // dropped
	bytes   int64 // dropped
	endOff  int64 // end of the last unit that counts, in segment report.endSeg

	filled uint64 // bare frames that Repair will write
}

// accept says that u counts, and with it that what was found before it is no torn
// tail.
func (l *ledger) accept(u *unit) {
	l.settle()
	l.report.endSeg, l.endOff = u.seg, u.end
}

// settle books what was dropped since the last unit that counts.
func (l *ledger) settle() {
	l.report.DroppedRecords += l.records
	l.report.DroppedBytes += l.bytes
	l.records, l.bytes = 0, 0
	l.suspect = len(l.report.Damages)
}

// suspectAt makes sure that there is a damage to blame for what u shows.
//
//go:noinline
func (l *ledger) suspectAt(u *unit, reason string) {
	if l.suspect >= len(l.report.Damages) {
		l.addDamage(u, reason)
	}
}

// current is the damage that is blamed: the first since the last unit that counts.
//
//go:noinline
func (l *ledger) current() *Damage {
	if l.suspect < len(l.report.Damages) {
		return &l.report.Damages[l.suspect]
	}
	return new(Damage) // not listed
}

// addDamage lists a damage at u, or extends the one right before it.
func (l *ledger) addDamage(u *unit, reason string) {
	r := l.report
	seg := l.seg(u)
	if last := len(r.Damages) - 1; last >= l.suspect {
		if d := &r.Damages[last]; d.File == seg.file.Path && d.End == u.off {
			d.End = u.end
			return
		}
	}
	if len(r.Damages) == maxDamages {
		r.OmittedDamages++
		return
	}
	r.Damages = append(r.Damages, Damage{File: seg.file.Path, Segment: seg.file.Number, Checkpoint: u.seg < r.cpNumber,
		Offset: u.off, End: u.end, Reason: reason, framed: l.numbered && u.seg >= r.cpNumber && seg.owner != ownerForeign && !r.frameless(u.seg)})
}

// nothingMissing says that what was found since the last unit that counts was no commit,
// unless one was missed: the number that is expected next is there.
//
//go:noinline
func (l *ledger) nothingMissing() {
	for i := l.suspect; i < len(l.report.Damages); i++ {
		d := &l.report.Damages[i]
		d.Harmless = d.framed && d.Commits == 0 && d.Records == 0
	}
}

// book blames the loss of commits first to last on the damage in question, or on u
// if nothing was found.
func (l *ledger) book(u *unit, first, last uint64, records int, reason string) {
	l.suspectAt(u, reason)
	d := l.current()
	if d.FirstSeq == 0 {
		d.FirstSeq = first
	}
	d.LastSeq = last
	n := int(min(last-first+1, math.MaxInt32)) // the numbers of a hostile file may be any
	d.Commits += n
	d.Records += records
	l.report.DroppedCommits += n
}

// drop notes that a unit's records do not count, for Repair to leave them out.
//
//go:noinline
func (l *ledger) drop(u *unit) {
	seg := l.seg(u)
	seg.dirty = true
	seg.drops = append(seg.drops, drop{off: u.off, end: u.end})
	l.records += u.n
	l.bytes += u.end - u.off
}

// maxFill bounds how many bare frames take the place of what is lost: 20 MB. Gaps
// beyond that stay, and are reported each time.
const maxFill = 1 << 20

// fill notes that commits first to last are gone for good, and where they were. Only
// what has frames can take more of them.
//
//go:noinline
func (l *ledger) fill(seg int, off int64, first, last uint64) {
	s := &l.report.segments[seg]
	if seg < l.report.cpNumber || s.owner != ownerUs || last-first >= maxFill-l.filled {
		return
	}
	l.filled += last - first + 1
	s.dirty = true
	s.gaps = append(s.gaps, gap{off: off, first: first, last: last})
}

// moveGaps puts the gaps of segments behind one, which go, at its end: they stay.
func (l *ledger) moveGaps(to int) {
	for i := to + 1; i < len(l.report.segments); i++ {
		for _, g := range l.report.segments[i].gaps {
			l.filled -= g.last - g.first + 1
			l.fill(to, math.MaxInt64, g.first, g.last)
		}
	}
}

// open reports whether something was found since the last unit that counts.
func (l *ledger) open() bool { return l.suspect < len(l.report.Damages) || l.records > 0 }

// tearTail marks the damages since the last unit that counts as the torn end of the log.
//
//go:noinline
func (l *ledger) tearTail(rest remainder) {
	l.report.TornTail = true
	for i := l.suspect; i < len(l.report.Damages); i++ {
		d := &l.report.Damages[i]
		d.Tail = true
		if i == l.suspect {
			d.Commits, d.Records = rest.commits, rest.records
		}
	}
}

// seg returns the segment of a unit.
func (l *ledger) seg(u *unit) *segmentState { return &l.report.segments[u.seg] }
