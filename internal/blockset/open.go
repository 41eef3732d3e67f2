package blockset

import (
	"context"
	"runtime"
	"sync"

	"github.com/oklog/ulid/v2"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// opener opens directories of blocks, and finishes in them what was left undone.
type opener struct {
	*Config
	leavers *leavers // which see blocks off
}

// loaded is what came of opening one directory.
type loaded struct {
	id  ulid.ULID
	dir *blockdir.Dir
	err error
}

// openAll opens directories, one per CPU at a time.
func (o *opener) openAll(ids []ulid.ULID) []loaded {
	results := make([]loaded, len(ids))
	work := make(chan int, len(ids))
	for i := range ids {
		work <- i
	}
	close(work)
	var wg sync.WaitGroup
	for range min(len(ids), runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			for i := range work {
				dir, err := o.open(ids[i])
				results[i] = loaded{ids[i], dir, err}
			}
		})
	}
	wg.Wait()
	return results
}

// open opens a directory, looks whether it is in order, and mends what is no damage.
func (o *opener) open(id ulid.ULID) (*blockdir.Dir, error) {
	path := blockdir.Path(o.Dir, id)
	read := blockdir.Open
	if o.ReadOnly {
		read = blockdir.OpenReadOnly
	}
	dir, err := read(o.FS, path)
	if err != nil {
		return nil, err
	}
	if err := o.look(dir); err != nil {
		return nil, fileutil.JoinErrors(err, dir.Close())
	}
	if !o.ReadOnly {
		o.renewSidecar(dir)
		o.tidy(dir)
	}
	return dir, nil
}

// tidy removes what a crash left of changes of a block. It does no harm there, so a failure is
// only told.
func (o *opener) tidy(dir *blockdir.Dir) {
	if o.Busy {
		return // who brings blocks may be changing this one
	}
	if err := blockdir.RemoveTemporary(o.FS, dir.Path()); err != nil {
		o.Logger.Warn("remove leftovers in block", "block", dir.Path(), "error", fileutil.Logged(err))
	}
}

// renewSidecar writes the sidecar of a block that somebody else has written, or whose meta file
// somebody has: the checksum of the meta file, and whether the block is in order. Without it the
// block is as good, so a failure is only told.
func (o *opener) renewSidecar(dir *blockdir.Dir) {
	if !dir.NeedsSidecar() && dir.InOrder() == dir.Proven() {
		return
	}
	if err := blockdir.RenewSidecar(o.FS, dir.Path(), dir.Meta(), dir.Proven()); err != nil {
		o.Logger.Warn("write checksum of meta file", "block", dir.Path(), "error", fileutil.Logged(err))
	}
}

// block wraps a directory that was opened.
func (o *opener) block(dir *blockdir.Dir) Block {
	meta := dir.Meta()
	b := Block{opened: newOpened(dir, o.leavers), Meta: &meta, Size: dir.SizeBytes(), Deleted: dir.Tombstones()}
	b.noteDeleted(context.Background())
	return b
}

// refuse asks what becomes of a directory that cannot be opened as a block.
func (o *opener) refuse(r loaded, refused func(id ulid.ULID, why error) error) error {
	other, err := datadir.IsNested(o.FS, blockdir.Path(o.Dir, r.id))
	if err != nil {
		return err
	}
	if other {
		return refused(r.id, datadir.ErrNotBlock)
	}
	return refused(r.id, r.err)
}
