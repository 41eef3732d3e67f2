package verify

import (
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/internal/memseries"
	"github.com/seed347100a3/tsdb/internal/record"
	"github.com/seed347100a3/tsdb/wal"
)

// decodeRun is how many samples are decoded at a time: 12 KiB, first-level cache.
const decodeRun = 512

const adviceLog = "Open and Repair mend the log and keep the original in quarantine; a backup may have what is lost"

// log reads the log as Open does. When files went away meanwhile, as a writer does with
// those that a checkpoint covers, it starts over.
func (v *verification) log() error {
	begun := v.done
	reach, err := headsnap.FindReach(v.fs, v.dir)
	if err != nil {
		return v.trouble(filepath.Join(v.dir, logreach.FileName), err, "", "")
	}
	for try := 1; ; try++ {
		c := &logCheck{v: v, name: datadir.WALDir, firstLate: firstLateSegment(v), series: map[uint64]loggedSeries{}, unknown: map[uint64]uint64{}, beside: newBesideCount()}
		last := int64(0)
		report, err := wal.Replay(v.ctx, wal.ReplayOptions{
			FS: v.fs, Dir: filepath.Join(v.dir, datadir.WALDir), Apply: c.apply, Reached: reach.ForReplay(),
			Progress: func(done, _ int64) { v.progress(done - last); last = done },
		})
		switch {
		case err == nil:
			c.tell(report)
			c.holdAgainstChunks(report, &reach)
			return lateLog(v, c.series, report, c.reach)
		case v.ctx.Err() != nil:
			return v.ctx.Err()
		case try < readTries && v.report.InUse && !errors.Is(err, wal.ErrVersion):
			v.done = begun
			continue
		}
		return v.logRefused(filepath.Join(v.dir, datadir.WALDir), err)
	}
}

// logRefused tells why a log cannot be read at all.
func (v *verification) logRefused(path string, err error) error {
	switch {
	case errors.Is(err, wal.ErrVersion):
		v.find(Finding{Severity: Warning, File: path, What: err.Error(),
			Meaning: "this version cannot read it and refuses to open the database", Advice: "use a newer version"})
	case errors.Is(err, wal.ErrSegments):
		v.find(Finding{Severity: Damage, File: path, What: err.Error(),
			Meaning: "Open refuses the directory, because it cannot tell what is lost", Advice: "restore the files; or Repair, which goes on without them"})
	default:
		return v.trouble(path, err, "", "")
	}
	return nil
}

// loggedSeries is what is known of a series record.
type loggedSeries struct {
	hash uint64 // of the labels
	maxt int64  // newest sample so far
}

// besideCount counts what stands beside samples: exemplars, and by number of the series those of
// them, and entries of metadata, that have no series record.
type besideCount struct {
	exemplars           uint64
	strangers, nameless map[uint64]uint64
}

func newBesideCount() besideCount {
	return besideCount{strangers: map[uint64]uint64{}, nameless: map[uint64]uint64{}}
}

// sumOf returns how many there are of all series.
func sumOf(of map[uint64]uint64) (n uint64) {
	for _, some := range of {
		n += some
	}
	return n
}

// logCheck holds the records of the log against each other.
type logCheck struct {
	v         *verification
	name      string        // datadir.WALDir or WBLDir
	firstLate int           // oldest segment of the out-of-order log
	isLate    bool          // the record at hand has late samples
	reach     logreach.Late // of the out-of-order log

	series  map[uint64]loggedSeries
	unknown map[uint64]uint64 // numbers of series without a record, and how many samples they have
	early   uint64            // samples whose record came later

	beside besideCount
	logCounts

	buf [decodeRun]record.Sample
}

// logCounts is what is counted of a log.
type logCounts struct {
	names                                 int // series records
	samples, orphans, late, repeats, huge uint64
	covered                               uint64        // without a series, and blocks have them
	unread, held                          record.Counts // held: with samples that no block has
}

