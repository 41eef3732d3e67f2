package tsdb

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headsnap"
)

// names tells of entries of the data directory that are not what the names say, or that
// nobody reads.
func (v *verification) names(entries []fs.DirEntry) error {
	for _, e := range entries {
		path := filepath.Join(v.dir, e.Name())
		var err error
		switch name := e.Name(); {
		case name == walDirName:
			err = v.logNames(path, e)
		case name == headChunksDirName:
			err = v.headChunkNames(path, e)
		case name == wblDirName:
			err = v.outOfOrderLog()
		case name == quarantineDirName, name == fileutil.LockName, name == fileutil.OwnerName:
		default:
			err = v.otherName(path, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// otherName tells of an entry at the top that is no part of the log.
func (v *verification) otherName(path string, e fs.DirEntry) (err error) {
	name := e.Name()
	id, notULID := ulid.ParseStrict(name)
	_, isBlock := blockdir.ParseName(name)
	switch {
	case isBlock && e.IsDir():
	case notULID == nil && e.IsDir():
		v.misspelt(path, id)
	case notULID == nil:
		v.find(Finding{Severity: SeverityWarning, File: path, What: "it has the name of a block and is no directory",
			Meaning: "it is not read", Advice: "replace a link by what it leads to, or move it out of the directory"})
	case strings.HasPrefix(name, tempPrefix), strings.HasSuffix(name, ".tmp-for-creation"), strings.HasSuffix(name, ".tmp-for-deletion"):
		f := Finding{Severity: SeverityNote, File: path, What: "a leftover of work that was interrupted", Meaning: "it is not read", Advice: "none: Open removes it"}
		if v.report.InUse {
			f.What = "work that is under way, or a leftover of some that was interrupted"
		}
		if !strings.HasPrefix(name, tempPrefix) {
			f.Advice = "none: Prometheus, which made it, removes it"
		}
		v.find(f)
	case isHeadSnapshot(e):
		err = v.headSnapshot(path)
	case strings.HasPrefix(name, snapshotPrefix):
		v.find(Finding{Severity: SeverityNote, File: path, What: "a snapshot of the head that Prometheus made",
			Meaning: "it is not read: the log has it all", Advice: "none: Open removes it"})
	default:
		v.find(Finding{Severity: SeverityNote, File: path, What: "it is no part of a database", Meaning: "it is not read", Advice: "move it out of the directory if nobody needs it"})
	}
	return err
}

func isHeadSnapshot(e fs.DirEntry) bool {
	_, ok := headsnap.IsName(e)
	return ok
}

// headSnapshot reads a snapshot of the head.
func (v *verification) headSnapshot(path string) error {
	meta, err := headsnap.Check(v.ctx, v.fs, path)
	switch {
	case v.ctx.Err() != nil:
		return v.ctx.Err()
	case err != nil && v.report.InUse:
		return nil // it may be gone
	case err != nil:
		v.find(Finding{Severity: SeverityWarning, File: path, What: "a snapshot of the head that cannot be used: " + err.Error(),
			Meaning: "it is not read: the log has it all", Advice: "none: Open removes it"})
	default:
		v.report.Bytes += meta.Sum.Bytes
	}
	return nil
}

func (v *verification) misspelt(path string, id ulid.ULID) {
	m := missingAt(v.fs, v.dir, filepath.Base(path), id)
	f := Finding{Severity: SeverityDamage, File: path, What: "the name of a block is not spelt " + id.String(),
		Meaning: "its samples are not read, and queries of its times warn; other programs read it and cannot get rid of it",
		Advice:  "Repair gives it its right name"}
	if v.have.has(m) {
		f.Severity, f.Meaning = SeverityWarning, "it is not read, and other blocks have its samples; other programs read it and cannot get rid of it"
		f.Advice = "move it out of the directory"
	}
	v.find(f)
}

// logNames looks for strangers among the segments.
func (v *verification) logNames(path string, e fs.DirEntry) error {
	if !e.IsDir() {
		v.notDirectory(path)
		return nil
	}
	return v.strangers(path, func(e fs.DirEntry) bool {
		_, isCheckpoint := strings.CutPrefix(e.Name(), "checkpoint.")
		return isCheckpoint && e.IsDir() || e.Name() == "series_state.json"
	})
}

func (v *verification) headChunkNames(path string, e fs.DirEntry) error {
	if !e.IsDir() {
		v.notDirectory(path)
		return nil
	}
	return v.strangers(path, func(fs.DirEntry) bool { return false })
}

func (v *verification) notDirectory(path string) {
	v.find(Finding{Severity: SeverityDamage, File: path, What: "it is no directory",
		Meaning: "Open fails", Advice: "move it out of the directory; a backup may have what belongs there"})
}

// strangers tells of entries that are neither numbers nor known.
func (v *verification) strangers(path string, known func(fs.DirEntry) bool) error {
	entries, err := v.fs.ReadDir(path)
	if err != nil {
		return v.gone(path, err)
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil && !known(e) {
			v.find(Finding{Severity: SeverityWarning, File: filepath.Join(path, e.Name()), What: "it does not belong here",
				Meaning: "it is not read, but its size counts where retention is by bytes", Advice: "move it out of the directory"})
		}
	}
	return nil
}

func (v *verification) outOfOrderLog() error {
	if err := checkSupported(v.fs, v.dir); err != nil {
		v.find(Finding{Severity: SeverityWarning, File: filepath.Join(v.dir, wblDirName), What: err.Error(),
			Meaning: "this version cannot read it and refuses to open the database",
			Advice:  "let Prometheus run on the directory until it has written blocks of them, or move it out of the directory, which loses them"})
	}
	return nil
}

// quarantine tells which blocks are missing because they were set aside, and what else
// there is.
func (v *verification) quarantine() error {
	path := filepath.Join(v.dir, quarantineDirName)
	missing, err := quarantinedBlocks(v.fs, v.dir, v.have)
	if err != nil {
		return v.trouble(path, err, "", "")
	}
	for _, m := range missing {
		v.find(Finding{Severity: SeverityDamage, File: filepath.Join(v.dir, m.name), What: "a damaged block that was set aside",
			Meaning: "its samples are missing, and queries of its times warn",
			Advice:  "Repair saves what can be read of it; when that was done and a backup had no more, remove it"})
	}
	entries, err := v.fs.ReadDir(path)
	if ignoreNotExist(err) != nil {
		return v.trouble(path, err, "", "")
	}
	if kept := len(entries) - len(missing); kept > 0 {
		v.find(Finding{Severity: SeverityNote, File: path, What: fmt.Sprintf("%d originals of what was repaired", kept),
			Meaning: "they are not read", Advice: "remove them when nobody wants to look at them any more"})
	}
	return nil
}
