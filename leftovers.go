package tsdb

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/horizon"
)

// tempPrefix begins the names of what is being made, or removed, at the top of a data
// directory. Other engines ignore such names. Not all that is called so is ours.
const tempPrefix = "tmp-"

// leftover is a kind of thing that has a temporary name. A crash leaves it, and the next Open
// removes it: only what has a name of this shape and holds what such a thing can hold.
type leftover struct {
	dir   bool // else it is a file
	fixed bool // the next one gets the same name, so that nothing else can stay there
	// may reports whether a file or directory may be in it, by its path below it, with slashes.
	// nil, of a directory: anything but another database.
	may func(path string, dir bool) bool
}

// leftoverKind returns what has this name, if that is one that this library gives.
func leftoverKind(name string) (k leftover, ok bool) {
	if target, ok := strings.CutSuffix(name, snapshotSuffix); ok && target != "" {
		return leftover{dir: true, may: isOfSnapshot}, true
	}
	rest, ok := strings.CutPrefix(name, tempPrefix)
	if !ok {
		return leftover{}, false
	}
	kind, of, _ := strings.Cut(rest, "-")
	_, isID := blockdir.ParseName(of)
	switch {
	case kind == "block" && isID:
		return leftover{dir: true, may: blockdir.IsPart}, true
	case kind == "deleted" && isID:
		return leftover{dir: true}, true
	case kind == "backfill" && isID:
		return leftover{dir: true, may: isOfBlockWriter}, true
	case rest == "checkpoint":
		return leftover{dir: true, fixed: true, may: isOfCheckpoint}, true
	case rest == "head-snapshot":
		return leftover{dir: true, fixed: true, may: isOfHeadSnapshot}, true
	case rest == blockListName, name == horizon.TempName, kind == "wal" && isNumber(of), kind == "chunks_head" && isNumber(of):
		return leftover{fixed: true}, true
	}
	return leftover{}, false
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 63)
	return err == nil
}

func isOfCheckpoint(path string, dir bool) bool { return !dir && isNumber(path) }

func isOfHeadSnapshot(path string, dir bool) bool {
	return !dir && (isNumber(path) || path == "sidecar")
}

// isOfSnapshot: parts of a database that Snapshot copies; a block has what others have put into
// it, too.
func isOfSnapshot(path string, dir bool) bool {
	top, below, nested := strings.Cut(path, "/")
	if _, ok := blockdir.ParseName(top); ok {
		return nested || dir
	}
	if !nested {
		return dir && (top == walDirName || top == headChunksDirName)
	}
	if top == walDirName {
		if checkpoint, file, ok := strings.Cut(below, "/"); ok {
			return strings.HasPrefix(checkpoint, "checkpoint.") && isOfCheckpoint(file, dir)
		}
		return dir && strings.HasPrefix(below, "checkpoint.") || isOfCheckpoint(below, dir)
	}
	return top == headChunksDirName && !dir && isNumber(below)
}

// isOfBlockWriter: its lock, its runs, and blocks that are whole or not.
func isOfBlockWriter(path string, dir bool) bool {
	top, below, nested := strings.Cut(path, "/")
	if !nested {
		if dir {
			return top == stagingDir
		}
		return top == fileutil.LockName || top == fileutil.OwnerName || top == "merge-symbols" || strings.HasPrefix(top, "run-")
	}
	block, file, nested := strings.Cut(below, "/")
	if kind, ok := leftoverKind(block); ok && kind.dir {
		return !nested && dir || kind.may == nil || kind.may(file, dir)
	}
	_, isID := blockdir.ParseName(block)
	return isID && (!nested && dir || blockdir.IsPart(file, dir))
}