func (c *logCheck) apply(b *wal.Batch) error {
	for _, rec := range b.Records {
		var err error
		switch typ := record.TypeOf(rec.Data); typ {
		case record.TypeSeries:
			err = c.seriesRecord(rec)
		case record.TypeSamples, record.TypeSamplesV2:
			err = c.samplesRecord(rec)
		case record.TypeTombstones:
			err = c.tombstonesRecord(rec.Data)
		case record.TypeLateTombstones:
			err = c.tombstonesRecord(record.ReadLateTombstones(rec.Data))
		case record.TypeMetadata:
			err = c.metadataRecord(rec)
		case record.TypeExemplars:
			err = c.exemplarsRecord(rec)
		case record.TypeLate:
			err = c.lateRecord(rec)
		case record.TypeLateReach:
			c.reach.Noted, err = record.ReadLateReach(rec.Data)
		default:
			switch {
			case typ.HoldsHistograms():
				err = c.histogramsRecord(rec)
			case typ.HoldsSamples():
				c.held.Add(typ)
			default:
				c.unread.Add(typ)
			}
		}
		if err != nil {
			c.damage(rec, err.Error())
		}
	}
	return nil
}

// damage is a record that passed its checksum and makes no sense.
func (c *logCheck) damage(rec wal.Record, what string) {
	c.damageOf(rec, what, "what this record said is lost from there on")
}

func (c *logCheck) damageOf(rec wal.Record, what, meaning string) {
	c.v.find(Finding{Severity: Damage, File: filepath.Join(c.v.dir, fmt.Sprintf("%s/%08d", c.name, rec.Segment)), Offset: rec.Offset, What: what,
		Meaning: meaning, Advice: "a backup may have it"})
}

func (c *logCheck) seriesRecord(rec wal.Record) error {
	var dec record.SeriesDecoder
	dec.Reset(rec.Data)
	for dec.Next() {
		ls, err := dec.Labels()
		if err != nil {
			return err
		}
		c.names++
		ref, hash := dec.Ref(), ls.Hash()
		if ref > uint64(chunks.MaxSeriesRef) {
			c.huge++
		}
		old, known := c.series[ref]
		switch {
		case known && old.hash != hash:
			c.damage(rec, fmt.Sprintf("series number %d has other labels than before: %s", ref, ls))
		case known:
			c.repeats++
		default:
			c.series[ref] = loggedSeries{hash, memseries.NoTime}
			c.found(ref)
		}
	}
	return dec.Err()
}

// found notes that what has no series record has one now.
func (c *logCheck) found(ref uint64) {
	delete(c.beside.strangers, ref)
	delete(c.beside.nameless, ref)
	if n := c.unknown[ref]; n > 0 {
		c.orphans, c.early = c.orphans-n, c.early+n
		delete(c.unknown, ref)
	}
}

func (c *logCheck) samplesRecord(rec wal.Record) error {
	var dec record.SampleDecoder
	dec.Reset(rec.Data)
	for {
		n, err := dec.Decode(c.buf[:])
		for _, s := range c.buf[:n] {
			c.sample(s.Ref, s.T)
		}
		if err != nil || n < len(c.buf) {
			return err
		}
	}
}

// histogramsRecord is samplesRecord for histograms. One that makes no sense costs nothing but
// itself.
func (c *logCheck) histogramsRecord(rec wal.Record) error {
	var dec record.HistogramDecoder
	var first error
	all, invalid := 0, 0
	for dec.Reset(rec.Data); dec.Next(); all++ {
		c.sample(dec.Ref(), dec.T())
		if err := dec.Check(); err != nil {
			if invalid++; first == nil {
				first = err
			}
		}
	}
	if invalid > 0 {
		c.damageOf(rec, fmt.Sprintf("%d of %d histograms make no sense, the first: %v", invalid, all, first),
			"these are lost, and the rest of the record is read")
	}
	return dec.Err()
}

// sample counts one of a record.
func (c *logCheck) sample(ref uint64, t int64) {
	c.samples++
	series, ok := c.series[ref]
	switch {
	case !ok && t < c.v.start && !c.isLate:
		c.covered++
	case !ok:
		c.orphans++
		c.unknown[ref]++
	case c.isLate:
	case t < series.maxt:
		c.late++
	default:
		series.maxt = t
		c.series[ref] = series
	}
}

func (c *logCheck) tombstonesRecord(rec []byte) error {
	var dec record.TombstoneDecoder
	for dec.Reset(rec); dec.Next(); {
		if stone := dec.At(); stone.WholeSeries() {
			delete(c.series, stone.Ref) // a new series may have its number
		}
	}
	return dec.Err()
}

