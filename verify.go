package tsdb

import (
	"context"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/verify"
)

// VerifyOptions are the options of Verify. Nil are the defaults.
type VerifyOptions struct {
	// FS is the file system. Default: that of the operating system.
	FS FS
	// Clock tells how long it took. Default: the system's.
	Clock Clock
	// AnyDirectory is that of Options.
	AnyDirectory bool
	// Progress is called from one goroutine with how many bytes of how many are read.
	// Default: none.
	Progress func(done, total int64)
}

// Severity is how bad a finding is.
type Severity uint8

// The severities, the least one first.
const (
	SeverityNote    Severity = iota // worth knowing; nothing is wrong
	SeverityWarning                 // no sample is lost, but something is in the way
	SeverityDamage                  // samples are lost or cannot be read
)

// String returns "note", "warning" or "damage".
func (s Severity) String() string { return [...]string{"note", "warning", "damage"}[s] }

// Finding is one thing that Verify found.
type Finding struct {
	Severity Severity
	File     string // or directory, relative to the data directory
	Offset   int64  // bytes from its start; 0 if it is about the whole
	What     string // was found
	Meaning  string // for who reads the data
	Advice   string // what to do; empty: nothing
}

// VerifyReport is what Verify read and found.
type VerifyReport struct {
	Duration time.Duration
	Bytes    int64 // read
	// InUse: the lock file is there. Somebody has the database open, or ended without
	// closing it; what was being written meanwhile may look unfinished.
	InUse bool

	Blocks        []BlockMeta // that were read to their end, in the order of their times
	BlockSamples  uint64      // counted anew in all blocks, deleted ones and overlaps included
	LogSegments   int         // checkpoints included
	LogRecords    int
	LogSamples    uint64
	LogExemplars  uint64
	LogSeries     int // with a record in the log
	LateSegments  int // of the out-of-order log
	LateSamples   uint64
	HeadChunks    int // in head-chunk files
	HeadSamples   uint64
	Findings      []Finding // the worst ones first
	OmittedFinds  int       // more of the same kind that are not listed
	damageOmitted bool
}

// Clean reports whether no damage was found.
func (r *VerifyReport) Clean() bool {
	return !r.damageOmitted && (len(r.Findings) == 0 || r.Findings[0].Severity < SeverityDamage)
}

// Verify reads everything in a data directory and says what is wrong with it. Blocks are held
// against their checksums and sort rules. Their samples are counted anew and compared with what
// their meta files say. The log is read as Open reads it, and its samples are held against its
// series, as are those of the out-of-order log. Every head chunk is decoded. Names that do not
// belong, blocks that overlap and leftovers are told.
//
// It changes nothing and takes no lock, so it works beside a process that has the database open.
// Then it sees each file at another moment. A torn end of the log or of the newest head-chunk file
// may be a write that is under way, and is a note or a warning for that reason. Files that went
// away meanwhile are passed over. Damage that it reports of a block is there in any case: blocks do
// not change.
//
// What is wrong is in the report. An error says that nothing could be read: the directory's,
// ErrNotDataDir, or the context's.
func Verify(ctx context.Context, dir string, opts *VerifyOptions) (*VerifyReport, error) {
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	o := VerifyOptions{}
	if opts != nil {
		o = *opts
	}
	all, err := (&Options{FS: o.FS, Clock: o.Clock}).withDefaults()
	if err != nil {
		return nil, err
	}
	if dir, err = fileutil.Abs(all.FS, dir); err != nil {
		return nil, errors.WithMessage(err, "verify")
	}
	start := all.Clock.Now()
	found, err := verify.Run(ctx, verify.Options{
		FS: all.FS, Dir: dir, AnyDirectory: o.AnyDirectory, Clock: all.Clock, MaxFuture: all.Limits.MaxFuture, Progress: o.Progress,
	})
	if err != nil {
		return nil, errors.WithMessagef(err, "verify %s", dir)
	}
	report := newVerifyReport(&found)
	report.Duration = all.Clock.Now().Sub(start)
	return report, nil
}

// newVerifyReport makes the report of what was found.
func newVerifyReport(r *verify.Report) *VerifyReport {
	report := &VerifyReport{
		Bytes: r.Bytes, InUse: r.InUse, Blocks: r.Blocks, BlockSamples: r.BlockSamples,
		LogSegments: r.LogSegments, LogRecords: r.LogRecords, LogSamples: r.LogSamples, LogSeries: r.LogSeries, LogExemplars: r.LogExemplars,
		LateSegments: r.LateSegments, LateSamples: r.LateSamples,
		HeadChunks: r.HeadChunks, HeadSamples: r.HeadSamples, OmittedFinds: r.Omitted, damageOmitted: r.OmittedDamages > 0,
	}
	for _, f := range r.Findings {
		report.Findings = append(report.Findings, Finding{
			Severity: Severity(f.Severity), File: f.File, Offset: f.Offset, What: f.What, Meaning: f.Meaning, Advice: f.Advice,
		})
	}
	return report
}
