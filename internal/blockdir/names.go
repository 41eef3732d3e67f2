// Package blockdir knows one block as a directory on disk: which files it has, how it
// comes into being whole or not at all, how samples in it are deleted, and how it goes.
// It knows the meta file and puts together what packages index, chunks and tombstones
// know of theirs. It does not know which blocks there should be, who reads one, or when
// it may go: that is the root's.
//
// A Writer belongs to one goroutine. A Dir is safe for concurrent use, except that Close
// must not run beside anything else; who closes it counts its readers. Functions on
// directories must not run beside others on the same block.
//
// The formats are described in docs/format/blocks.md.
package blockdir

import (
	"encoding/binary"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// Files of a block directory; the tombstones file has its name from its package.
const (
	metaName    = "meta.json"
	sidecarName = "meta.json.crc"
	indexName   = "index"
	chunksName  = "chunks"

	tmpSuffix = ".tmp" // of a file that is about to replace another one
)

// Prefixes of directories at the top of the data directory that are not blocks yet, or no
// more. Other programs ignore such names; opening the database removes what begins
// with "tmp-".
const (
	creationPrefix = "tmp-block-"
	deletionPrefix = "tmp-deleted-"
)

// Path returns the directory of a block.
func Path(dataDir string, id ulid.ULID) string { return filepath.Join(dataDir, id.String()) }

// NewULID names a block that is made now.
func NewULID(now time.Time) (id ulid.ULID) {
	ms := min(max(now.UnixMilli(), 0), int64(ulid.MaxTime()))
	if err := id.SetTime(uint64(ms)); err != nil {
		panic("BUG: time of a block name: " + err.Error())
	}
	// Names must differ and need not be secret. The generator is seeded by the system in each
	// process; that of the cryptography package would add 170 kB to every program.
	var entropy [10]byte
	binary.LittleEndian.PutUint64(entropy[:], rand.Uint64())
	binary.LittleEndian.PutUint16(entropy[8:], uint16(rand.Uint32()))
	if err := id.SetEntropy(entropy[:]); err != nil {
		panic("BUG: entropy of a block name: " + err.Error())
	}
	return id
}

// NewOwnULID names a block of the head, or of such blocks, that ends at maxt. Its time is not
// before that, or it would look like one of the future that somebody else has made.
func NewOwnULID(now time.Time, maxt int64) ulid.ULID {
	if end := time.UnixMilli(maxt); end.After(now) {
		now = end
	}
	return NewULID(now)
}

// ParseName returns the block whose directory has this name. Only the one spelling that
// blocks are written with counts: of a directory with another one the reference would
// never get rid.
func ParseName(name string) (id ulid.ULID, ok bool) {
	id, err := ulid.ParseStrict(name)
	return id, err == nil && id.String() == name
}

// List returns the blocks in a data directory by name, ascending, whatever is in them. A
// symbolic link is none.
func List(fsys fileutil.FS, dataDir string) ([]ulid.ULID, error) {
	entries, err := fsys.ReadDir(dataDir)
	if err != nil {
		return nil, err
	}
	var ids []ulid.ULID
	for _, e := range entries {
		if id, ok := ParseName(e.Name()); ok && e.IsDir() {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Misspelt returns the directories in a data directory whose names are ULIDs in another
// spelling than that of blocks, as in lower case. List does not have them; other programs
// take them for blocks.
func Misspelt(fsys fileutil.FS, dataDir string) (names []string, err error) {
	entries, err := fsys.ReadDir(dataDir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		id, err := ulid.ParseStrict(e.Name())
		if err == nil && id.String() != e.Name() && e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Links returns the symbolic links in a data directory whose names are ULIDs in any spelling.
// List does not have what they lead to, and no other program reads it.
func Links(fsys fileutil.FS, dataDir string) (names []string, err error) {
	entries, err := fsys.ReadDir(dataDir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if _, err := ulid.ParseStrict(e.Name()); err == nil && e.Type()&fs.ModeSymlink != 0 {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// HasMeta reports whether a directory has something called as the meta file of a block.
func HasMeta(fsys fileutil.FS, blockDir string) (bool, error) {
	_, err := fsys.Stat(filepath.Join(blockDir, metaName))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// IsPart reports whether a block that is being written, or a whole one, may have a file or
// directory of this path, with slashes.
func IsPart(path string, dir bool) bool {
	top, below, nested := strings.Cut(path, "/")
	if top == chunksName {
		_, err := strconv.ParseUint(below, 10, 32)
		return !nested && dir || nested && !dir && err == nil
	}
	return !nested && !dir && (IsFile(top) || isTemporary(top))
}

// isTemporary reports whether a file of a block has this name while it is about to replace
// another one.
func isTemporary(name string) bool {
	whole, ok := strings.CutSuffix(name, tmpSuffix)
	return ok && IsFile(whole) && whole != chunksName && whole != indexName || name == repairedName
}

// RemoveTemporary removes the files that a crash left of changes of a block. Nobody may change
// it meanwhile.
func RemoveTemporary(fsys fileutil.FS, blockDir string) error {
	entries, err := fsys.ReadDir(blockDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !isTemporary(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		if err := fsys.Remove(filepath.Join(blockDir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// IsFile reports whether a block has a file or directory of this name at its top.
//
//go:noinline
func IsFile(name string) bool {
	switch name {
	case metaName, sidecarName, indexName, chunksName, tombstones.FileName:
		return true
	}
	return false
}

// Remove removes a block from a data directory. It goes at once and for good: after a
// crash it is there whole or not at all, and when Remove returns nil it does not come
// back. What does not exist is fine. On an error the block may be there or not, and some
// of its files may be left under a temporary name, which the next Remove or opening the
// database removes. Nobody may have the block open where open files cannot be
// renamed (Windows): that is ErrNotMoved, with the cause.
func Remove(fsys fileutil.FS, dataDir string, id ulid.ULID) error {
	gone := filepath.Join(dataDir, deletionPrefix+id.String())
	if err := removeMoved(fsys, dataDir, gone); err != nil {
		return err
	}
	if err := fsys.Rename(Path(dataDir, id), gone); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fsys.SyncDir(dataDir) // an earlier call may have got no further
		}
		return fileutil.JoinErrors(ErrNotMoved, err)
	}
	if err := fsys.SyncDir(dataDir); err != nil {
		return err
	}
	return fileutil.RemoveAll(fsys, gone)
}

// removeMoved removes what an earlier Remove has moved away. Its sync may have failed: a power
// cut could give the block its name back, so not one of its files goes before a sync that
// succeeds.
func removeMoved(fsys fileutil.FS, dataDir, gone string) error {
	_, err := fsys.Stat(gone)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = fsys.SyncDir(dataDir)
	}
	if err != nil {
		return err
	}
	return fileutil.RemoveAll(fsys, gone)
}