// metadataRecord counts what is of no series yet.
func (c *logCheck) metadataRecord(rec wal.Record) error {
	var dec record.MetadataDecoder
	for dec.Reset(rec.Data); dec.Next(); {
		if _, ok := c.series[dec.Ref()]; !ok {
			c.beside.nameless[dec.Ref()]++
		}
	}
	return dec.Err()
}

// exemplarsRecord reads all that a record says.
func (c *logCheck) exemplarsRecord(rec wal.Record) error {
	var dec record.ExemplarDecoder
	for dec.Reset(rec.Data); dec.Next(); {
		if _, err := dec.Labels(); err != nil {
			return err
		}
		c.beside.exemplars++
		if _, ok := c.series[dec.Ref()]; !ok {
			c.beside.strangers[dec.Ref()]++
		}
	}
	return dec.Err()
}

// tell puts what was found into the report.
func (c *logCheck) tell(log *wal.ReplayReport) {
	v, path := c.v, filepath.Join(c.v.dir, datadir.WALDir)
	r := &v.report
	r.LogSegments, r.LogRecords, r.LogSamples, r.LogSeries = log.Segments, log.Records, c.samples, c.names
	r.LogExemplars = c.beside.exemplars
	for _, d := range log.Damages {
		v.find(logFinding(d))
	}
	if log.OmittedDamages > 0 {
		v.find(Finding{Severity: Damage, File: path, What: strconv.Itoa(log.OmittedDamages) + " more places like these", Advice: adviceLog})
	}
	note := func(severity Severity, n uint64, what, meaning, advice string) {
		if n > 0 {
			v.find(Finding{Severity: severity, File: path, What: fmt.Sprintf(what, n), Meaning: meaning, Advice: advice})
		}
	}
	note(Damage, c.orphans, fmt.Sprintf("%%d samples of %d series have no series record", len(c.unknown)),
		"their labels are lost, so nobody can read them", "a backup may have the series records; without one nothing helps")
	note(Warning, c.repeats, "%d series records stand in the log again", "other programs lose samples that stand between the two", "flush the head, which shortens the log")
	note(Warning, c.early, "%d samples stand before the record of their series", "they are read here, and the program that wrote them loses them when it starts again", "flush the head, which makes blocks of them")
	note(Warning, c.huge, "%d series have numbers above 2^40", "other programs fail when they write a block of them", "flush the head before others open the directory")
	note(Note, c.late, "%d samples are older than one of their series before them", "they are not read: the head takes samples in the order of time", "")
	note(Note, c.covered, "%d samples have no series record and are older than the end of the blocks", "blocks have them: nothing is lost", "")
	note(Note, sumOf(c.beside.nameless), "%d entries of metadata have no series record", "they are not read", "")
	note(Note, sumOf(c.beside.strangers), "%d exemplars have no series record", "they are not read; samples do not need them", "")
	for name, n := range c.held.Names() {
		note(Warning, uint64(n), "%d records of "+name, "this version does not read these samples, and cannot make blocks of a head that has them: head and log only grow",
			"let the program that wrote them make blocks of its head")
	}
	for name, n := range c.unread.Names() {
		note(Note, uint64(n), "%d records of "+name, "this version does not read them and leaves them where they are", "")
	}
}

// logFinding says what damage of the log means.
func logFinding(d wal.Damage) Finding {
	f := Finding{Severity: Damage, File: d.File, Offset: d.Offset, What: d.Reason, Advice: adviceLog}
	switch {
	case d.Tail:
		f.Severity, f.Meaning, f.Advice = Note, "a write that is under way, or that a crash cut short: nothing that was promised is lost", "none: Open cuts it off"
	case d.Harmless && d.Checkpoint:
		f.Severity, f.Meaning, f.Advice = Warning, "nothing is lost: what it should have replaced is there", "none: Open puts it into quarantine; other programs read it and lose the rest"
	case d.Harmless:
		f.Severity, f.Meaning, f.Advice = Warning, "nothing is lost: no commit was there", "none: Open mends the log and keeps the original in quarantine"
	case d.Commits > 0:
		f.Meaning = fmt.Sprintf("commits %d to %d are lost", d.FirstSeq, d.LastSeq)
	case d.Records > 0:
		f.Meaning = fmt.Sprintf("%d records are lost", d.Records)
	default:
		f.Meaning = "what was there is lost"
	}
	return f
}
