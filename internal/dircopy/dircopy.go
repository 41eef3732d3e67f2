// Package dircopy copies the parts of a data directory into another one, which is there when it is
// whole. Files that never change are linked where that is possible, the others are copied, and each
// directory is synced. It knows which files a part has. What belongs to a copy, and at which
// moment, is for who holds the parts still meanwhile: the root.
//
// A Copier is for one goroutine.
package dircopy

import (
	"context"
	stderrors "errors"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/wal"
)

// Copier copies from one directory to another one. The context ends it between two files.
type Copier struct {
	ctx      context.Context
	fs       fileutil.FS
	from, to string
}

// Make copies what fill says from one directory to another, which must not exist: fs.ErrExist. When
// it returns nil the copy is on stable storage. On an error, or a crash, there is none; a crash may
// leave a part of it under the name with datadir.CopySuffix, which the next Make removes.
func Make(ctx context.Context, fsys fileutil.FS, from, to string, fill func(*Copier) error) error {
	if err := datadir.CheckCopyTarget(fsys, from, to); err != nil {
		return err
	}
	if _, err := fsys.Stat(to); !errors.Is(err, fs.ErrNotExist) {
		return errors.WithMessagef(stderrors.Join(fs.ErrExist, err), "snapshot into %s", to)
	}
	c := &Copier{ctx: ctx, fs: fsys, from: from, to: to + datadir.CopySuffix}
	if err := removeLeftover(fsys, c.to); err != nil {
		return err
	}
	err := c.fill(fill)
	if err == nil {
		err = fsys.Rename(c.to, to)
	}
	if err != nil {
		err = stderrors.Join(err, fileutil.RemoveAll(fsys, c.to))
	} else if err = fsys.SyncDir(filepath.Dir(to)); err != nil {
		err = stderrors.Join(err, fileutil.RemoveAll(fsys, to))
	}
	if err == nil {
		return nil
	}
	bytes, sizeErr := fileutil.TreeSize(fsys, from) // at most: what is linked takes nothing
	return stderrors.Join(diskspace.WhileWriting(fsys, filepath.Dir(to), "snapshot into "+to, bytes, err), sizeErr)
}

// fill makes the directory with all its parts, synced.
func (c *Copier) fill(parts func(*Copier) error) error {
	if err := fileutil.MkdirSync(c.fs, c.to); err != nil {
		return err
	}
	if err := parts(c); err != nil {
		return err
	}
	return c.fs.SyncDir(c.to)
}

// removeLeftover removes what an interrupted copy by way of the same directory left. What somebody
// else has put there stays: fs.ErrExist.
func removeLeftover(fsys fileutil.FS, dir string) error {
	_, err := fsys.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ours := false
	if err == nil {
		ours, err = datadir.IsCopy(fsys, dir)
	}
	if err != nil {
		return errors.WithMessagef(err, "look into %s", dir)
	}
	if !ours {
		return errors.WithMessagef(fs.ErrExist, "snapshot by way of %s, which is not what a snapshot leaves", dir)
	}
	return fileutil.RemoveAll(fsys, dir)
}

// Parts are what of a data directory belongs to a copy.
type Parts struct {
	UpTo   int         // segments of the log, up to this one
	Late   int         // segments of the out-of-order log, before this one; 0: there is none
	End    chunks.Ref  // head chunks before this place
	Blocks []ulid.ULID // for which BlockFiles was called
}

// Parts copies all parts but what BlockFiles has.
func (c *Copier) Parts(p *Parts) error {
	err := c.Log(datadir.WALDir, p.UpTo)
	if err == nil && p.Late > 0 {
		err = c.Log(datadir.WBLDir, p.Late-1)
	}
	if err != nil {
		return err
	}
	if err := c.HeadChunks(p.End); err != nil {
		return err
	}
	for _, id := range p.Blocks {
		if err := c.BlockChunks(id); err != nil {
			return err
		}
	}
	return nil
}

// Log copies the checkpoint of a log, in datadir.WALDir or WBLDir, and the segments up to one.
func (c *Copier) Log(name string, upTo int) error {
	from, to := filepath.Join(c.from, name), filepath.Join(c.to, name)
	listing, err := wal.List(c.fs, from)
	if err != nil {
		return err
	}
	if err := fileutil.MkdirSync(c.fs, to); err != nil {
		return err
	}
	if listing.CheckpointDir != "" {
		if err := c.copyTree(listing.CheckpointDir, filepath.Join(to, filepath.Base(listing.CheckpointDir)), true); err != nil {
			return err
		}
	}
	for _, seg := range listing.Segments {
		if seg.Number > upTo {
			break
		}
		if err := c.copyFile(seg.Path, filepath.Join(to, filepath.Base(seg.Path))); err != nil {
			return err
		}
	}
	return c.fs.SyncDir(to)
}

// HeadChunks copies the head-chunk files up to a place in one of them, which may be growing.
func (c *Copier) HeadChunks(end chunks.Ref) error {
	from, to := filepath.Join(c.from, datadir.HeadChunksDir), filepath.Join(c.to, datadir.HeadChunksDir)
	entries, err := c.fs.ReadDir(from)
	if err != nil {
		return fileutil.IgnoreNotExist(err)
	}
	if err := fileutil.MkdirSync(c.fs, to); err != nil {
		return err
	}
	for _, e := range entries {
		number, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil || uint32(number) > end.File() {
			continue
		}
		src, dst := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if uint32(number) < end.File() {
			err = c.copyFile(src, dst)
		} else {
			err = copyStart(c.fs, src, dst, int64(end.Offset()))
		}
		if err != nil {
			return err
		}
	}
	return c.fs.SyncDir(to)
}

// BlockFiles copies the files of a block that may be replaced: those in none of its directories.
func (c *Copier) BlockFiles(id ulid.ULID) error {
	return c.copyTree(blockdir.Path(c.from, id), blockdir.Path(c.to, id), false)
}

// BlockChunks copies the directories below a block: its chunks. BlockFiles comes before.
func (c *Copier) BlockChunks(id ulid.ULID) error {
	from, to := blockdir.Path(c.from, id), blockdir.Path(c.to, id)
	entries, err := c.fs.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if err := c.copyTree(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()), true); err != nil {
			return err
		}
	}
	return c.fs.SyncDir(to)
}

// copyTree copies the files of a directory, and with deep those below it.
func (c *Copier) copyTree(from, to string, deep bool) error {
	entries, err := c.fs.ReadDir(from)
	if err != nil {
		return err
	}
	if err := c.fs.MkdirAll(to); err != nil {
		return err
	}
	for _, e := range entries {
		src, dst := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch {
		case !e.IsDir():
			err = c.copyFile(src, dst)
		case deep:
			err = c.copyTree(src, dst, deep)
		}
		if err != nil {
			return err
		}
	}
	return c.fs.SyncDir(to)
}

// copyFile links a file that is never changed in place, or copies it.
func (c *Copier) copyFile(from, to string) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	if c.fs.Link(from, to) == nil {
		return nil
	}
	return fileutil.CopyFile(c.fs, from, to)
}

// copyStart copies the first n bytes of a file, synced.
func copyStart(fsys fileutil.FS, from, to string, n int64) (err error) {
	src, err := fsys.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = stderrors.Join(err, src.Close()) }()
	dst, err := fsys.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, io.NewSectionReader(src, 0, n))
	if err == nil {
		err = dst.Sync()
	}
	return stderrors.Join(err, dst.Close())
}
