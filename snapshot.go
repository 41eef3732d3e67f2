package tsdb

import (
	"context"
	stderrors "errors"
	"io"
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/diskspace"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/wal"
)

// Snapshot makes a copy of the database in dir, which must not exist: everything that was
// committed before the call, and nothing of a commit that begins later. Files are linked
// where dir is on the same file system, and copied otherwise. Commits and queries go on
// meanwhile; deletes wait for a moment, and the head is not flushed before the end.
//
// When it returns nil the copy is on stable storage and opens like any data directory, by
// this library or the Prometheus TSDB. On an error, or a crash, there is no dir; a crash may
// leave a part of it as dir.tmp-snapshot, which the next Snapshot into dir removes, and Open if
// it is in the data directory.
//
// fs.ErrExist: there is something of one of these names. fs.ErrInvalid: a data directory would
// take dir for a part of itself, as it is called like a block or the log. ErrClosed,
// ErrReadOnly, ErrDiskFull, the context's, those of the file system.
func (db *DB) Snapshot(ctx context.Context, dir string) (err error) {
	ctx, done, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer done(&err)
	fsys := db.opts.FS
	if dir, err = fileutil.Abs(fsys, filepath.Clean(dir)); err != nil {
		return errors.WithMessage(err, "snapshot")
	}
	if err := datadir.CheckCopyTarget(fsys, db.dir, dir); err != nil {
		return err
	}
	if _, err := fsys.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return errors.WithMessagef(stderrors.Join(fs.ErrExist, err), "snapshot into %s", dir)
	}
	s := snapshotter{db: db, ctx: ctx, fs: fsys, dir: dir + datadir.CopySuffix}
	if err := s.removeLeftover(); err != nil {
		return err
	}
	err = s.run()
	if err == nil {
		err = fsys.Rename(s.dir, dir)
	}
	if err != nil {
		err = stderrors.Join(err, fileutil.RemoveAll(fsys, s.dir))
	} else if err = fsys.SyncDir(filepath.Dir(dir)); err != nil {
		err = stderrors.Join(err, fileutil.RemoveAll(fsys, dir))
	}
	if err == nil {
		return nil
	}
	bytes, sizeErr := fileutil.TreeSize(fsys, db.dir) // at most: what is linked takes nothing
	return stderrors.Join(diskspace.WhileWriting(fsys, filepath.Dir(dir), "snapshot into "+dir, bytes, err), sizeErr)
}

