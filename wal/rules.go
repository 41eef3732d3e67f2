package wal

import "math"

// rules applies the reading rules to units in log order. It runs on the goroutine
// that called Replay.
//
// Invariant: what was accepted is a prefix of the commit order, except for commits
// that are at or below the watermark (once on stable storage, so damaged later) or
// that somebody else has read past; those are lost alone.
type rules struct {
	*pipeline
	report *ReplayReport

	expect uint64 // next sequence number; 0 until the log shows one
	look   *lookahead

	// Since the last unit that counts. A tail that a crash tore consists of this.
	suspect int   // index in report.Damages of the first damage, len if there is none
	records int   // dropped
	bytes   int64 // dropped
	endOff  int64 // end of the last unit that counts, in segment report.endSeg

	filled     uint64  // bare frames that Repair will write
	checkpoint trailer // of the checkpoint's records so far, as its trailer should be
	dropped    bool    // a unit of the batch was dropped by a rule
}

// judge takes the units of a batch. changed says that some records which could be
// decoded do not count, so that Batch.Records is to be made anew.
func (j *rules) judge(b *Batch) (changed bool, err error) {
	j.dropped = false
	for i := range b.units {
		u := &b.units[i]
		if !j.report.ended {
			err = j.unit(b, u)
		}
		if err != nil {
			return false, err
		}
		if j.report.ended && u.counts() {
			u.dropped, j.dropped = true, true
		}
	}
	return j.dropped, nil
}

func (j *rules) unit(b *Batch, u *unit) error {
	switch u.kind {
	case unitCommit:
		return j.commit(u)
	case unitRecords:
		j.single(b, u)
	case unitOrphans:
		j.orphans(u)
	case unitDamage:
		j.damaged(u)
	case unitHeader:
		return j.header(u)
	case unitCheckpointHeader:
		j.checkpointHeader(u)
	case unitCheckpointTrailer:
		j.checkpointTrailer(u)
	case unitSegment:
		j.segment(u)
	}
	return nil
}

// commit judges a commit with its frame.
func (j *rules) commit(u *unit) error {
	seq := u.frame.seq
	j.watermark(u.frame.synced())
	j.begin(u, seq)
	if seq < j.expect {
		return j.repeated(u)
	}
	if over, err := j.missing(u, seq); over || err != nil {
		return err
	}
	if u.reason != "" {
		over, err := j.lost(u, seq, seq, u.n, u.reason)
		if !over && err == nil {
			j.drop(u)
			j.expect = seq + 1
		}
		return err
	}
	j.nothingMissing()
	j.expect = seq + 1
	if u.n > 0 { // a bare frame takes a number and nothing else
		j.report.Commits++
		j.seg(u).maxSeq = seq
	}
	j.accept(u)
	return nil
}

// begin takes seq, the first sequence number that the log shows, for the next one. A checkpoint of ours
// knows better which one came behind it. It is not asked where somebody else has written since, nor of a
// header right behind it: where all was lost there, Repair has told that, and gone on with a new segment.
func (j *rules) begin(u *unit, seq uint64) {
	if j.expect > 0 {
		return
	}
	j.expect = seq
	told := u.kind == unitHeader && u.seg == j.report.cpNumber
	if h := j.report.cpHeader; h != nil && h.nextSeq > 0 && j.report.Foreign == 0 && !told {
		j.expect = min(seq, h.nextSeq)
	}
}

// repeated judges a commit whose number is not higher than the last one's.
func (j *rules) repeated(u *unit) error {
	within, err := j.contained(u, u.frame.seq)
	if err != nil {
		return err
	}
	j.suspectAt(u, "commit has a sequence number that was there before")
	if !within {
		return j.end()
	}
	j.drop(u)
	j.dropped = j.dropped || u.counts()
	u.dropped = true
	j.report.DroppedCommits++
	j.current().Commits++
	return nil
}

// nothingMissing says that what was found since the last unit that counts was no commit,
// unless one was missed: the number that is expected next is there.
func (j *rules) nothingMissing() {
	for i := j.suspect; i < len(j.report.Damages); i++ {
		d := &j.report.Damages[i]
		d.Harmless = d.framed && d.Commits == 0 && d.Records == 0
	}
}

// missing judges the commits between the last one and seq, which u names. over: the
// log ends before them.
func (j *rules) missing(u *unit, seq uint64) (over bool, err error) {
	if j.expect == 0 || seq <= j.expect {
		return false, nil
	}
	over, err = j.lost(u, j.expect, seq-1, 0, "commits are missing before this")
	if !over {
		j.expect = seq
	}
	return over, err
}

