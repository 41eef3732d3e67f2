package backup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// RestoreSuffix ends the name of a directory that is being restored.
const RestoreSuffix = ".tmp-restore"

// Restore makes a data directory of a backup: that of a name that List has, or for an empty name
// the newest one whose manifest is not damaged. dir must not exist, or be empty: fs.ErrExist. Each
// file is held against its hash, and on stable storage when Restore returns; until then there is
// only a directory with RestoreSuffix beside, with which the next Restore into dir goes on.
//
// Errors: fs.ErrNotExist, if there is no such backup, or no backup; tsdb.ErrCorrupt with the name
// of what is damaged; those of the store and of the file system; the context's.
func Restore(ctx context.Context, store Store, name, dir string, opts *Options) (Backup, error) {
	o := opts.withDefaults()
	dir, err := fileutil.Abs(o.FS, dir)
	if err != nil {
		return Backup{}, err
	}
	var m *manifest
	if name == "" {
		var names []string
		names, err = listNames(ctx, store)
		if err != nil {
			return Backup{}, err
		}
		if len(names) == 0 {
			return Backup{}, errors.WithMessage(fs.ErrNotExist, "restore: there are no backups")
		}
		name, m, err = newestWhole(ctx, store, names, &o)
	} else {
		m, err = loadManifest(ctx, store, name)
	}
	if err == nil {
		err = makeWay(o.FS, dir)
	}
	if err != nil {
		return Backup{}, err
	}
	b := m.backup(name)
	return b, errors.WithMessagef(restore(ctx, store, m, dir, b.Bytes, &o), "restore backup %s into %s", name, dir)
}

// At returns the name of the newest backup that is not later than a time, and whose manifest is not
// damaged. Errors: fs.ErrNotExist, if there is none; tsdb.ErrCorrupt, if all are damaged; those of
// the store; the context's.
func At(ctx context.Context, store Store, t time.Time, opts *Options) (string, error) {
	o := opts.withDefaults()
	names, err := listNames(ctx, store)
	if err != nil {
		return "", err
	}
	limit := t.UTC().Format(nameLayout)
	n := 0
	for n < len(names) && names[n] <= limit {
		n++
	}
	if n == 0 {
		return "", errors.WithMessagef(fs.ErrNotExist, "no backup is as old as %s", t.UTC().Format(time.RFC3339))
	}
	name, _, err := newestWhole(ctx, store, names[:n], &o)
	return name, err
}

// makeWay removes an empty directory, in whose place the other one will be. It refuses one in which
// something is, and one that cannot be replaced.
func makeWay(fsys tsdb.FS, dir string) error {
	entries, err := fsys.ReadDir(dir)
	switch {
	case isGone(err):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return errors.WithMessagef(fs.ErrExist, "restore: %s is not empty", dir)
	}
	link, err := fileutil.IsLink(fsys, dir)
	if err != nil {
		return err
	}
	if link {
		return errors.WithMessagef(fs.ErrExist, "restore: %s is a link: name what it leads to", dir)
	}
	return errors.WithMessage(fsys.Remove(dir), "restore: the empty directory cannot be replaced: name one in it")
}

func restore(ctx context.Context, store Store, m *manifest, dir string, total int64, o *Options) error {
	tmp := dir + RestoreSuffix
	if err := fileutil.MkdirSync(o.FS, tmp); err != nil {
		return err
	}
	wanted, dirs, done := map[string]bool{}, map[string]bool{tmp: true}, int64(0)
	for i := range m.Files {
		f := &m.Files[i]
		name := filepath.Join(tmp, filepath.FromSlash(f.Path))
		for parent := filepath.Dir(name); !dirs[parent]; parent = filepath.Dir(parent) {
			dirs[parent] = true
		}
		if err := o.FS.MkdirAll(filepath.Dir(name)); err != nil {
			return err
		}
		wanted[name] = true
		if err := restoreFile(ctx, store, f, name, o.FS); err != nil {
			return errors.WithMessage(err, f.Path)
		}
		done += f.Size
		o.Progress(done, total)
	}
	if err := removeOthers(o.FS, tmp, wanted); err != nil {
		return err
	}
	for _, d := range sortedKeys(dirs) {
		if err := o.FS.SyncDir(d); err != nil {
			return err
		}
	}
	if err := o.FS.Rename(tmp, dir); err != nil {
		return err
	}
	return o.FS.SyncDir(filepath.Dir(dir))
}

// restoreFile makes a file, unless it is there.
func restoreFile(ctx context.Context, store Store, f *file, name string, fsys tsdb.FS) error {
	switch sum, size, err := sumOf(ctx, func() (io.ReadCloser, error) { return openFile(fsys, name) }); {
	case err == nil && sum == f.Sum && size == f.Size:
		return syncFile(fsys, name) // who wrote it may have ended before
	case err == nil:
		err = fsys.Remove(name)
		if err != nil {
			return err
		}
	case !isGone(err):
		return err
	}
	r, err := store.Get(ctx, f.objectName())
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // what was read is checked by its sum
	h := sha256.New()
	// One more byte than there are tells an object that is too long.
	if err := writeFile(fsys, name, io.TeeReader(&endedReader{ctx, io.LimitReader(r, f.Size+1)}, h)); err != nil {
		return err
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != f.Sum {
		return joined(errors.WithMessagef(tsdb.ErrCorrupt, "object %s has other bytes than were stored", f.objectName()), fsys.Remove(name))
	}
	return nil
}

func syncFile(fsys tsdb.FS, name string) error {
	f, err := fsys.OpenWrite(name)
	if err != nil {
		return err
	}
	return joined(f.Sync(), f.Close())
}

// sumOf returns the hash and the size of what is opened.
func sumOf(ctx context.Context, open func() (io.ReadCloser, error)) (sum string, size int64, err error) {
	r, err := open()
	if err != nil {
		return "", 0, err
	}
	h := sha256.New()
	size, err = io.Copy(h, &endedReader{ctx, r})
	return hex.EncodeToString(h.Sum(nil)), size, joined(err, r.Close())
}

// removeOthers removes what an earlier try left that belongs to another backup.
func removeOthers(fsys tsdb.FS, dir string, wanted map[string]bool) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			if err := removeOthers(fsys, name, wanted); err != nil {
				return err
			}
			if left, err := fsys.ReadDir(name); err != nil || len(left) > 0 {
				continue
			}
		}
		if !wanted[name] {
			if err := fsys.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}
