// Package bucket keeps backups in a bucket of an object store, of any provider of
// github.com/thanos-io/objstore. It is a module of its own, for programs that want nothing
// of PromQL. Command tsdbbackup uses it.
package bucket

import (
	"context"
	"io"
	"io/fs"

	"github.com/pkg/errors"
	"github.com/thanos-io/objstore"

	"github.com/seed347100a3/tsdb/backup"
)

// store is a bucket as package backup sees it.
type store struct{ bucket objstore.Bucket }

// NewStore returns the store in a bucket. Who gives objects a prefix there, wraps the bucket
// (objstore.NewPrefixedBucket). One Take or Prune at a time may write to it: a bucket has no lock.
//
// An upload that is interrupted may leave a part of an object where the provider stores what it
// gets at once, as the one of file systems does. Take sees that by its size, and stores it again;
// of a manifest it leaves a backup that is damaged, which is passed over. In a directory
// backup.NewDirStore leaves no parts.
func NewStore(bucket objstore.Bucket) backup.Store { return &store{bucket} }

// Put implements backup.Store.
func (s *store) Put(ctx context.Context, name string, r io.Reader) error {
	return errors.WithMessagef(s.bucket.Upload(ctx, name, r), "upload %s", name)
}

// Get implements backup.Store.
func (s *store) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	r, err := s.bucket.Get(ctx, name)
	if err != nil && s.bucket.IsObjNotFoundErr(err) {
		return nil, errors.WithMessagef(fs.ErrNotExist, "object %s in bucket %s", name, s.bucket.Name())
	}
	return r, err
}

// List implements backup.Store.
func (s *store) List(ctx context.Context, prefix string, yield func(name string, size int64) error) error {
	return s.bucket.Iter(ctx, prefix, func(name string) error {
		about, err := s.bucket.Attributes(ctx, name)
		if s.bucket.IsObjNotFoundErr(err) {
			return nil // it is gone again
		}
		if err != nil {
			return err
		}
		return yield(name, about.Size)
	}, objstore.WithRecursiveIter())
}

// Delete implements backup.Store.
func (s *store) Delete(ctx context.Context, name string) error {
	err := s.bucket.Delete(ctx, name)
	if err != nil && s.bucket.IsObjNotFoundErr(err) {
		return nil
	}
	return err
}
