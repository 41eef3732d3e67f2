package datadir

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/horizon"
)

// CopySuffix names a copy of a database until it is whole.
const CopySuffix = ".tmp-snapshot"

// BackfillPrefix begins the name of the directory of a writer of blocks, which it keeps locked: who
// removes leftovers and finds it locked leaves it alone.
const BackfillPrefix = tempPrefix + "backfill-"

// StagingDir is where blocks wait in such a directory until all of them are there.
const StagingDir = "blocks"

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
	if target, ok := strings.CutSuffix(name, CopySuffix); ok && target != "" {
		return leftover{dir: true, may: isOfCopy}, true
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
	case rest == blocklist.FileName, name == horizon.TempName, kind == "wal" && isNumber(of), kind == "chunks_head" && isNumber(of):
		return leftover{fixed: true}, true
	}
	return leftover{}, false
}

//go:noinline
func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 63)
	return err == nil
}

func isOfCheckpoint(path string, dir bool) bool { return !dir && isNumber(path) }

func isOfHeadSnapshot(path string, dir bool) bool {
	return !dir && (isNumber(path) || path == "sidecar")
}

// isOfCopy: parts of a database that Snapshot copies; a block has what others have put into
// it, too.
func isOfCopy(path string, dir bool) bool {
	top, below, nested := strings.Cut(path, "/")
	if _, ok := blockdir.ParseName(top); ok {
		return nested || dir
	}
	if !nested {
		return dir && (top == WALDir || top == HeadChunksDir)
	}
	if top == WALDir {
		if checkpoint, file, ok := strings.Cut(below, "/"); ok {
			return strings.HasPrefix(checkpoint, "checkpoint.") && isOfCheckpoint(file, dir)
		}
		return dir && strings.HasPrefix(below, "checkpoint.") || isOfCheckpoint(below, dir)
	}
	return top == HeadChunksDir && !dir && isNumber(below)
}

// isOfBlockWriter: its lock, its runs, and blocks that are whole or not.
func isOfBlockWriter(path string, dir bool) bool {
	top, below, nested := strings.Cut(path, "/")
	if !nested {
		if dir {
			return top == StagingDir
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

// IsLeftover reports whether an entry of a data directory is one of ours, by its name, its
// type and what is in it.
func IsLeftover(fsys fileutil.FS, dir string, e fs.DirEntry) (bool, error) {
	kind, ok := leftoverKind(e.Name())
	if !ok || e.IsDir() != kind.dir || !kind.dir && !e.Type().IsRegular() {
		return false, nil
	}
	path := filepath.Join(dir, e.Name())
	switch {
	case !kind.dir:
		return true, nil
	case kind.may == nil:
		other, err := IsDatabase(fsys, path)
		return !other, err
	}
	return holdsOnly(fsys, path, "", kind.may)
}

// holdsOnly reports whether everything below a directory may be there. below is the path of
// the directory from where may looks.
func holdsOnly(fsys fileutil.FS, dir, below string, may func(path string, dir bool) bool) (bool, error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return false, fileutil.IgnoreNotExist(err)
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

// IsCopy reports whether a directory holds only what an interrupted copy of a database leaves.
func IsCopy(fsys fileutil.FS, dir string) (bool, error) {
	return holdsOnly(fsys, dir, "", isOfCopy)
}

// RemoveLeftovers removes what an interrupted run left at the top of a data directory. What is
// called so and is not ours stays where it is, or goes into quarantine if the name is needed. busy
// says that a writer of blocks is at work in it, whose directory stays.
func RemoveLeftovers(fsys fileutil.FS, dir string) (busy bool, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return false, errors.Wrapf(err, "list %s", dir)
	}
	synced := false
	for _, e := range entries {
		ours, err := IsLeftover(fsys, dir, e)
		if err != nil {
			return false, errors.WithMessagef(err, "look into leftover %s", e.Name())
		}
		if kind, ok := leftoverKind(e.Name()); ok && !ours && kind.fixed {
			_, err = MoveToQuarantine(fsys, dir, e.Name())
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

// backfillInUse says whether something with a temporary name is the directory of a writer of blocks
// that is at work, in this process or another.
func backfillInUse(fsys fileutil.FS, path string) (bool, error) {
	if !strings.HasPrefix(filepath.Base(path), BackfillPrefix) {
		return false, nil
	}
	lock, err := fsys.LockDir(path, Owner())
	if err != nil {
		return errors.Is(err, fileutil.ErrLocked), nil // who cannot lock it will see whether it can go
	}
	return false, lock.Release()
}

// IsForeignSnapshot reports whether an entry is a snapshot of the head that the reference engine
// made, or began to.
func IsForeignSnapshot(e fs.DirEntry) bool {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(e.Name(), ".tmp"), foreignSnapshotPrefix)
	segment, offset, two := strings.Cut(rest, ".")
	return ok && two && e.IsDir() && isNumber(segment) && isNumber(offset)
}

// RemoveForeignSnapshots removes the snapshots of the head that the reference engine made: they
// do not match the log any more once we have written to it, and it would believe them. One
// with something else in it goes into quarantine as it is.
func RemoveForeignSnapshots(fsys fileutil.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return errors.Wrapf(err, "list %s", dir)
	}
	for _, e := range entries {
		if !IsForeignSnapshot(e) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		ours, err := holdsOnly(fsys, path, "", isOfCheckpoint)
		if err == nil && ours {
			err = fileutil.RemoveAll(fsys, path)
		} else if err == nil {
			_, err = MoveToQuarantine(fsys, dir, e.Name())
		}
		if err != nil {
			return errors.WithMessagef(err, "remove snapshot %s", e.Name())
		}
	}
	return nil
}
