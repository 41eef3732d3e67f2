package verify

import (
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/wal"
)

// lateLog reads the out-of-order log, which is about the series of the log. log and reach are what
// was read of that.
func lateLog(v *verification, series map[uint64]loggedSeries, log *wal.ReplayReport, reach logreach.Late) error {
	path := filepath.Join(v.dir, datadir.WBLDir)
	if _, err := v.fs.Stat(path); errors.Is(err, fs.ErrNotExist) && reach.Noted == nil {
		return nil
	}
	begun := v.done
	for try := 1; ; try++ {
		c := &lateCheck{last: log.LastSeq,
			logCheck: logCheck{v: v, name: datadir.WBLDir, isLate: true, series: series, unknown: map[uint64]uint64{}, beside: newBesideCount(), reach: reach}}
		report, err := c.read(path)
		switch {
		case err == nil:
			c.reach.Weigh(report)
			c.tell(report)
			return nil
		case v.ctx.Err() != nil:
			return v.ctx.Err()
		case try < readTries && v.report.InUse && !errors.Is(err, wal.ErrVersion):
			v.done = begun
			continue
		}
		return v.logRefused(path, err)
	}
}

// read reads all of it.
func (c *lateCheck) read(path string) (*wal.ReplayReport, error) {
	v, last := c.v, int64(0)
	if err := c.reach.List(v.fs, path); err != nil {
		return nil, err
	}
	return wal.Replay(v.ctx, wal.ReplayOptions{FS: v.fs, Dir: path, Apply: c.apply, Reached: c.reach.ForReplay(), Bounds: true,
		Progress: func(done, _ int64) { v.progress(done - last); last = done }})
}

// firstLateSegment returns the oldest segment of the out-of-order log: what the log says of those
// before is in blocks. Where it cannot be listed lateLog tells why.
func firstLateSegment(v *verification) int {
	list, err := wal.List(v.fs, filepath.Join(v.dir, datadir.WBLDir))
	if err != nil || len(list.Segments) == 0 {
		return 0
	}
	return list.Segments[0].Number
}

// lateRecord is a record of samples of the log behind a prefix.
func (c *logCheck) lateRecord(rec wal.Record) error {
	segment, samples, err := record.ReadLate(rec.Data)
	if err != nil || segment < c.firstLate {
		return err
	}
	rec.Data = samples
	c.isLate = true
	defer func() { c.isLate = false }()
	if record.TypeOf(samples).HoldsHistograms() {
		return c.histogramsRecord(rec)
	}
	return c.samplesRecord(rec)
}

// lateCheck holds the records of the out-of-order log against the series of the log.
type lateCheck struct {
	logCheck
	last uint64 // the newest commit of the log
	void bool   // the commit at hand is behind it: it never was, or came meanwhile
}

func (c *lateCheck) apply(b *wal.Batch) error {
	own := uint64(0)
	for _, rec := range b.Records {
		if rec.Seq == 0 || rec.Seq != own {
			c.void, own = false, rec.Seq
		}
		if err := c.record(rec); err != nil {
			c.damage(rec, err.Error())
		}
	}
	return nil
}

func (c *lateCheck) record(rec wal.Record) error {
	switch typ := record.TypeOf(rec.Data); {
	case typ == record.TypeLateCommit, typ == record.TypeLateDump:
		seq, err := record.ReadLateCommit(rec.Data)
		c.void = seq > c.last
		return err
	case typ == record.TypeLateChunks:
		c.reach.Marked = true
		_, err := record.ReadLateChunks(rec.Data)
		return err
	case typ == record.TypeLateTombstones:
		var dec record.TombstoneDecoder
		for dec.Reset(record.ReadLateTombstones(rec.Data)); dec.Next(); {
			// A series leaves when its last sample is deleted.
			c.orphans -= c.unknown[dec.At().Ref]
			delete(c.unknown, dec.At().Ref)
		}
		return dec.Err()
	case typ == record.TypeMmapMarkers:
	case !typ.HoldsSamples() || !typ.Known():
		c.unread.Add(typ)
	case c.void:
	case typ.HoldsHistograms():
		return c.histogramsRecord(rec)
	default:
		return c.samplesRecord(rec)
	}
	return nil
}

// tell puts what was found into the report.
func (c *lateCheck) tell(log *wal.ReplayReport) {
	v, path := c.v, filepath.Join(c.v.dir, c.name)
	v.report.LateSegments, v.report.LateSamples = log.Segments, c.samples
	for _, d := range log.Damages {
		f := logFinding(d)
		if f.Severity == Damage {
			f.Meaning = "late samples that were there are lost, but for those that the log still has"
		}
		v.find(f)
	}
	if log.OmittedDamages > 0 {
		v.find(Finding{Severity: Damage, File: path, What: fmt.Sprintf("%d more places like these", log.OmittedDamages), Advice: adviceLog})
	}
	if c.orphans > 0 {
		v.find(Finding{Severity: Damage, File: path, What: fmt.Sprintf("%d samples of %d series have no series record", c.orphans, len(c.unknown)),
			Meaning: "their labels are lost, so nobody can read them", Advice: "a backup may have the series records; without one nothing helps"})
	}
	for name, n := range c.unread.Names() {
		v.find(Finding{Severity: Note, File: path, What: fmt.Sprintf("%d records of %s", n, name), Meaning: "this version does not read them"})
	}
}