// removeLeftover removes what an interrupted Snapshot into the same directory left. What somebody
// else has put there stays.
func (s *snapshotter) removeLeftover() error {
	_, err := s.fs.Stat(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ours := false
	if err == nil {
		ours, err = datadir.IsCopy(s.fs, s.dir)
	}
	if err != nil {
		return errors.WithMessagef(err, "look into %s", s.dir)
	}
	if !ours {
		return errors.WithMessagef(fs.ErrExist, "snapshot by way of %s, which is not what a snapshot leaves", s.dir)
	}
	return fileutil.RemoveAll(s.fs, s.dir)
}

// snapshotter is one Snapshot under way.
type snapshotter struct {
	db     *DB
	ctx    context.Context
	fs     FS
	dir    string // of the copy
	blocks []viewBlock
	upTo   int        // log segments up to this one belong to the copy
	end    chunks.Ref // and head chunks before this place
}

func (s *snapshotter) run() error {
	if err := fileutil.MkdirSync(s.fs, s.dir); err != nil {
		return err
	}
	// While this is held the log's segments and the chunk files stay.
	s.db.flushing.Lock()
	defer s.db.flushing.Unlock()
	err := s.fix()
	defer func() {
		for _, b := range s.blocks {
			b.copied.Add(-1)
			b.release()
		}
	}()
	if err != nil {
		return err
	}
	for _, step := range []func() error{s.copyLog, s.copyHeadChunks, s.copyBlocks} {
		if err := step(); err != nil {
			return err
		}
	}
	return s.fs.SyncDir(s.dir)
}

// fix decides, at one moment, what belongs to the copy. What may change later, the small
// files of blocks, is copied at once.
func (s *snapshotter) fix() error {
	bs := s.db.blocks
	bs.change.Lock()
	defer bs.change.Unlock()
	log, err := s.db.head.writable()
	if err != nil {
		return err
	}
	// The chunks first: what they have the log has, too.
	s.end = s.db.head.chunks.End()
	segment, err := log.Rotate()
	if err != nil {
		return err
	}
	// Not every policy has synced the segments that are linked.
	if err := log.Sync(); err != nil {
		return err
	}
	s.upTo = segment - 1
	for _, b := range bs.current().blocks {
		b.pin()
		b.copied.Add(1)
		s.blocks = append(s.blocks, b)
		if err := s.copyTree(b.dir.Path(), blockdir.Path(s.dir, b.meta.ULID), false); err != nil {
			return err
		}
	}
	return nil
}

// copyLog takes the checkpoint and the segments.
func (s *snapshotter) copyLog() error {
	from, to := filepath.Join(s.db.dir, walDirName), filepath.Join(s.dir, walDirName)
	listing, err := wal.List(s.fs, from)
	if err != nil {
		return err
	}
	if err := fileutil.MkdirSync(s.fs, to); err != nil {
		return err
	}
	if listing.CheckpointDir != "" {
		if err := s.copyTree(listing.CheckpointDir, filepath.Join(to, filepath.Base(listing.CheckpointDir)), true); err != nil {
			return err
		}
	}
	for _, seg := range listing.Segments {
		if seg.Number > s.upTo {
			break
		}
		if err := s.copyFile(seg.Path, filepath.Join(to, filepath.Base(seg.Path))); err != nil {
			return err
		}
	}
	return s.fs.SyncDir(to)
}

// copyHeadChunks takes the head-chunk files; the one that is being written only as far as
// it went.
func (s *snapshotter) copyHeadChunks() error {
	from, to := filepath.Join(s.db.dir, datadir.HeadChunksDir), filepath.Join(s.dir, datadir.HeadChunksDir)
	entries, err := s.fs.ReadDir(from)
	if err != nil {
		return fileutil.IgnoreNotExist(err)
	}
	if err := fileutil.MkdirSync(s.fs, to); err != nil {
		return err
	}
	for _, e := range entries {
		number, err := strconv.ParseUint(e.Name(), 10, 32)
		if err != nil || uint32(number) > s.end.File() {
			continue
		}
		src, dst := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if uint32(number) < s.end.File() {
			err = s.copyFile(src, dst)
		} else {
			err = copyStart(s.fs, src, dst, int64(s.end.Offset()))
		}
		if err != nil {
			return err
		}
	}
	return s.fs.SyncDir(to)
}

// copyBlocks takes the directories below the blocks: their chunks.
func (s *snapshotter) copyBlocks() error {
	for _, b := range s.blocks {
		to := blockdir.Path(s.dir, b.meta.ULID)
		entries, err := s.fs.ReadDir(b.dir.Path())
		if err != nil {
			return err
		}
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			if err := s.copyTree(filepath.Join(b.dir.Path(), e.Name()), filepath.Join(to, e.Name()), true); err != nil {
				return err
			}
		}
		if err := s.fs.SyncDir(to); err != nil {
			return err
		}
	}
	return nil
}

// copyTree copies the files of a directory, and with deep those below it.
func (s *snapshotter) copyTree(from, to string, deep bool) error {
	entries, err := s.fs.ReadDir(from)
	if err != nil {
		return err
	}
	if err := s.fs.MkdirAll(to); err != nil {
		return err
	}
	for _, e := range entries {
		src, dst := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		switch {
		case !e.IsDir():
			err = s.copyFile(src, dst)
		case deep:
			err = s.copyTree(src, dst, deep)
		}
		if err != nil {
			return err
		}
	}
	return s.fs.SyncDir(to)
}

// copyFile links a file that is never changed in place, or copies it.
func (s *snapshotter) copyFile(from, to string) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	if s.fs.Link(from, to) == nil {
		return nil
	}
	return fileutil.CopyFile(s.fs, from, to)
}

// copyStart copies the first n bytes of a file, synced.
func copyStart(fsys FS, from, to string, n int64) (err error) {
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
