package ship

import (
	"bytes"
	"context"
	"io"
	"path"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"
	"github.com/thanos-io/objstore"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// maxMetaSize bounds what is read of a meta file in the bucket.
const maxMetaSize = 64 << 20

// settle judges the blocks by what was uploaded. What the state file does not say, the bucket does:
// all of it if there is no such file, or if the bucket lacks a block that an earlier process may
// have uploaded without writing that down.
func (s *Shipper) settle(ctx context.Context, f *found) error {
	s.judgeAll(f)
	ask := s.unsure && len(f.due()) > 0
	for _, b := range f.due() {
		in, err := s.inBucket(ctx, b.id)
		if err == nil && !in && writtenAnew(&b.meta) {
			in, err = s.inBucket(ctx, b.meta.Compaction.Sources[0])
		}
		switch {
		case err != nil:
			return err
		case in:
			s.remember(namesOf(&b.meta)...)
		case s.doubted[b.id]:
			ask = true
		}
	}
	if ask {
		if err := s.ask(ctx, f); err != nil {
			return err
		}
		s.unsure = false
		s.unsaved.Store(true)
		clear(s.doubted)
	}
	if s.unsaved.Load() {
		_ = s.save() // it is told at the end: what follows may make room
	}
	s.decide(f)
	for _, b := range f.blocks {
		if b.held && !b.due {
			if err := s.release(b.id); err != nil {
				return err
			}
		}
	}
	return nil
}

// remember notes that blocks are in the bucket, and what they were made of: what is merged of them
// here has other names.
func (s *Shipper) remember(ids ...ulid.ULID) {
	s.unsaved.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.mu.uploaded[id] = true
	}
}

// inBucket tells whether the bucket has a block, whole: its meta file is there and can be read. A
// part of one, as a kill leaves in a bucket that is a directory, is none.
func (s *Shipper) inBucket(ctx context.Context, id ulid.ULID) (bool, error) {
	m, err := s.readBucketMeta(ctx, id)
	return m != nil && m.ULID == id, err
}

// readBucketMeta reads the meta file of a block in the bucket; nil if there is none that is whole.
func (s *Shipper) readBucketMeta(ctx context.Context, id ulid.ULID) (*blockdir.Meta, error) {
	name := path.Join(id.String(), metaFile)
	r, err := s.bucket.Get(ctx, name)
	if err != nil {
		if s.bucket.IsObjNotFoundErr(err) {
			return nil, nil
		}
		return nil, errors.WithMessagef(err, "get %s", name)
	}
	text, err := io.ReadAll(io.LimitReader(r, maxMetaSize))
	if err := fileutil.JoinErrors(err, r.Close()); err != nil {
		return nil, errors.WithMessagef(err, "get %s", name)
	}
	m, err := blockdir.DecodeMeta(text)
	if err != nil {
		return nil, nil
	}
	if _, err := decodeThanos(m.Extra.Meta[thanosField]); err != nil {
		return nil, nil
	}
	return &m, nil
}

// ask remembers what the blocks of the bucket were made of. Thanos merges them, and removes what
// it has merged, so the name of a block alone does not tell. Blocks that were made long before the
// oldest of ours, and before what those were made of, have nothing of it.
func (s *Shipper) ask(ctx context.Context, f *found) error {
	const slack = 24 * 60 * 60 * 1000 // ms, between the clocks of two machines
	oldest := ulid.MaxTime()
	for _, b := range f.due() {
		for _, id := range namesOf(&b.meta) {
			oldest = min(oldest, id.Time())
		}
	}
	var ids []ulid.ULID
	err := s.bucket.Iter(ctx, "", func(name string) error {
		id, ok := blockdir.ParseName(strings.TrimSuffix(name, objstore.DirDelim))
		if ok && id.Time()+slack >= oldest {
			ids = append(ids, id)
		}
		return nil
	})
	if err != nil {
		return errors.WithMessage(err, "list the bucket")
	}
	for _, id := range ids {
		m, err := s.readBucketMeta(ctx, id)
		if err != nil {
			return err
		}
		if m != nil {
			s.remember(namesOf(m)...)
		}
	}
	return nil
}

// parts returns the sizes of the objects of a block that are in the bucket, and whole. Where an
// object may be there in part, only those count that this process uploaded.
func (s *Shipper) parts(ctx context.Context, id ulid.ULID) (map[string]int64, error) {
	sizes := map[string]int64{}
	err := s.bucket.Iter(ctx, id.String()+objstore.DirDelim, func(name string) error {
		if s.bucket.Provider() == objstore.FILESYSTEM {
			if _, whole := s.sent[name]; !whole {
				return nil
			}
		}
		about, err := s.bucket.Attributes(ctx, name)
		if err != nil && s.bucket.IsObjNotFoundErr(err) {
			return nil
		}
		sizes[name] = about.Size
		return err
	}, objstore.WithRecursiveIter())
	return sizes, errors.WithMessage(err, "list the bucket")
}

// upload uploads what is in memory.
func (s *Shipper) upload(ctx context.Context, name string, text []byte) error {
	return errors.WithMessagef(s.bucket.Upload(ctx, name, bytes.NewReader(text)), "upload %s", name)
}