// isLeftover reports whether an entry of a data directory is one of ours, by its name, its
// type and what is in it.
func isLeftover(fsys FS, dir string, e fs.DirEntry) (bool, error) {
	kind, ok := leftoverKind(e.Name())
	if !ok || e.IsDir() != kind.dir || !kind.dir && !e.Type().IsRegular() {
		return false, nil
	}
	path := filepath.Join(dir, e.Name())
	switch {
	case !kind.dir:
		return true, nil
	case kind.may == nil:
		other, err := isDataDir(fsys, path)
		return !other, err
	}
	return holdsOnly(fsys, path, "", kind.may)
}

// holdsOnly reports whether everything below a directory may be there. below is the path of
// the directory from where may looks.
func holdsOnly(fsys FS, dir, below string, may func(path string, dir bool) bool) (bool, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return false, ignoreNotExist(err)
	}
	for _, e := range entries {
		path := below + e.Name()
		if !e.IsDir() && !e.Type().IsRegular() || !may(path, e.IsDir()) {
			return false, nil
		}
		if e.IsDir() {
			if only, err := holdsOnly(fsys, filepath.Join(dir, e.Name()), path+"/", may); err != nil || !only {
				return false, err
			}
		}
	}
	return true, nil
}

// removeLeftovers removes what an interrupted run left at the top of a data directory. What is
// called so and is not ours stays where it is, or goes into quarantine if the name is needed. busy
// says that a BlockWriter is at work in it, whose directory stays.
func removeLeftovers(fsys FS, dir string) (busy bool, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return false, errors.Wrapf(err, "list %s", dir)
	}
	synced := false
	for _, e := range entries {
		ours, err := isLeftover(fsys, dir, e)
		if err != nil {
			return false, errors.WithMessagef(err, "look into leftover %s", e.Name())
		}
		if kind, ok := leftoverKind(e.Name()); ok && !ours && kind.fixed {
			_, err = moveToQuarantine(fsys, dir, e.Name())
		}
		if err != nil {
			return false, errors.WithMessagef(err, "set %s aside", e.Name())
		}
		if !ours {
			continue
		}
		// It may have this name since a moment before a crash only: nothing below it goes
		// while it could get its old name back.
		if !synced {
			if err := fsys.SyncDir(dir); err != nil {
				return false, errors.WithMessagef(err, "sync %s", dir)
			}
			synced = true
		}
		path := filepath.Join(dir, e.Name())
		used, err := backfillInUse(fsys, path)
		busy = busy || used
		if err == nil && !used {
			err = fileutil.RemoveAll(fsys, path)
		}
		if err != nil {
			return false, errors.WithMessagef(err, "remove leftover %s", e.Name())
		}
	}
	return busy, nil
}

// isForeignSnapshot reports whether an entry is a snapshot of the head that the reference engine
// made, or began to.
func isForeignSnapshot(e fs.DirEntry) bool {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".tmp"), snapshotPrefix)
	segment, offset, two := strings.Cut(rest, ".")
	return ok && two && e.IsDir() && isNumber(segment) && isNumber(offset)
}

// removeForeignSnapshots removes the snapshots of the head that the reference engine made: they
// do not match the log any more once we have written to it, and it would believe them. One
// with something else in it goes into quarantine as it is.
func removeForeignSnapshots(fsys FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return errors.Wrapf(err, "list %s", dir)
	}
	for _, e := range entries {
		if !isForeignSnapshot(e) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		ours, err := holdsOnly(fsys, path, "", isOfCheckpoint)
		if err == nil && ours {
			err = fileutil.RemoveAll(fsys, path)
		} else if err == nil {
			_, err = moveToQuarantine(fsys, dir, e.Name())
		}
		if err != nil {
			return errors.WithMessagef(err, "remove snapshot %s", e.Name())
		}
	}
	return nil
}

// moveToQuarantine moves something at the top of a data directory into quarantine/, under a free
// name that begins with its own, and returns the new path relative to the data directory.
func moveToQuarantine(fsys FS, dir, name string) (string, error) {
	to, _, err := fileutil.MoveInto(fsys, filepath.Join(dir, name), filepath.Join(dir, quarantineDirName), name)
	return filepath.Join(quarantineDirName, filepath.Base(to)), err
}
