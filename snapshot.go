package tsdb

import (
	"context"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockset"
	"github.com/seed347100a3/tsdb/internal/dircopy"
	"github.com/seed347100a3/tsdb/internal/fileutil"
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
	s := snapshotter{db: db}
	return dircopy.Make(ctx, fsys, db.dir, dir, s.copy)
}

// snapshotter is one Snapshot under way.
type snapshotter struct {
	db     *DB
	to     *dircopy.Copier
	blocks []blockset.Block
	parts  dircopy.Parts
}

func (s *snapshotter) copy(to *dircopy.Copier) error {
	s.to = to
	// While this is held the log's segments and the chunk files stay.
	s.db.flushing.Lock()
	defer s.db.flushing.Unlock()
	err := s.fix()
	defer func() {
		for _, b := range s.blocks {
			b.ReleaseCopy()
		}
	}()
	if err != nil {
		return err
	}
	return s.to.Parts(&s.parts)
}

// fix decides, at one moment, what belongs to the copy. What may change later, the small
// files of blocks, is copied at once.
func (s *snapshotter) fix() error {
	s.db.blocks.Lock()
	defer s.db.blocks.Unlock()
	log, err := s.db.head.writable()
	if err != nil {
		return err
	}
	// The chunks first: what they have the log has, too.
	s.parts.End = s.db.head.chunks.End()
	segment, err := log.Rotate()
	if err != nil {
		return err
	}
	// Not every policy has synced the segments that are linked.
	if err := log.Sync(); err != nil {
		return err
	}
	s.parts.UpTo = segment - 1
	// Behind the log, which says what counts of it.
	if s.parts.Late, err = s.db.head.late.log.Cut(); errors.Is(err, ErrPoisoned) {
		s.db.head.poison(err)
	}
	if err != nil {
		return err
	}
	for _, b := range s.db.blocks.Current().Blocks {
		b.PinForCopy()
		s.blocks, s.parts.Blocks = append(s.blocks, b), append(s.parts.Blocks, b.Meta.ULID)
		if err := s.to.BlockFiles(b.Meta.ULID); err != nil {
			return err
		}
	}
	return nil
}
