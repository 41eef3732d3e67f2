package ship

import (
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Files of a block, here and in the bucket.
const (
	metaFile  = "meta.json"
	indexFile = "index"
	chunksDir = "chunks"
)

// holdPath is where blocks are held, below the data directory, as Thanos' own uploader does. No
// reader of data directories looks there.
func (s *Shipper) holdPath() string { return filepath.Join(s.dir, "thanos", "upload") }

// heldBlocks returns the blocks that are held, and which of them an earlier process has held: those
// only once. It removes what is left of others. The meta file is written last, and says which other
// files there are.
func (s *Shipper) heldBlocks() (held map[ulid.ULID]blockdir.Meta, others []ulid.ULID, _ error) {
	s.holding.Lock()
	defer s.holding.Unlock()
	ids, err := blockdir.List(s.o.FS, s.holdPath())
	if err != nil {
		return nil, nil, fileutil.IgnoreNotExist(err)
	}
	held = map[ulid.ULID]blockdir.Meta{}
	for _, id := range ids {
		m, err := s.readHeldLocked(id)
		if isBroken(err) {
			if err := s.releaseLocked(id); err != nil {
				return nil, nil, err
			}
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		held[id] = m
		if !s.held[id] {
			others = append(others, id)
			s.held[id] = true
		}
	}
	return held, others, nil
}

// readHeldLocked reads the meta file of a block that is held, and sees that the others are there.
// s.holding is held.
func (s *Shipper) readHeldLocked(id ulid.ULID) (blockdir.Meta, error) {
	dir := blockdir.Path(s.holdPath(), id)
	m, err := blockdir.ReadMeta(s.o.FS, dir)
	if err != nil {
		return m, err
	}
	of, err := decodeThanos(m.Extra.Meta[thanosField])
	if err != nil {
		return m, fileutil.Meaning(tsdb.ErrCorrupt, err)
	}
	there, err := s.listFiles(dir)
	if err != nil {
		return m, err
	}
	if !slices.Equal(of.Files, append(there, file{Path: metaFile})) {
		return m, errors.WithMessagef(tsdb.ErrCorrupt, "files of %s are missing", dir)
	}
	return m, nil
}

// isBroken tells whether what is held of a block is of no use, by the error of reading it. Other
// errors may pass, and it may be the last there is of the block.
func isBroken(err error) bool { return isGone(err) || errors.Is(err, tsdb.ErrCorrupt) }

// listFiles lists what is uploaded of a block before its meta file: chunks, and the index.
func (s *Shipper) listFiles(dir string) (files []file, err error) {
	entries, err := s.o.FS.ReadDir(filepath.Join(dir, chunksDir))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() || strings.Trim(e.Name(), "0123456789") != "" {
			continue // of somebody else
		}
		files = append(files, file{Path: path.Join(chunksDir, e.Name())})
		if want := fmt.Sprintf("%06d", len(files)); e.Name() != want {
			return nil, errors.WithMessagef(tsdb.ErrCorrupt, "chunks/%s is missing in %s", want, dir)
		}
	}
	if len(files) == 0 {
		return nil, errors.WithMessagef(tsdb.ErrCorrupt, "no chunks in %s", dir)
	}
	files = append(files, file{Path: indexFile})
	for i := range files {
		info, err := s.o.FS.Stat(filepath.Join(dir, filepath.FromSlash(files[i].Path)))
		if err != nil {
			return nil, err
		}
		files[i].Size = info.Size()
	}
	return files, nil
}

// sight is told of a new block: it is held at once, whatever becomes of it, and Run is woken.
func (s *Shipper) sight(m tsdb.BlockMeta) {
	if !s.Keep(m) {
		return
	}
	if _, err := s.hold(m.ULID); err != nil && !errors.Is(err, errGone) {
		s.o.Logger.Warn("block is not held", "block", m.ULID.String(), "error", fileutil.Logged(err))
	}
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
}

// holdDue holds what is to be uploaded, before the bucket is asked, which may take long. Errors come
// again when a block is uploaded, and are told then.
func (s *Shipper) holdDue(f *found) {
	s.decide(f)
	for _, b := range f.due() {
		dir, err := s.hold(b.id)
		b.held = b.held || err == nil && dir != blockdir.Path(s.dir, b.id)
	}
}

// hold holds a block, if it is not held, and returns where its files are from now on: in its own
// place where it cannot be held, as on a full disk or without links. errGone: it was removed;
// tsdb.ErrCorrupt: it is not whole.
func (s *Shipper) hold(id ulid.ULID) (dir string, err error) {
	s.holding.Lock()
	defer s.holding.Unlock()
	dir, from := blockdir.Path(s.holdPath(), id), blockdir.Path(s.dir, id)
	if _, err := s.readHeldLocked(id); err == nil || !isBroken(err) {
		return dir, err
	}
	if err := s.releaseLocked(id); err != nil {
		return "", err
	}
	m, err := blockdir.ReadMeta(s.o.FS, from)
	if err != nil {
		return "", s.damaged(id, from, err)
	}
	files, err := s.listFiles(from)
	if err != nil {
		return "", s.damaged(id, from, err)
	}
	err = s.linkLocked(id, m, files)
	switch {
	case err == nil:
		return dir, nil
	case isGone(err):
		return "", s.damaged(id, from, err)
	case !s.unheld[id]:
		s.o.Logger.Warn("block is not held while it is uploaded", "block", id.String(), "error", fileutil.Logged(err))
		s.unheld[id] = true
	}
	return from, nil
}

// linkLocked holds a block, or leaves nothing. s.holding is held.
func (s *Shipper) linkLocked(id ulid.ULID, m blockdir.Meta, files []file) (err error) {
	dir, from := blockdir.Path(s.holdPath(), id), blockdir.Path(s.dir, id)
	defer func() {
		if err != nil {
			err = fileutil.JoinErrors(err, s.releaseLocked(id))
		}
	}()
	if err := s.o.FS.MkdirAll(filepath.Join(dir, chunksDir)); err != nil {
		return err
	}
	for _, f := range files {
		name := filepath.FromSlash(f.Path)
		if err := s.o.FS.Link(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	text, err := s.encodeMeta(m, files, indexStats{})
	if err != nil {
		return err
	}
	name := filepath.Join(dir, metaFile)
	if err := fileutil.WriteFileAtomic(s.o.FS, name+".tmp", name, text); err != nil {
		return err
	}
	s.held[id] = true
	delete(s.unheld, id)
	return nil
}

// release lets go of a block.
func (s *Shipper) release(id ulid.ULID) error {
	s.holding.Lock()
	defer s.holding.Unlock()
	delete(s.unheld, id)
	return s.releaseLocked(id)
}

// releaseLocked is release; s.holding is held. The meta file goes first: what is left without it is
// not held.
func (s *Shipper) releaseLocked(id ulid.ULID) error {
	dir := blockdir.Path(s.holdPath(), id)
	delete(s.held, id)
	if err := s.o.FS.Remove(filepath.Join(dir, metaFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.WithMessage(err, "let go of a block")
	}
	return errors.WithMessage(fileutil.RemoveAll(s.o.FS, dir), "let go of a block")
}
