package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
)

// Names in a store.
const (
	objectsPrefix   = "objects/"
	manifestsPrefix = "backups/"
	manifestSuffix  = ".json"
)

const (
	formatVersion    = 1
	maxManifestBytes = 256 << 20
	nameLayout       = "20060102T150405.000Z"
)

// manifest says what a data directory had at one moment. Of the JSON Sum is the SHA-256 while it is
// empty itself.
type manifest struct {
	Version int       `json:"version"`
	Time    time.Time `json:"time"`
	Files   []file    `json:"files"`
	Sum     string    `json:"sum"`
}

// file is one of a directory. Its path has slashes.
type file struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	Sum  string `json:"sha256"`
}

// objectName is where the file is in a store.
func (f *file) objectName() string { return objectsPrefix + f.Sum[:2] + "/" + f.Sum }

// Backup is one of a store.
type Backup struct {
	Name  string // by which it is restored: its time
	Time  time.Time
	Files int
	Bytes int64 // of all files
	// Damaged says that the manifest is not what was written, as of a Take that was killed where a
	// store keeps a part of an object. Then only Name and Time are known. Nil: it is whole.
	Damaged error
}

func (m *manifest) backup(name string) Backup {
	b := Backup{Name: name, Time: m.Time, Files: len(m.Files)}
	for i := range m.Files {
		b.Bytes += m.Files[i].Size
	}
	return b
}

// encode returns the manifest with its sum.
func (m *manifest) encode() ([]byte, error) {
	m.Sum = ""
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	m.Sum = hex.EncodeToString(sum[:])
	return json.MarshalIndent(m, "", " ")
}

// loadManifest reads a manifest. tsdb.ErrCorrupt: it does not say what was written.
func loadManifest(ctx context.Context, store Store, name string) (*manifest, error) {
	if !isName(name) {
		return nil, errors.WithMessagef(fs.ErrNotExist, "%q is no name of a backup", name)
	}
	r, err := store.Get(ctx, manifestsPrefix+name+manifestSuffix)
	if err != nil {
		return nil, errors.WithMessagef(err, "backup %s", name)
	}
	defer func() { _ = r.Close() }() // what was read is checked by its sum
	text, err := io.ReadAll(io.LimitReader(r, maxManifestBytes+1))
	if err != nil {
		return nil, errors.WithMessagef(err, "backup %s", name)
	}
	if len(text) > maxManifestBytes {
		return nil, errors.WithMessagef(tsdb.ErrUnsupported, "manifest of backup %s has more than %d bytes", name, maxManifestBytes)
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, errors.WithMessagef(tsdb.ErrCorrupt, "manifest of backup %s: %v", name, err)
	}
	if m.Version > formatVersion {
		return nil, errors.WithMessagef(tsdb.ErrUnsupported, "backup %s is of version %d, this program reads %d", name, m.Version, formatVersion)
	}
	again, err := m.encode()
	if err != nil || !bytes.Equal(bytes.TrimSpace(text), again) {
		return nil, errors.WithMessagef(tsdb.ErrCorrupt, "manifest of backup %s: its sum is another", name)
	}
	for i := range m.Files {
		if f := &m.Files[i]; !filepath.IsLocal(filepath.FromSlash(f.Path)) || path.Clean(f.Path) != f.Path || !isSum(f.Sum) || f.Size < 0 {
			return nil, errors.WithMessagef(tsdb.ErrCorrupt, "manifest of backup %s: file %q", name, f.Path)
		}
	}
	return &m, nil
}

func isSum(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == sha256.Size && strings.ToLower(text) == text
}

// List returns the backups of a store, the oldest first, and those that are damaged among them. One
// that could not be read is left out, and an error tells of it.
func List(ctx context.Context, store Store) ([]Backup, error) {
	names, err := listNames(ctx, store)
	if err != nil {
		return nil, err
	}
	var list []Backup
	var unread error
	for _, name := range names {
		m, err := loadManifest(ctx, store, name)
		switch {
		case errors.Is(err, tsdb.ErrCorrupt):
			at, _ := time.Parse(nameLayout, name) // it was listed as one
			list = append(list, Backup{Name: name, Time: at, Damaged: err})
		case err != nil:
			unread = joined(unread, err)
		default:
			list = append(list, m.backup(name))
		}
	}
	return list, unread
}

// newestWhole returns the newest of some backups whose manifest is not damaged. tsdb.ErrCorrupt:
// all are, and there is one at least.
func newestWhole(ctx context.Context, store Store, names []string, o *Options) (string, *manifest, error) {
	var damage error // of the newest
	for _, name := range slices.Backward(names) {
		m, err := loadManifest(ctx, store, name)
		if !errors.Is(err, tsdb.ErrCorrupt) {
			return name, m, err
		}
		o.PassedOver(name, err)
		damage = cmp.Or(damage, err)
	}
	return "", nil, damage
}

// listNames returns the names of backups in the order of their times.
func listNames(ctx context.Context, store Store) (names []string, _ error) {
	err := store.List(ctx, manifestsPrefix, func(name string, _ int64) error {
		name, isManifest := strings.CutSuffix(strings.TrimPrefix(name, manifestsPrefix), manifestSuffix)
		if isManifest && isName(name) {
			names = append(names, name)
		}
		return nil
	})
	slices.Sort(names)
	return names, errors.WithMessage(err, "list backups")
}

// isName reports whether a text may be the name of a backup: its time.
func isName(text string) bool {
	_, err := time.Parse(nameLayout, text)
	return err == nil
}