// lost judges commits first to last, which are missing or bad. Above the watermark
// they end the log: they were never promised, and what follows must not outlive them.
func (j *rules) lost(u *unit, first, last uint64, records int, reason string) (over bool, err error) {
	within, err := j.contained(u, last)
	if err != nil {
		return false, err
	}
	if !within {
		j.suspectAt(u, reason)
		return true, j.end()
	}
	j.book(u, first, last, records, reason)
	at := u.off
	if u.kind == unitHeader && u.off == 0 { // the segment then begins with what is lost
		at = u.end
	}
	j.fill(u.seg, at, first, last)
	return false, nil
}

// book blames the loss of commits first to last on the damage in question, or on u
// if nothing was found.
func (j *rules) book(u *unit, first, last uint64, records int, reason string) {
	j.suspectAt(u, reason)
	d := j.current()
	if d.FirstSeq == 0 {
		d.FirstSeq = first
	}
	d.LastSeq = last
	n := int(min(last-first+1, math.MaxInt32)) // the numbers of a hostile file may be any
	d.Commits += n
	d.Records += records
	j.report.DroppedCommits += n
}

// maxFill bounds how many bare frames take the place of what is lost: 20 MB. Gaps
// beyond that stay, and are reported each time.
const maxFill = 1 << 20

// fill notes that commits first to last are gone for good, and where they were. Only
// what has frames can take more of them.
func (j *rules) fill(seg int, off int64, first, last uint64) {
	s := &j.report.segments[seg]
	if seg < j.report.cpNumber || s.owner != ownerUs || last-first >= maxFill-j.filled {
		return
	}
	j.filled += last - first + 1
	s.dirty = true
	s.gaps = append(s.gaps, gap{off: off, first: first, last: last})
}

// contained says that commit seq was on stable storage, or that somebody else read
// past it and went on: its loss is damage and stays alone. The rest of the log is
// searched for evidence when the first damage asks.
func (j *rules) contained(u *unit, seq uint64) (bool, error) {
	if seq <= j.report.Watermark || j.behind > 0 {
		return true, nil
	}
	if j.look == nil {
		look, err := j.lookAhead(u.seg)
		if err != nil {
			return false, err
		}
		j.look = look
		j.watermark(look.synced)
	}
	return seq <= j.report.Watermark || u.seg < j.look.foreign, nil
}

// single takes records that count by themselves, but those that cannot be read.
func (j *rules) single(b *Batch, u *unit) {
	if u.seg < j.report.cpNumber {
		j.sumCheckpoint(b, u)
	}
	for _, f := range b.failed {
		if f.index >= u.first && f.index < u.first+u.n {
			j.failedRecord(b, u, f)
		}
	}
	j.accept(u)
}

func (j *rules) failedRecord(b *Batch, u *unit, f failedRecord) {
	bad := unit{seg: u.seg, n: 1, off: b.all[f.index].Offset, end: b.spans[f.index].end}
	j.suspectAt(&bad, f.reason)
	j.current().Records++
	j.drop(&bad)
	j.settle()
}

// orphans drops whole records: those of a commit that has no frame, or a malformed one
// of our own.
func (j *rules) orphans(u *unit) {
	j.suspectAt(u, u.reason)
	j.current().Records += u.n
	j.drop(u)
}

// damaged notes bytes that are no records. What they cost shows when the next
// sequence number comes; among records without frames it is at least one of them.
func (j *rules) damaged(u *unit) {
	j.addDamage(u, u.reason)
	j.seg(u).dirty = true
	j.bytes += u.end - u.off
	if j.frameless(u.seg) {
		j.current().Records++
		j.records++
	}
}

// frameless says that records of segment i count by themselves. Nobody knows whose one
// without any record is; a segment of ours that a crash tore at its header is the rule, so
// it must stand behind one of somebody else.
func (j *rules) frameless(i int) bool {
	for i >= j.report.cpNumber && j.report.segments[i].owner == ownerNobody {
		i--
	}
	return i >= 0 && (i < j.report.cpNumber || j.report.segments[i].owner == ownerForeign)
}

func (j *rules) header(u *unit) error {
	h := u.header
	j.watermark(h.synced)
	j.report.NextRef = max(j.report.NextRef, h.nextRef)
	if h.nextSeq == 0 {
		return nil
	}
	j.begin(u, h.nextSeq)
	if over, err := j.missing(u, h.nextSeq); over || err != nil {
		return err
	}
	j.nothingMissing()
	j.accept(u) // whatever is torn before it, nothing more is missing
	return nil
}

// accept says that u counts, and with it that what was found before it is no torn
// tail.
func (j *rules) accept(u *unit) {
	j.settle()
	j.report.endSeg, j.endOff = u.seg, u.end
}

