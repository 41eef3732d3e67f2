// Package verify reads everything in a data directory and says what is wrong with it: blocks, log,
// head chunks, and what has which name. It knows what each oddity means for who reads the data, and
// what to do about it. It writes nothing, takes no lock, and works beside a process that has the
// database open: what has gone meanwhile it passes over.
//
// The formats are those of the packages that read them. Which findings are said to a user, and how,
// is the root's. Runs do not know of each other; the maps, files and findings of one are its own.
package verify

import (
	"cmp"
	"context"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Options are what Run is told.
type Options struct {
	FS  fileutil.FS
	Dir string // absolute, if the file system has a working directory
	// AnyDirectory: also one that has nothing of a database, and something else.
	AnyDirectory bool
	// Clock and MaxFuture say which blocks are of the future, as of blockdir.FromFuture.
	Clock     clock.Clock
	MaxFuture time.Duration
	// Progress is called from one goroutine with how many bytes of how many are read. nil: nobody
	// is told.
	Progress func(done, total int64)
}

// Severity is how bad a finding is.
type Severity uint8

// The severities, the least one first.
const (
	Note    Severity = iota // worth knowing; nothing is wrong
	Warning                 // no sample is lost, but something is in the way
	Damage                  // samples are lost or cannot be read
)

// Finding is one thing that was found.
type Finding struct {
	Severity Severity
	File     string // or directory, relative to the data directory
	Offset   int64  // bytes from its start; 0 if it is about the whole
	What     string // was found
	Meaning  string // for who reads the data
	Advice   string // what to do; empty: nothing
}

// Report is what was read and found.
type Report struct {
	Bytes int64 // read
	InUse bool  // the lock file is there

	Blocks       []blockdir.Meta // that were read to their end, in the order of their times
	BlockSamples uint64          // counted anew in all blocks
	LogSegments  int             // checkpoints included
	LogRecords   int
	LogSamples   uint64
	LogExemplars uint64
	LogSeries    int // with a record in the log
	LateSegments int // of the out-of-order log
	LateSamples  uint64
	HeadChunks   int // in head-chunk files
	HeadSamples  uint64

	Findings       []Finding // the worst ones first
	Omitted        int       // more that are not listed
	OmittedDamages int       // of them
}

// Run reads everything in a data directory and says what is wrong with it. An error says that
// nothing could be read: the directory's, datadir.ErrNotDataDir, or the context's.
func Run(ctx context.Context, opts Options) (Report, error) {
	v := &verification{ctx: ctx, fs: opts.FS, dir: opts.Dir, opts: opts}
	err := v.run()
	return v.report, err
}

// verification is one Run.
type verification struct {
	ctx    context.Context
	fs     fileutil.FS
	dir    string
	opts   Options
	report Report

	total, done int64
	have        *datadir.Lineage // of the blocks that are there
	start       int64            // blocks have what the log has before it
	headTimes   []headChunkTimes
}

func (v *verification) run() error {
	// The list is read before the directory: what is added meanwhile is not missed in it.
	listed, _, err := blocklist.Read(v.fs, v.dir)
	if err != nil {
		return err
	}
	blocks, names := blockCheck{v: v, listed: listed}, nameCheck{v}
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
		blocks.run,
		v.headChunks, // before the log, which a writer makes longer first
		v.log,
		func() error { return names.run(entries) },
		names.quarantine,
		blocks.vanished,
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

// isLogName reports whether a log, or the head chunks, may be reached by a link of this name.
func isLogName(name string) bool {
	return name == datadir.WALDir || name == datadir.WBLDir || name == datadir.HeadChunksDir
}

// readTries is how often files are read again that changed while they were read: a writer makes a
// block every hour or so, and reading takes seconds.
const readTries = 10

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
		v.report.Omitted++
		if f.Severity == Damage {
			v.report.OmittedDamages++
		}
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
	f := Finding{Severity: Damage, File: path, What: err.Error(), Meaning: meaning, Advice: advice}
	if c, ok := encbuf.AsCorrupt(err); ok {
		f.What, f.Offset = c.Reason, c.Offset
		if c.File != "" {
			f.File = c.File
		}
	} else if !errors.Is(err, encbuf.ErrCorrupt) {
		f.Meaning = "it could not be read, so nothing is known about it"
		f.Advice = "look into the cause, then verify again"
	}
	v.find(f)
	return nil
}

// vanished reports whether something went away while it was read, as a writer does with
// what it has replaced.
func (v *verification) vanished(path string, err error) bool {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, encbuf.ErrCorrupt) {
		return false
	}
	_, statErr := v.fs.Stat(path)
	return errors.Is(statErr, fs.ErrNotExist)
}

// gone passes over what a writer took away; anything else is a finding.
func (v *verification) gone(path string, err error) error {
	if v.vanished(path, err) {
		return nil
	}
	return v.trouble(path, err, "", "")
}
