package main

import (
	stderrors "errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
)

// openReader opens a database for reading, also one that another process writes.
func (c *console) openReader(dir string) (*tsdb.Reader, error) {
	if err := checkDatabase(dir); err != nil {
		return nil, err
	}
	bar := c.startProgress("Reading log", 0, true)
	defer bar.finish()
	r, err := tsdb.OpenReadOnly(dir, &tsdb.Options{Progress: func(p tsdb.RecoveryProgress) { bar.set(p.Done, p.Total) }})
	if err != nil {
		return nil, err
	}
	bar.finish()
	if report := r.OpenReport(); !report.Clean() || report.DroppedCommits > 0 {
		c.message("warning: reading %s: %s", dir, summary(&report))
	}
	return r, nil
}

// openExisting opens a database that must be there: a command that reads does not
// create one, nor does it turn somebody's directory into one.
func (c *console) openExisting(dir string, opts *tsdb.Options) (*tsdb.DB, error) {
	if err := checkDatabase(dir); err != nil {
		return nil, err
	}
	if opts == nil {
		opts = &tsdb.Options{}
	}
	bar := c.startProgress("Recovering", 0, true)
	defer bar.finish()
	opts.Progress = func(p tsdb.RecoveryProgress) { bar.set(p.Done, p.Total) }
	db, err := tsdb.Open(dir, opts)
	if err != nil {
		return nil, err
	}
	bar.finish()
	if r := db.OpenReport(); !r.Clean() || r.DroppedCommits > 0 {
		c.message("warning: recovery of %s: %s", dir, summary(&r))
	}
	return db, nil
}

// ulidLength is that of a block's directory name.
const ulidLength = 26

// checkDatabase returns nil if a directory holds a database.
func checkDatabase(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return &plainError{text: "no database: " + dir + " does not exist", kind: errNoDatabase}
	}
	if err != nil {
		return errors.Wrap(err, "open database")
	}
	for _, e := range entries {
		link := e.Type()&fs.ModeSymlink != 0 // as the log may be one
		if (e.IsDir() || link) && (e.Name() == "wal" || e.Name() == "chunks_head") || e.IsDir() && len(e.Name()) == ulidLength {
			return nil
		}
	}
	return &plainError{text: "no database: " + dir + " has neither a log nor blocks", kind: errNoDatabase}
}

// checkEmpty returns nil if a directory is empty or is not there yet.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(entries) == 0:
		return nil
	case err != nil:
		return errors.Wrap(err, "open directory")
	default:
		return errors.Errorf("%s is not empty", dir)
	}
}

// closeDB closes a database and adds what goes wrong to the error of the command.
func closeDB(db *tsdb.DB, err *error) {
	*err = stderrors.Join(*err, db.Close())
}

// usage is what one entry of a data directory takes on disk.
type usage struct {
	Name  string `json:"name"`
	Bytes int64  `json:"bytes"`
	Files int    `json:"files"`
}

// diskUsage measures a data directory: the total, and each entry at its top that is
// not empty. Files that vanish meanwhile are not counted.
func diskUsage(dir string) (total int64, entries []usage, err error) {
	top, err := os.ReadDir(dir)
	if err != nil {
		return 0, nil, errors.Wrap(err, "list directory")
	}
	for _, e := range top {
		u := usage{Name: e.Name()}
		if e.IsDir() {
			u.Name += "/"
		}
		walk := func(_ string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Mode().IsRegular() {
				u.Bytes += info.Size()
				u.Files++
			}
			return nil
		}
		if err := filepath.WalkDir(filepath.Join(dir, e.Name()), walk); err != nil {
			return 0, nil, errors.Wrap(err, "measure directory")
		}
		if u.Bytes > 0 {
			total += u.Bytes
			entries = append(entries, u)
		}
	}
	return total, entries, nil
}

// shellQuote writes an argument so that a shell reads it as one.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("_-./:=,@%+", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
