package datadir

import (
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// MoveToQuarantine moves something at the top of a data directory into quarantine/, under a free
// name that begins with its own, and returns the new path relative to the data directory.
func MoveToQuarantine(fsys fileutil.FS, dir, name string) (string, error) {
	to, _, err := fileutil.MoveInto(fsys, filepath.Join(dir, name), filepath.Join(dir, QuarantineDir), name)
	return filepath.Join(QuarantineDir, filepath.Base(to)), err
}

// InQuarantine lists what is in quarantine, as paths relative to the data directory.
func InQuarantine(fsys fileutil.FS, dataDir string) (names []string) {
	entries, err := fsys.ReadDir(filepath.Join(dataDir, QuarantineDir))
	if err != nil {
		return nil // there is no such directory
	}
	for _, e := range entries {
		names = append(names, filepath.Join(QuarantineDir, e.Name()))
	}
	return names
}

// Quarantined returns the blocks in quarantine that are not in have.
func Quarantined(fsys fileutil.FS, dataDir string, have *Lineage) (out []Missing, err error) {
	entries, err := fsys.ReadDir(filepath.Join(dataDir, QuarantineDir))
	if fileutil.IgnoreNotExist(err) != nil {
		return nil, err
	}
	for _, e := range entries {
		id, ok := quarantinedID(e)
		if !ok {
			continue
		}
		if m := MissingAt(fsys, dataDir, filepath.Join(QuarantineDir, e.Name()), id); !have.Has(m) {
			out = append(out, m)
		}
	}
	return out, nil
}

// quarantineIDs returns the blocks that something in quarantine is called after.
func quarantineIDs(fsys fileutil.FS, dataDir string) (ids []ulid.ULID, err error) {
	entries, err := fsys.ReadDir(filepath.Join(dataDir, QuarantineDir))
	if fileutil.IgnoreNotExist(err) != nil {
		return nil, err
	}
	for _, e := range entries {
		if id, ok := quarantinedID(e); ok {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// quarantinedID returns the block that an entry of quarantine is: its name, maybe with a
// number behind it.
func quarantinedID(e fs.DirEntry) (id ulid.ULID, ok bool) {
	if len(e.Name()) < ulid.EncodedSize || !e.IsDir() {
		return id, false
	}
	number, numbered := strings.CutPrefix(e.Name()[ulid.EncodedSize:], ".")
	if numbered != isNumber(number) || !numbered && number != "" {
		return id, false
	}
	return blockdir.ParseName(e.Name()[:ulid.EncodedSize])
}