// settle books what was dropped since the last unit that counts.
func (j *rules) settle() {
	j.report.DroppedRecords += j.records
	j.report.DroppedBytes += j.bytes
	j.records, j.bytes = 0, 0
	j.suspect = len(j.report.Damages)
}

// drop notes that a unit's records do not count, for Repair to leave them out.
func (j *rules) drop(u *unit) {
	seg := j.seg(u)
	seg.dirty = true
	seg.drops = append(seg.drops, drop{off: u.off, end: u.end})
	j.records += u.n
	j.bytes += u.end - u.off
}

func (j *rules) segment(u *unit) {
	if u.seg == j.report.cpNumber-1 {
		j.endCheckpoint(u)
	}
	seg := j.seg(u)
	j.report.Bytes += seg.file.Size
	if seg.owner == ownerForeign && u.seg >= j.report.cpNumber {
		j.report.Foreign++
	}
}

// end ends the log behind the last unit that counts. All that follows is counted and
// dropped.
func (j *rules) end() error {
	if j.report.endSeg < j.report.cpNumber {
		j.report.endSeg, j.endOff = j.report.cpNumber, 0
	}
	rest, err := j.countFrom(j.report.endSeg, j.endOff)
	if err != nil {
		return err
	}
	j.records, j.bytes = 0, 0
	j.report.ended = true
	j.report.DroppedCommits += rest.commits
	j.report.DroppedRecords += rest.records
	j.report.DroppedBytes += rest.bytes
	j.tail(rest)
	seg := &j.report.segments[j.report.endSeg]
	seg.dirty, seg.cut = seg.dirty || j.endOff < seg.file.Size, j.endOff
	for i := j.report.endSeg + 1; i < len(j.report.segments); i++ { // they go, their gaps stay
		for _, g := range j.report.segments[i].gaps {
			j.filled -= g.last - g.first + 1
			j.fill(j.report.endSeg, math.MaxInt64, g.first, g.last)
		}
	}
	return nil
}

// tail marks the damages since the last unit that counts as the torn end of the log.
func (j *rules) tail(rest remainder) {
	j.report.TornTail = true
	for i := j.suspect; i < len(j.report.Damages); i++ {
		d := &j.report.Damages[i]
		d.Tail = true
		if i == j.suspect {
			d.Commits, d.Records = rest.commits, rest.records
		}
	}
}

// finish ends a replay that came to the end of all segments, or ended the log before.
// What follows the last unit that counts was torn, unless it had been on stable
// storage.
func (j *rules) finish() error {
	r := j.report
	if h := r.cpHeader; h != nil && j.expect == 0 {
		j.expect = h.nextSeq
	}
	if j.behind > 0 {
		j.finishCovered()
		return nil
	}
	if j.expect == 0 {
		j.expect = j.noneLeft()
	}
	switch lost := j.expect > 0 && r.Watermark >= j.expect; {
	case lost:
		j.lostAtEnd()
	case !r.ended && (j.suspect < len(r.Damages) || j.records > 0):
		j.tail(remainder{records: j.records})
	}
	r.LastSeq = max(j.expect, 1) - 1
	j.settle()
	return nil
}

// finishCovered ends the reading of a part of the log that has no torn end.
func (j *rules) finishCovered() {
	r := j.report
	if j.expect > 0 && j.behind > j.expect {
		last := max(j.covered-1, 0)
		j.book(&unit{seg: last, off: j.endOff, end: j.endOff}, j.expect, j.behind-1, 0, "commits are missing at the end")
		r.segments[last].dirty = true
		j.expect = j.behind
	}
	r.LastSeq = max(j.expect, 1) - 1
	j.settle()
}

func (j *rules) watermark(synced uint64) {
	j.report.Watermark = max(j.report.Watermark, synced)
}

func (j *rules) seg(u *unit) *segmentState { return &j.report.segments[u.seg] }

// suspectAt makes sure that there is a damage to blame for what u shows.
func (j *rules) suspectAt(u *unit, reason string) {
	if j.suspect >= len(j.report.Damages) {
		j.addDamage(u, reason)
	}
}

// current is the damage that is blamed: the first since the last unit that counts.
func (j *rules) current() *Damage {
	if j.suspect < len(j.report.Damages) {
		return &j.report.Damages[j.suspect]
	}
	return new(Damage) // not listed
}

// addDamage lists a damage at u, or extends the one right before it.
func (j *rules) addDamage(u *unit, reason string) {
	r := j.report
	seg := j.seg(u)
	if last := len(r.Damages) - 1; last >= j.suspect {
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
		Offset: u.off, End: u.end, Reason: reason, framed: j.expect > 0 && u.seg >= r.cpNumber && seg.owner != ownerForeign && !j.frameless(u.seg)})
}
