package backfill

import (
	stderrors "errors"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/clock"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/wal"
)

// Place is a directory of somebody's own in a data directory, locked, for the runs of a Store and
// for its blocks until all of them are there.
type Place struct {
	FS  fileutil.FS // refuses, wal.ErrPoisoned, once the directory is not where it was
	Tmp string      // the directory

	dataDir string
	bare    fileutil.FS
	lock    fileutil.DirLock
}

// OpenPlace makes a Place, and the data directory, whose path is absolute, if there is none.
// datadir.ErrNotDataDir, unless it may be any directory.
func OpenPlace(fsys fileutil.FS, dataDir string, anyDirectory bool, c clock.Clock) (*Place, error) {
	if err := fileutil.MkdirSync(fsys, dataDir); err != nil {
		return nil, errors.WithMessagef(err, "create data directory %s", dataDir)
	}
	if err := datadir.Check(fsys, dataDir, anyDirectory); err != nil {
		return nil, err
	}
	p := &Place{dataDir: dataDir, bare: fsys}
	p.Tmp = filepath.Join(dataDir, datadir.BackfillPrefix+blockdir.NewULID(c.Now()).String())
	if err := fsys.MkdirAll(p.Tmp); err != nil {
		return nil, errors.WithMessage(err, "create directory of a block writer")
	}
	var err error
	if p.lock, err = fsys.LockDir(p.Tmp, datadir.Owner()); err != nil {
		return nil, stderrors.Join(errors.WithMessage(err, "create directory of a block writer"), fileutil.RemoveAll(fsys, p.Tmp))
	}
	// When the data directory is moved, so is this one, and nothing is written any more.
	p.FS = fileutil.Held(fsys, p.check)
	return p, nil
}

// check returns wal.ErrPoisoned when the directory is not where it was.
func (p *Place) check() error {
	err := p.lock.Check()
	if errors.Is(err, fileutil.ErrLockLost) {
		return fileutil.Meaning(wal.ErrPoisoned, errors.WithMessagef(err, "data directory %s was moved or replaced while blocks were written for it", p.dataDir))
	}
	return err
}

// Close removes the directory, with what is left in it.
func (p *Place) Close() error {
	return stderrors.Join(p.lock.Release(), fileutil.RemoveAll(p.bare, p.Tmp))
}
