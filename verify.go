package tsdb

import (
	"cmp"
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
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
	LogSeries     int // with a record in the log
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

// Verify reads everything in a data directory and says what is wrong with it. Blocks are
// held against their checksums and sort rules, their samples counted anew and compared with
// what their meta files say; the log is read as Open reads it, and its samples are held
// against its series; every head chunk is decoded; names that do not belong, blocks that
// overlap and leftovers are told.
//
// It changes nothing and takes no lock, so it works beside a process that has the database
// open. Then it sees each file at another moment: a torn end of the log or of the newest
// head-chunk file may be a write that is under way, and is a note or a warning for that
// reason; files that went away meanwhile are passed over. Damage that it reports of a block
// is there in any case: blocks do not change.
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
	v := &verification{ctx: ctx, fs: all.FS, dir: dir, opts: o, db: all, report: &VerifyReport{}}
	start := all.Clock.Now()
	if err := v.run(); err != nil {
		return nil, errors.WithMessagef(err, "verify %s", dir)
	}
	v.report.Duration = all.Clock.Now().Sub(start)
	return v.report, nil
}

// verification is one run of Verify.
type verification struct {
	ctx    context.Context
	fs     FS
	dir    string
	opts   VerifyOptions
	db     *Options // that a database has by default, with file system and clock
	report *VerifyReport

	total, done int64
	have        *datadir.Lineage  // of the blocks that are there
	start       int64             // blocks have what the log has before it
	none        []ulid.ULID       // directories that are called after blocks and are none
	listed      []blocklist.Block // that there should be
	headTimes   []headChunkTimes
}

func (v *verification) run() error {
	// The list is read before the directory: what is added meanwhile is not missed in it.
	listed, _, err := blocklist.Read(v.fs, v.dir)
	if err != nil {
		return err
	}
	v.listed = listed
	entries, err := v.fs.ReadDir(v.dir)
	if err != nil {
		return err
	}
	if err := datadir.Check(v.fs, v.dir, v.opts.AnyDirectory); err != nil {
		return err
	}
	for _, e := range entries {
		v.report.InUse = v.report.InUse || e.Name() == fileutil.LockName
	}
	for _, e := range entries {
		if (e.IsDir() || e.Type()&fs.ModeSymlink != 0 && isLogName(e.Name())) && e.Name() != datadir.QuarantineDir {
			size, err := fileutil.TreeSize(v.fs, filepath.Join(v.dir, e.Name()))
			if err != nil {
				return err
			}
			v.total += size
		}
	}
	for _, step := range []func() error{
		v.blocks,
		v.headChunks, // before the log, which a writer makes longer first
		v.log,
		func() error { return v.names(entries) },
		v.quarantine,
		v.vanishedBlocks,
	} {
		if err := step(); err != nil {
			return err
		}
		if err := v.ctx.Err(); err != nil {
			return err
		}
	}
	v.progress(v.total - v.done)
	slices.SortStableFunc(v.report.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), strings.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset))
	})
	return nil
}

// isLogName reports whether the log, or the head chunks, may be reached by a link of this name.
func isLogName(name string) bool { return name == walDirName || name == datadir.HeadChunksDir }

// progress tells that n more bytes are read.
func (v *verification) progress(n int64) {
	v.done = min(v.done+n, v.total)
	v.report.Bytes = v.done
	if v.opts.Progress != nil {
		v.opts.Progress(v.done, v.total)
	}
}

// maxFindings bounds the list: of a directory that is broken in more places nobody reads
// more.
const maxFindings = 10_000

// find notes a finding. Its file may be a path.
func (v *verification) find(f Finding) {
	if len(v.report.Findings) == maxFindings {
		v.report.OmittedFinds++
		v.report.damageOmitted = v.report.damageOmitted || f.Severity == SeverityDamage
		return
	}
	f.File = v.relative(f.File)
	v.report.Findings = append(v.report.Findings, f)
}

// relative returns a path relative to the data directory.
func (v *verification) relative(path string) string {
	rel, err := filepath.Rel(v.dir, path)
	if err != nil || strings.HasPrefix(rel, "..") {
		rel = path
	}
	return filepath.ToSlash(rel)
}

// trouble notes an error of reading something, and returns it if the context has ended.
// Damage is noted with its place.
func (v *verification) trouble(path string, err error, meaning, advice string) error {
	if v.ctx.Err() != nil {
		return v.ctx.Err()
	}
	f := Finding{Severity: SeverityDamage, File: path, What: err.Error(), Meaning: meaning, Advice: advice}
	if c := (*CorruptError)(nil); errors.As(err, &c) {
		f.What, f.Offset = c.Reason, c.Offset
		if c.File != "" {
			f.File = c.File
		}
	} else if !errors.Is(err, ErrCorrupt) {
		f.Meaning = "it could not be read, so nothing is known about it"
		f.Advice = "look into the cause, then verify again"
	}
	v.find(f)
	return nil
}

// vanished reports whether something went away while it was read, as a writer does with
// what it has replaced.
func (v *verification) vanished(path string, err error) bool {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrCorrupt) {
		return false
	}
	_, statErr := v.fs.Stat(path)
	return errors.Is(statErr, fs.ErrNotExist)
}
