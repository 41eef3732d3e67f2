// Package datadir knows the directory of a database from outside: which names it gives to what is
// in it, how one tells it from a directory of something else, what interrupted work leaves at its
// top, which blocks are missing in it, and the lock that it is held by. It opens no block and reads
// no record: what is in a file is for the packages of the formats, and what to do about it for the
// root.
//
// Functions on a directory may be called beside others that only look. Those that remove or move
// something are for who holds the lock. A Held is safe for concurrent use.
package datadir

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/horizon"
	"github.com/seed347100a3/tsdb/internal/logreach"
	"github.com/seed347100a3/tsdb/wal"
)

// Names at the top of a data directory.
const (
	WALDir        = "wal"
	WBLDir        = wal.OutOfOrderDir // late samples
	HeadChunksDir = "chunks_head"
	QuarantineDir = "quarantine"

	foreignSnapshotPrefix = "chunk_snapshot."
	headSnapshotPrefix    = "head_snapshot."
)

// isPartOfDatabase reports whether a database gives this name to something at the top of its
// directory: a block, the log, what is beside them, something temporary. Names of the
// reference engine count, and those of blocks in any spelling.
func isPartOfDatabase(name string) bool {
	switch name {
	case WALDir, WBLDir, HeadChunksDir, QuarantineDir, fileutil.LockName, fileutil.OwnerName, blocklist.FileName, horizon.FileName, logreach.FileName, "queries.active":
		return true
	}
	if strings.HasPrefix(name, foreignSnapshotPrefix) || strings.HasPrefix(name, headSnapshotPrefix) {
		return true
	}
	if len(name) >= ulid.EncodedSize {
		_, err := ulid.ParseStrict(name[:ulid.EncodedSize])
		rest := name[ulid.EncodedSize:]
		if err == nil && (rest == "" || isUnfinishedBlock(rest)) {
			return true
		}
	}
	_, ok := leftoverKind(name)
	return ok
}

// isKnownToOthers reports whether a part of a database has a name that files of another kind may
// have, so that it does not tell whose the directory is.
func isKnownToOthers(name string) bool { return name == fileutil.LockName || name == QuarantineDir }

// isUnfinishedBlock reports whether the reference engine ends the name of a block so while it
// makes or removes it.
func isUnfinishedBlock(suffix string) bool {
	return suffix == ".tmp-for-creation" || suffix == ".tmp-for-deletion"
}

// isOfVolume reports whether an empty volume, or a file manager, has something of this name
// in any directory.
func isOfVolume(name string) bool {
	return strings.HasPrefix(name, ".") || name == "lost+found" || name == "System Volume Information" || name == "$RECYCLE.BIN"
}

// Check returns ErrNotDataDir if a directory is somebody else's: there is something in
// it, and nothing of a database. A path that was mistyped must not make a database among files
// of another kind. any: it may be anybody's.
func Check(fsys fileutil.FS, dir string, any bool) error {
	if any {
		return nil
	}
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return errors.WithMessagef(err, "list %s", dir)
	}
	strangers, err := strangersIn(fsys, dir, entries)
	if err != nil || len(strangers) == 0 {
		return err
	}
	const named = 3
	text := fmt.Sprintf("%q", strangers[:min(named, len(strangers))])
	if more := len(strangers) - named; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return errors.WithMessagef(ErrNotDataDir, "directory %s has %s and nothing of a database: name an empty directory, or that of a database", dir, text)
}

// strangersIn returns the names in a directory that are no part of a database if nothing else there
// shows that it is one. A copy that is being made, as a directory of backups has it, shows nothing.
func strangersIn(fsys fileutil.FS, dir string, entries []fs.DirEntry) (names []string, err error) {
	var log fs.DirEntry
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == WALDir:
			log = e
		case isOfVolume(name), isKnownToOthers(name):
		case isPartOfDatabase(name) && !strings.HasSuffix(name, CopySuffix):
			return nil, nil
		default:
			names = append(names, name)
		}
	}
	if len(names) == 0 || log == nil {
		return names, nil
	}
	segments, err := fsys.ReadDir(filepath.Join(dir, WALDir))
	switch {
	case err != nil && log.IsDir():
		return nil, err
	case err == nil && len(segments) == 0:
		return nil, nil
	}
	for _, e := range segments {
		if isNumber(e.Name()) || strings.HasPrefix(e.Name(), "checkpoint.") {
			return nil, nil
		}
	}
	return names, nil // it is a file, or the log of another program
}

// IsDatabase reports whether a directory has the log or the head-chunk files of a database, or
// blocks: as a snapshot has that somebody made under the name of a block.
func IsDatabase(fsys fileutil.FS, dir string) (bool, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return false, fileutil.IgnoreNotExist(err)
	}
	for _, e := range entries {
		_, notULID := ulid.ParseStrict(e.Name())
		if e.IsDir() && (e.Name() == WALDir || e.Name() == HeadChunksDir || notULID == nil) {
			return true, nil
		}
	}
	return false, nil
}

// IsNested reports whether a directory with the name of a block is that of a database.
func IsNested(fsys fileutil.FS, path string) (bool, error) {
	hasMeta, err := blockdir.HasMeta(fsys, path)
	if err != nil || hasMeta {
		return false, err
	}
	return IsDatabase(fsys, path)
}

// CheckCopyTarget refuses to put the copy of a database where another one would take it
// for a part of itself.
func CheckCopyTarget(fsys fileutil.FS, dataDir, target string) error {
	parent, name := filepath.Split(filepath.Clean(target))
	refused := func(why string) error {
		return errors.WithMessagef(fs.ErrInvalid, "snapshot into %s: %s", target, why)
	}
	rel, err := filepath.Rel(dataDir, target)
	if err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		if top, _, _ := strings.Cut(rel, string(filepath.Separator)); isPartOfDatabase(top) {
			return refused("the database takes what is called " + top + " in its directory for a part of itself")
		}
		return nil
	}
	if !isPartOfDatabase(name) {
		return nil
	}
	if parent == "" {
		parent = "."
	}
	entries, err := fsys.ReadDir(parent)
	if err != nil {
		return fileutil.IgnoreNotExist(err) // there is none yet
	}
	for _, e := range entries {
		if isPartOfDatabase(e.Name()) {
			return refused("a database is in " + filepath.Clean(parent) + ", which takes that name for a part of itself")
		}
	}
	return nil
}
