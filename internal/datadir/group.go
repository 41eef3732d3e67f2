package datadir

import (
	"path/filepath"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// maxNameBytes bounds the name of a database in a group: with what is below, a path stays short of
// what file systems take.
const maxNameBytes = 128

// CheckName says why a database of a group may not be called so: its name is that of its directory,
// on any file system, and must not lead out of that of the group.
func CheckName(name string) error {
	why := ""
	stem, _, _ := strings.Cut(name, ".")
	_, notULID := ulid.ParseStrict(name)
	switch {
	case name == "" || len(name) > maxNameBytes:
		why = "1 to 128 bytes are wanted"
	case strings.ContainsFunc(name, isNotOfName):
		why = "only ASCII letters, digits, '-', '_' and '.' are taken"
	case name[0] == '.' || name[len(name)-1] == '.':
		why = "it begins or ends with a dot"
	case isDevice(stem):
		why = "some systems take it for a device"
	case isPartOfDatabase(name) && notULID != nil:
		why = "a part of a database is called so"
	default:
		return nil
	}
	return errors.Errorf("name of a database %q: %s", name, why)
}

const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."

func isNotOfName(r rune) bool { return !strings.ContainsRune(nameBytes, r) }

// isDevice reports whether Windows opens a device by this name, whatever follows behind a dot.
func isDevice(stem string) bool {
	stem = strings.ToLower(stem)
	switch stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && stem[3] >= '0' && stem[3] <= '9'
}

// MakeGroup makes a directory for databases, if it is not there, and returns its absolute path.
// ErrNotDataDir: it is itself a database.
func MakeGroup(fsys fileutil.FS, dir string) (string, error) {
	path, err := fileutil.Abs(fsys, dir)
	if err == nil {
		err = fileutil.MkdirSync(fsys, path)
	}
	if err == nil {
		err = checkGroup(fsys, path)
	}
	return path, err
}

// Databases returns the names of the databases in the directory of a group, sorted.
func Databases(fsys fileutil.FS, dir string) (names []string, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.IsDir() || CheckName(e.Name()) != nil {
			continue
		}
		is, err := IsDatabase(fsys, filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		if is {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// checkGroup returns ErrNotDataDir if a directory that is to have databases in it is itself one.
func checkGroup(fsys fileutil.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		switch e.Name() {
		case WALDir, HeadChunksDir, fileutil.OwnerName:
			return errors.WithMessagef(ErrNotDataDir, "directory %s has %s, so it is a database, and no group of them", dir, e.Name())
		}
	}
	return nil
}
