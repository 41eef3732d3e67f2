package wal

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

	lost       ledger
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
		over, err := j.loses(u, seq, seq, u.n, u.reason)
		if !over && err == nil {
			j.lost.drop(u)
			j.expect = seq + 1
		}
		return err
	}
	j.lost.nothingMissing()
	j.expect = seq + 1
	j.lost.seg(u).maxSeq = seq
	if u.n > 0 { // a bare frame takes a number and nothing else
		j.report.Commits++
	}
	j.lost.accept(u)
	return nil
}

// begin takes seq, the first sequence number that the log shows, for the next one. A checkpoint of
// ours knows better which one came behind it. It is not asked where somebody else has written
// since, nor of a header right behind it: where all was lost there, Repair has told that, and gone
// on with a new segment.
func (j *rules) begin(u *unit, seq uint64) {
	if j.expect > 0 {
		return
	}
	j.expect, j.lost.numbered = seq, true
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
	j.lost.suspectAt(u, "commit has a sequence number that was there before")
	if !within {
		return j.end()
	}
	j.lost.drop(u)
	j.dropped = j.dropped || u.counts()
	u.dropped = true
	j.report.DroppedCommits++
	j.lost.current().Commits++
	return nil
}

// missing judges the commits between the last one and seq, which u names. over: the
// log ends before them.
func (j *rules) missing(u *unit, seq uint64) (over bool, err error) {
	if j.expect == 0 || seq <= j.expect {
		return false, nil
	}
	over, err = j.loses(u, j.expect, seq-1, 0, "commits are missing before this")
	if !over {
		j.expect = seq
	}
	return over, err
}

// loses judges commits first to last, which are missing or bad. Above the watermark
// they end the log: they were never promised, and what follows must not outlive them.
func (j *rules) loses(u *unit, first, last uint64, records int, reason string) (over bool, err error) {
	within, err := j.contained(u, last)
	if err != nil {
		return false, err
	}
	if !within {
		j.lost.suspectAt(u, reason)
		return true, j.end()
	}
	j.lost.book(u, first, last, records, reason)
	at := u.off
	if u.kind == unitHeader && u.off == 0 { // the segment then begins with what is lost
		at = u.end
	}
	j.lost.fill(u.seg, at, first, last)
	return false, nil
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
	j.lost.accept(u)
}

func (j *rules) failedRecord(b *Batch, u *unit, f failedRecord) {
	bad := unit{seg: u.seg, n: 1, off: b.all[f.index].Offset, end: b.spans[f.index].end}
	j.lost.suspectAt(&bad, f.reason)
	j.lost.current().Records++
	j.lost.drop(&bad)
	j.lost.settle()
}

// orphans drops whole records: those of a commit that has no frame, or a malformed one
// of our own.
func (j *rules) orphans(u *unit) {
	j.lost.suspectAt(u, u.reason)
	j.lost.current().Records += u.n
	j.lost.drop(u)
}

// damaged notes bytes that are no records. What they cost shows when the next
// sequence number comes; among records without frames it is at least one of them.
func (j *rules) damaged(u *unit) {
	j.lost.addDamage(u, u.reason)
	j.lost.seg(u).dirty = true
	j.lost.bytes += u.end - u.off
	if j.report.frameless(u.seg) {
		j.lost.current().Records++
		j.lost.records++
	}
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
	j.lost.nothingMissing()
	j.lost.accept(u) // whatever is torn before it, nothing more is missing
	return nil
}

func (j *rules) segment(u *unit) {
	if u.seg == j.report.cpNumber-1 {
		j.endCheckpoint(u)
	}
	seg := j.lost.seg(u)
	j.report.Bytes += seg.file.Size
	if seg.owner == ownerForeign && u.seg >= j.report.cpNumber {
		j.report.Foreign++
	}
}

// end ends the log behind the last unit that counts. All that follows is counted and
// dropped.
func (j *rules) end() error {
	if j.report.endSeg < j.report.cpNumber {
		j.report.endSeg, j.lost.endOff = j.report.cpNumber, 0
	}
	rest, err := j.countFrom(j.report.endSeg, j.lost.endOff)
	if err != nil {
		return err
	}
	j.lost.records, j.lost.bytes = 0, 0
	j.report.ended = true
	j.report.DroppedCommits += rest.commits
	j.report.DroppedRecords += rest.records
	j.report.DroppedBytes += rest.bytes
	j.lost.tearTail(rest)
	seg := &j.report.segments[j.report.endSeg]
	seg.dirty, seg.cut = seg.dirty || j.lost.endOff < seg.file.Size, j.lost.endOff
	j.lost.moveGaps(j.report.endSeg)
	return nil
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
	case !r.ended && j.lost.open():
		j.lost.tearTail(remainder{records: j.lost.records})
	}
	r.LastSeq = max(j.expect, 1) - 1
	j.lost.settle()
	return nil
}

// finishCovered ends the reading of a part of the log that has no torn end.
func (j *rules) finishCovered() {
	r := j.report
	if j.expect > 0 && j.behind > j.expect {
		last := max(j.covered-1, 0)
		j.lost.book(&unit{seg: last, off: j.lost.endOff, end: j.lost.endOff}, j.expect, j.behind-1, 0, "commits are missing at the end")
		r.segments[last].dirty = true
		j.expect = j.behind
	}
	r.LastSeq = max(j.expect, 1) - 1
	j.lost.settle()
}

func (j *rules) watermark(synced uint64) {
	j.report.Watermark = max(j.report.Watermark, synced)
}
