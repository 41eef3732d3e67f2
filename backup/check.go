package backup

import (
	"context"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Problem is what is wrong with a file of a backup.
type Problem struct {
	Backup, Path string
	Object       string // in the store; empty: it is the manifest
	Err          error  // tsdb.ErrCorrupt, fs.ErrNotExist, or that of the store
}

// Verify reads the objects of some backups, or of all if none is named, each object once, and holds
// them against their hashes. It returns what is wrong, and an error if that could not be found out.
func Verify(ctx context.Context, store Store, opts *Options, names ...string) ([]Problem, error) {
	o := opts.withDefaults()
	if len(names) == 0 {
		all, err := listNames(ctx, store)
		if err != nil {
			return nil, err
		}
		names = all
	}
	var problems []Problem
	manifests, total := map[string]*manifest{}, int64(0)
	for _, name := range names {
		m, err := loadManifest(ctx, store, name)
		if err != nil {
			if ctx.Err() != nil {
				return problems, ctx.Err()
			}
			problems = append(problems, Problem{name, "", "", err})
			continue
		}
		manifests[name] = m
	}
	sizes := map[string]int64{}
	for _, m := range manifests {
		for _, f := range m.Files {
			if _, there := sizes[f.Sum]; !there {
				sizes[f.Sum], total = f.Size, total+f.Size
			}
		}
	}
	found, done := map[string]error{}, int64(0) // by hash
	for _, name := range sortedKeys(manifests) {
		for i := range manifests[name].Files {
			f := &manifests[name].Files[i]
			err, looked := found[f.Sum]
			if !looked {
				err = verifyObject(ctx, store, f)
				if ctx.Err() != nil {
					return problems, ctx.Err()
				}
				found[f.Sum] = err
				done += f.Size
				o.Progress(done, total)
			}
			if err != nil {
				problems = append(problems, Problem{name, f.Path, f.objectName(), err})
			}
		}
	}
	return problems, nil
}

func verifyObject(ctx context.Context, store Store, f *file) error {
	sum, size, err := sumOf(ctx, func() (io.ReadCloser, error) { return store.Get(ctx, f.objectName()) })
	if err == nil && (sum != f.Sum || size != f.Size) {
		err = errors.WithMessagef(tsdb.ErrCorrupt, "object %s has other bytes than were stored", f.objectName())
	}
	return err
}

// RemoveDamaged removes the objects that Verify has found to be damaged. The backups that have them
// stay damaged, unless the next Take finds the same bytes in its directory, and stores them again.
func RemoveDamaged(ctx context.Context, store Store, problems []Problem, opts *Options) (err error) {
	o := opts.withDefaults()
	unlock, err := lockStore(store, o.Clock.Now())
	if err != nil {
		return err
	}
	defer func() { err = joined(err, unlock()) }()
	for _, p := range problems {
		if p.Object != "" && errors.Is(p.Err, tsdb.ErrCorrupt) {
			if err := store.Delete(ctx, p.Object); err != nil {
				return errors.WithMessagef(err, "remove %s", p.Object)
			}
		}
	}
	return nil
}

// Pruned is what Prune removed.
type Pruned struct {
	Backups []string
	Objects int
	Bytes   int64
}

// Prune removes all backups but the newest ones, so many, and the objects that no backup has, also
// those of a Take that did not come to its end. If the manifest of one that is to stay is damaged
// nothing is removed: tsdb.ErrCorrupt.
func Prune(ctx context.Context, store Store, keep int, opts *Options) (p Pruned, err error) {
	if keep < 1 {
		return p, errors.WithMessage(tsdb.ErrInvalidArgument, "prune backups: keep one at least")
	}
	o := opts.withDefaults()
	unlock, err := lockStore(store, o.Clock.Now())
	if err != nil {
		return p, err
	}
	defer func() { err = joined(err, unlock()) }()
	names, err := listNames(ctx, store)
	if err != nil {
		return p, err
	}
	kept := names[max(0, len(names)-keep):]
	used := map[string]bool{}
	for _, name := range kept {
		m, err := loadManifest(ctx, store, name)
		if err != nil {
			return p, err
		}
		for _, f := range m.Files {
			used[f.Sum] = true
		}
	}
	for _, name := range names[:len(names)-len(kept)] {
		if err := store.Delete(ctx, manifestsPrefix+name+manifestSuffix); err != nil {
			return p, errors.WithMessagef(err, "remove backup %s", name)
		}
		p.Backups = append(p.Backups, name)
	}
	if err := syncStore(store, []string{manifestsPrefix}); err != nil { // before what they have goes
		return p, err
	}
	gone := map[string]int64{} // sizes
	err = store.List(ctx, objectsPrefix, func(name string, size int64) error {
		if !used[path.Base(name)] {
			gone[name] = size
		}
		return nil
	})
	for name, size := range gone {
		if err != nil {
			break
		}
		if err = store.Delete(ctx, name); err == nil {
			p.Objects++
			p.Bytes += size
		}
	}
	return p, errors.WithMessage(err, "remove what no backup has")
}

// endedReader ends with its context.
type endedReader struct {
	ctx context.Context
	r   io.Reader
}

func (e *endedReader) Read(b []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	return e.r.Read(b)
}

func joined(errs ...error) error { return fileutil.JoinErrors(errs...) }

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
