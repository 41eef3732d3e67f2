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

// RemoveDamaged removes what Verify has found to be damaged, and what is so still: objects, and
// manifests. Backups that have the objects stay damaged, unless the next Take finds the same bytes
// in its directory, and stores them again. A backup without its manifest is none any more, and what
// only it had is for the next Prune.
func RemoveDamaged(ctx context.Context, store Store, problems []Problem, opts *Options) (err error) {
	o := opts.withDefaults()
	unlock, err := lockStore(store, o.Clock.Now())
	if err != nil {
		return err
	}
	defer func() { err = joined(err, unlock()) }()
	removed := map[string]bool{}
	for _, p := range problems {
		name := p.Object
		if name == "" {
			name = manifestsPrefix + p.Backup + manifestSuffix
		}
		if removed[name] || !errors.Is(p.Err, tsdb.ErrCorrupt) {
			continue
		}
		removed[name] = true
		if err := removeIfDamaged(ctx, store, &p, name); err != nil {
			return errors.WithMessagef(err, "remove %s", name)
		}
	}
	return nil
}

// removeIfDamaged removes the object of a problem, unless it is whole by now, or gone.
func removeIfDamaged(ctx context.Context, store Store, p *Problem, name string) (err error) {
	damaged := false
	if p.Object == "" {
		_, err = loadManifest(ctx, store, p.Backup)
		damaged = errors.Is(err, tsdb.ErrCorrupt)
	} else {
		var sum string
		sum, _, err = sumOf(ctx, func() (io.ReadCloser, error) { return store.Get(ctx, name) })
		damaged = err == nil && sum != path.Base(name)
	}
	switch {
	case damaged:
		return store.Delete(ctx, name)
	case isGone(err):
		return nil
	default:
		return err
	}
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
