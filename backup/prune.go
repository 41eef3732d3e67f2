package backup

import (
	"context"
	"path"
	"strings"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
)

// Pruned is what Prune removed.
type Pruned struct {
	Backups []string
	Objects int
	Bytes   int64
}

// Prune removes all backups but the newest ones, so many, and the objects that no backup has, also
// those of a Take that did not come to its end.
//
// A backup whose manifest is damaged does not count, and goes as the others do: when there are so
// many newer ones. Until then, or until RemoveDamaged, objects stay that no backup has: it may have
// them.
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
	kept, err := keepNewest(ctx, store, names, keep, &o)
	if err != nil {
		return p, err
	}
	for _, name := range names[:kept.from] {
		if err := store.Delete(ctx, manifestsPrefix+name+manifestSuffix); err != nil {
			return p, errors.WithMessagef(err, "remove backup %s", name)
		}
		p.Backups = append(p.Backups, name)
	}
	if err := syncStore(store, []string{manifestsPrefix}); err != nil { // before what they have goes
		return p, err
	}
	return p, errors.WithMessage(kept.removeOthers(ctx, store, &p), "remove what no backup has")
}

// keptBackups are those that stay.
type keptBackups struct {
	from    int             // the oldest of them, in the order of all
	used    map[string]bool // the hashes of their files
	damaged bool            // there is one of which nobody knows what it has
}

// keepNewest chooses the newest backups, so many that are whole.
func keepNewest(ctx context.Context, store Store, names []string, keep int, o *Options) (keptBackups, error) {
	k := keptBackups{from: len(names), used: map[string]bool{}}
	for ; k.from > 0 && keep > 0; k.from-- {
		name := names[k.from-1]
		m, err := loadManifest(ctx, store, name)
		if errors.Is(err, tsdb.ErrCorrupt) {
			o.PassedOver(name, err)
			k.damaged = true
			continue
		}
		if err != nil {
			return k, err
		}
		keep--
		for _, f := range m.Files {
			k.used[f.Sum] = true
		}
	}
	return k, nil
}

// removeOthers removes the objects that no backup has, and what was never whole.
func (k *keptBackups) removeOthers(ctx context.Context, store Store, p *Pruned) error {
	gone := map[string]int64{} // sizes
	for _, prefix := range []string{manifestsPrefix, objectsPrefix} {
		err := store.List(ctx, prefix, func(name string, size int64) error {
			left := prefix == objectsPrefix && !k.damaged && !k.used[path.Base(name)]
			if left || strings.HasSuffix(name, unfinished) {
				gone[name] = size
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	for name, size := range gone {
		if err := store.Delete(ctx, name); err != nil {
			return err
		}
		p.Objects++
		p.Bytes += size
	}
	return nil
}
