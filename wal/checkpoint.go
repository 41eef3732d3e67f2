package wal

import "github.com/seed347100a3/tsdb/internal/fileutil"

// A checkpoint that this library wrote begins with a header and ends with a trailer,
// which has the number of records between them and a checksum over those. One by
// somebody else has neither.

// checkpointHeader notes that the checkpoint is ours.
func (j *rules) checkpointHeader(u *unit) {
	h := u.header
	j.report.cpHeader = &h
	j.watermark(h.synced)
	j.report.NextRef = max(j.report.NextRef, h.nextRef)
	j.lost.accept(u)
}

// sumCheckpoint adds records to what the trailer is compared with.
func (j *rules) sumCheckpoint(b *Batch, u *unit) {
	for r := u.first; r < u.first+u.n; r++ {
		j.checkpoint.crc = commitSum(j.checkpoint.crc, b.all[r].Data)
	}
	j.checkpoint.records += uint64(u.n)
}

// checkpointTrailer compares the records with what the trailer says of them.
func (j *rules) checkpointTrailer(u *unit) {
	j.report.cpTrailer, j.report.cpSum = true, j.checkpoint
	if u.trailer != j.checkpoint {
		j.breakCheckpoint(u, "checkpoint does not match its trailer")
	}
	j.lost.accept(u)
}

// endCheckpoint is called at the end of the checkpoint's last segment.
func (j *rules) endCheckpoint(u *unit) {
	j.report.ForeignCheckpoint = j.report.cpHeader == nil
	if j.report.cpHeader != nil && !j.report.cpTrailer {
		j.breakCheckpoint(u, "checkpoint has no trailer")
	}
	j.lost.accept(u) // no tail: it was complete when it got its name
	j.report.cpWhole = j.checkpoint.records > 0 || j.report.cpTrailer
	if !j.report.cpWhole && len(j.report.listing.Covered) > 0 {
		j.lost.suspectAt(u, "checkpoint has no records, and something of what it should have replaced is missing")
		j.lost.settle()
	}
	for _, d := range j.report.Damages {
		j.report.cpWhole = j.report.cpWhole && d.Harmless
	}
}

// breakCheckpoint notes damage that no fragment shows.
func (j *rules) breakCheckpoint(u *unit, reason string) {
	j.report.cpBroken = true
	j.lost.suspectAt(u, reason)
}

// mendCheckpoint writes the checkpoint's segments again that have damage. The trailer
// of one of ours is made to match last, so that a crash in between leaves only a
// mismatch, which the next repair mends.
func (m *mender) mendCheckpoint() error {
	segments := m.report.segments[:m.report.cpNumber]
	mend := m.report.cpBroken
	for i := range segments {
		mend = mend || segments[i].dirty
	}
	if !mend {
		return nil
	}
	ours := m.report.cpHeader != nil || m.report.cpTrailer
	m.report.cpBroken = ours
	var t trailer
	for i := range segments {
		seg := &segments[i]
		if ours {
			if err := m.sumSegment(seg, &t); err != nil {
				return err
			}
		}
		last := ours && i == len(segments)-1
		if seg.done || !seg.dirty && !last {
			continue
		}
		if err := m.quarantine(seg.file.Path); err != nil {
			return err
		}
		if err := m.rewriteCheckpoint(seg, last, t); err != nil {
			return err
		}
	}
	m.report.cpBroken = false
	return nil
}

// sumSegment adds the records of a segment that count to what a trailer says.
func (m *mender) sumSegment(seg *segmentState, t *trailer) (err error) {
	f, err := m.fs.Open(seg.file.Path)
	if err != nil {
		return err
	}
	defer func() { err = fileutil.JoinErrors(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return err
	}
	var d decompressor
	var text []byte
	return keptRecords(f, size, seg, func(it item, rec []byte) error {
		if isPrivate(it, rec) {
			return nil
		}
		d.begin()
		text, err = d.appendDecoded(text[:0], it.comp, rec)
		if err == nil {
			t.records++
			t.crc = commitSum(t.crc, text)
		}
		return err
	})
}

// rewriteCheckpoint writes a segment of the checkpoint again. The last one of ours
// gets the trailer.
func (m *mender) rewriteCheckpoint(seg *segmentState, last bool, t trailer) error {
	return m.replace(seg, func(w *segmentWriter, f fileutil.File, size int64) error {
		err := keptRecords(f, size, seg, func(it item, rec []byte) error {
			if isPrivate(it, rec) && rec[0] == typeCheckpointTrailer {
				return nil
			}
			return w.append(it.comp, rec)
		})
		if err != nil || !last {
			return err
		}
		return w.append(CompressionNone, appendTrailer(nil, t))
	})
}
