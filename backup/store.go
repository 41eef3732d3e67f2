package backup

import (
	"context"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"time"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Store keeps objects by their names, whose parts are separated by slashes. It is safe for
// concurrent use.
type Store interface {
	// Put stores all that r has, or nothing. What has the name is replaced. Of large objects r has
	// a method ObjectSize() (int64, error): their length.
	Put(ctx context.Context, name string, r io.Reader) error
	// Get opens an object. fs.ErrNotExist: there is none.
	Get(ctx context.Context, name string) (io.ReadCloser, error)
	// List calls yield for each object whose name begins with prefix, which is empty or ends with a
	// slash, in any order.
	List(ctx context.Context, prefix string, yield func(name string, size int64) error) error
	// Delete removes an object, if it is there.
	Delete(ctx context.Context, name string) error
}

// locker is a store that can be kept for one writer. Others count on their users.
type locker interface {
	lock(now time.Time) (unlock func() error, err error)
}

// syncer is a store whose names must be made durable: what was put, or deleted, may have been put
// by a process that ended before it came to that.
type syncer interface {
	sync(prefixes []string) error
}

func syncStore(store Store, prefixes []string) error {
	if s, ok := store.(syncer); ok {
		return s.sync(prefixes)
	}
	return nil
}

// DirStore is a Store in a directory. Objects are on stable storage when Put returns.
type DirStore struct {
	fs  tsdb.FS
	dir string
}

// NewDirStore returns the store in a directory, which is made when something is put into it. A nil
// file system is that of the operating system.
func NewDirStore(dir string, fsys tsdb.FS) *DirStore {
	if fsys == nil {
		fsys = tsdb.DefaultOptions().FS
	}
	return &DirStore{fsys, dir}
}

// unfinished ends the names of objects that are being written.
const unfinished = ".tmp-backup"

func (s *DirStore) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// Put implements Store.
func (s *DirStore) Put(_ context.Context, name string, r io.Reader) error {
	final := s.path(name)
	if err := s.mkdir(filepath.Dir(final)); err != nil {
		return err
	}
	if err := fileutil.IgnoreNotExist(s.fs.Remove(final + unfinished)); err != nil {
		return err
	}
	if err := writeFile(s.fs, final+unfinished, r); err != nil {
		return err
	}
	if err := s.fs.Rename(final+unfinished, final); err != nil {
		return err
	}
	return s.fs.SyncDir(filepath.Dir(final))
}

// mkdir makes a directory of the store, durably.
func (s *DirStore) mkdir(dir string) error {
	if _, err := s.fs.Stat(dir); err == nil {
		return nil
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := s.mkdir(parent); err != nil {
			return err
		}
	}
	return fileutil.MkdirSync(s.fs, dir)
}

// writeFile makes a file of all that r has, and syncs it. On an error there is none.
func writeFile(fsys tsdb.FS, name string, r io.Reader) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, r); err == nil {
		err = f.Sync()
	}
	if err = fileutil.JoinErrors(err, f.Close()); err != nil {
		err = fileutil.JoinErrors(err, fsys.Remove(name))
	}
	return err
}

// Get implements Store.
func (s *DirStore) Get(_ context.Context, name string) (io.ReadCloser, error) {
	return openFile(s.fs, s.path(name))
}

// openFile opens a file to be read from its begin to its end.
func openFile(fsys tsdb.FS, name string) (io.ReadCloser, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, fileutil.JoinErrors(err, f.Close())
	}
	return fileReader{io.NewSectionReader(f, 0, size), f}, nil
}

type fileReader struct {
	io.Reader
	io.Closer
}

// List implements Store.
func (s *DirStore) List(ctx context.Context, prefix string, yield func(name string, size int64) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	entries, err := s.fs.ReadDir(s.path(prefix))
	if err != nil {
		return fileutil.IgnoreNotExist(err)
	}
	for _, e := range entries {
		name := path.Join(prefix, e.Name())
		if e.IsDir() {
			err = s.List(ctx, name+"/", yield)
		} else if size, failed := fileutil.EntrySize(e); failed != nil {
			err = fileutil.IgnoreNotExist(failed)
		} else {
			err = yield(name, size) // also what a crash left unfinished: no backup has it
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Delete implements Store.
func (s *DirStore) Delete(_ context.Context, name string) error {
	return fileutil.IgnoreNotExist(s.fs.Remove(s.path(name)))
}

// lock implements locker: ErrLocked for who comes second.
func (s *DirStore) lock(now time.Time) (unlock func() error, err error) {
	if err := s.mkdir(s.dir); err != nil {
		return nil, err
	}
	held, err := s.fs.LockDir(s.dir, fileutil.OwnerText(now))
	if err != nil {
		return nil, errors.WithMessagef(err, "write to the backups in %s", s.dir)
	}
	return held.Release, nil
}

// sync implements syncer.
func (s *DirStore) sync(prefixes []string) error {
	for _, prefix := range prefixes {
		if err := s.fs.SyncDir(s.path(prefix)); err != nil && !isGone(err) {
			return err
		}
	}
	return s.fs.SyncDir(filepath.Dir(filepath.Clean(s.dir)))
}

// isGone reports whether something is not there.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
