package verify

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/headsnap"
	"github.com/seed347100a3/tsdb/internal/horizon"
	"github.com/seed347100a3/tsdb/internal/logreach"
)

// nameCheck is one look at what has which name.
type nameCheck struct{ v *verification }

// run tells of entries of the data directory that are not what the names say, or that
// nobody reads.
func (n *nameCheck) run(entries []fs.DirEntry) error {
	for _, e := range entries {
		path := filepath.Join(n.v.dir, e.Name())
		var err error
		switch name := e.Name(); {
		case name == datadir.WALDir:
			err = n.logNames(path, e)
		case name == datadir.WBLDir, name == datadir.HeadChunksDir:
			err = n.numbers(path, e)
		case name == blocklist.FileName:
			n.blockList(path)
		case name == datadir.QuarantineDir, name == fileutil.LockName, name == fileutil.OwnerName,
			name == horizon.FileName, name == logreach.FileName:
		default:
			err = n.other(path, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// other tells of an entry at the top that is no part of the log.
func (n *nameCheck) other(path string, e fs.DirEntry) (err error) {
	v := n.v
	name := e.Name()
	id, notULID := ulid.ParseStrict(name)
	_, isBlock := blockdir.ParseName(name)
	switch {
	case isBlock && e.IsDir():
	case notULID == nil && e.IsDir():
		n.misspelt(path, id)
	case notULID == nil && e.Type()&fs.ModeSymlink != 0:
		n.link(path, id)
	case notULID == nil:
		v.find(Finding{Severity: Warning, File: path, What: "it has the name of a block and is no directory",
			Meaning: "it is not read", Advice: "move it out of the directory"})
	case strings.HasSuffix(name, ".tmp-for-creation"), strings.HasSuffix(name, ".tmp-for-deletion"):
		n.leftover(path, "none: Prometheus, which made it, removes it")
	case isHeadSnapshot(e):
		err = n.headSnapshot(path)
	case datadir.IsForeignSnapshot(e):
		v.find(Finding{Severity: Note, File: path, What: "a snapshot of the head that Prometheus made",
			Meaning: "it is not read: the log has it all", Advice: "none: Open removes it"})
	default:
		var ours bool
		if ours, err = datadir.IsLeftover(v.fs, v.dir, e); ours {
			n.leftover(path, "none: Open removes it")
			break
		}
		v.find(Finding{Severity: Note, File: path, What: "it is no part of a database", Meaning: "it is not read", Advice: "move it out of the directory if nobody needs it"})
	}
	return err
}

func (n *nameCheck) leftover(path, advice string) {
	v := n.v
	f := Finding{Severity: Note, File: path, What: "a leftover of work that was interrupted", Meaning: "it is not read", Advice: advice}
	if v.report.InUse {
		f.What = "work that is under way, or a leftover of some that was interrupted"
	}
	v.find(f)
}

// link tells of a link with the name of a block: neither this library nor others read what it
// leads to.
func (n *nameCheck) link(path string, id ulid.ULID) {
	v := n.v
	f := Finding{Severity: Damage, File: path, What: "it is a link and not the directory of a block",
		Meaning: "the samples that it leads to are not read, and queries of their times warn; other programs do not see it",
		Advice:  "put what it leads to in its place"}
	if v.have.Has(datadir.MissingAt(v.fs, v.dir, filepath.Base(path), id)) {
		f.Severity, f.Meaning, f.Advice = Warning, "it is not read, and blocks of the directory have its samples", "remove the link"
	}
	v.find(f)
}

// blockList tells of a list of blocks that is worth nothing.
func (n *nameCheck) blockList(path string) {
	v := n.v
	_, state, err := blocklist.Read(v.fs, v.dir)
	if err == nil && state != blocklist.Damaged {
		return
	}
	what := "the list of the blocks that there should be cannot be read"
	if err != nil {
		what += ": " + err.Error()
	}
	v.find(Finding{Severity: Note, File: path, What: what,
		Meaning: "a block that vanished would not be noticed", Advice: "none: Open writes another one"})
}

func isHeadSnapshot(e fs.DirEntry) bool {
	_, ok := headsnap.IsName(e)
	return ok
}

// headSnapshot reads a snapshot of the head, and asks what Open asks of it. A name of one is never
// given twice, and nothing in it changes: what is wrong beside a writer is wrong.
func (n *nameCheck) headSnapshot(path string) error {
	v := n.v
	sizes, err := n.headChunkSizes()
	if err != nil {
		return v.trouble(filepath.Join(v.dir, datadir.HeadChunksDir), err, "", "")
	}
	lost := false
	meta, err := headsnap.Check(v.ctx, v.fs, path, func(m chunks.Mapped) {
		lost = lost || m.MaxT >= v.start && sizes[m.Ref.File()] <= int64(m.Ref.Offset())
	})
	if v.ctx.Err() != nil {
		return v.ctx.Err()
	}
	reason := ""
	if err != nil {
		reason = err.Error()
	} else if lost {
		reason = "a head chunk is gone that it relies on"
	} else {
		v.report.Bytes += meta.Sum.Bytes
		if reason, err = meta.Unfit(v.ctx, v.fs, filepath.Join(v.dir, datadir.WALDir), path, v.start); err != nil {
			reason = "" // of the log, which has findings of its own
		}
	}
	if reason == "" {
		return v.ctx.Err()
	}
	if v.report.InUse && n.headSnapshotGone(path) {
		n.leftover(path, "none: Open removes it")
		return nil
	}
	v.find(Finding{Severity: Warning, File: path, What: "a snapshot of the head that cannot be used: " + reason,
		Meaning: "it is not read: the log has it all", Advice: "none: Open removes it"})
	return nil
}

// headChunkSizes returns how long each head-chunk file is, by number.
func (n *nameCheck) headChunkSizes() (map[uint32]int64, error) {
	v := n.v
	entries, err := v.fs.ReadDir(filepath.Join(v.dir, datadir.HeadChunksDir))
	if fileutil.IgnoreNotExist(err) != nil {
		return nil, err
	}
	sizes := map[uint32]int64{}
	for _, e := range entries {
		if n, err := strconv.ParseUint(e.Name(), 10, 32); err == nil {
			if sizes[uint32(n)], err = fileutil.EntrySize(e); fileutil.IgnoreNotExist(err) != nil {
				return nil, err
			}
		}
	}
	return sizes, nil
}

// headSnapshotGone reports whether a writer is removing a snapshot: its sidecar goes first.
func (n *nameCheck) headSnapshotGone(path string) bool {
	_, err := n.v.fs.Stat(headsnap.SidecarPath(path))
	return errors.Is(err, fs.ErrNotExist)
}

func (n *nameCheck) misspelt(path string, id ulid.ULID) {
	v := n.v
	m := datadir.MissingAt(v.fs, v.dir, filepath.Base(path), id)
	f := Finding{Severity: Damage, File: path, What: "the name of a block is not spelt " + id.String(),
		Meaning: "its samples are not read, and queries of its times warn; other programs read it and cannot get rid of it",
		Advice:  "Repair gives it its right name"}
	if v.have.Has(m) {
		f.Severity, f.Meaning = Warning, "it is not read, and other blocks have its samples; other programs read it and cannot get rid of it"
		f.Advice = "move it out of the directory"
	}
	v.find(f)
}

// logNames looks for strangers among the segments.
func (n *nameCheck) logNames(path string, e fs.DirEntry) error {
	if !n.isDirectory(path, e) {
		return nil
	}
	return n.strangers(path, func(e fs.DirEntry) bool {
		_, isCheckpoint := strings.CutPrefix(e.Name(), "checkpoint.")
		return isCheckpoint && e.IsDir() || e.Name() == "series_state.json"
	})
}

// numbers looks for what is called by no number.
func (n *nameCheck) numbers(path string, e fs.DirEntry) error {
	if !n.isDirectory(path, e) {
		return nil
	}
	return n.strangers(path, func(fs.DirEntry) bool { return false })
}

// isDirectory reports whether an entry that has to be a directory is one, and tells of it if it
// is none, or a link to one.
func (n *nameCheck) isDirectory(path string, e fs.DirEntry) bool {
	v := n.v
	if e.IsDir() {
		return true
	}
	if info, err := v.fs.Stat(path); err == nil && info.IsDir() {
		v.find(Finding{Severity: Note, File: path, What: "it is a link to a directory",
			Meaning: "it works as long as that is on the same file system as the data directory"})
		return true
	}
	v.find(Finding{Severity: Damage, File: path, What: "it is no directory",
		Meaning: "Open fails", Advice: "move it out of the directory; a backup may have what belongs there"})
	return false
}

// strangers tells of entries that are neither numbers nor known.
func (n *nameCheck) strangers(path string, known func(fs.DirEntry) bool) error {
	v := n.v
	entries, err := v.fs.ReadDir(path)
	if err != nil {
		return v.gone(path, err)
	}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil && !known(e) {
			v.find(Finding{Severity: Warning, File: filepath.Join(path, e.Name()), What: "it does not belong here",
				Meaning: "it is not read, but its size counts where retention is by bytes", Advice: "move it out of the directory"})
		}
	}
	return nil
}

// quarantine tells which blocks are missing because they were set aside, and what else
// there is.
func (n *nameCheck) quarantine() error {
	v := n.v
	path := filepath.Join(v.dir, datadir.QuarantineDir)
	missing, err := datadir.Quarantined(v.fs, v.dir, v.have)
	if err != nil {
		return v.trouble(path, err, "", "")
	}
	for _, m := range missing {
		v.find(Finding{Severity: Damage, File: filepath.Join(v.dir, m.Name), What: "a damaged block that was set aside",
			Meaning: "its samples are missing, and queries of its times warn",
			Advice:  "Repair saves what can be read of it; when that was done and a backup had no more, remove it"})
	}
	entries, err := v.fs.ReadDir(path)
	if fileutil.IgnoreNotExist(err) != nil {
		return v.trouble(path, err, "", "")
	}
	if kept := len(entries) - len(missing); kept > 0 {
		v.find(Finding{Severity: Note, File: path, What: fmt.Sprintf("%d originals of what was repaired", kept),
			Meaning: "they are not read", Advice: "remove them when nobody wants to look at them any more"})
	}
	return nil
}
