package ship

import (
	"context"
	"io"
	"path"
	"path/filepath"
	"strings"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb"
	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// ship uploads a block, and returns how many: 1 or none.
func (s *Shipper) ship(ctx context.Context, b *block) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	dir, err := s.hold(b.id)
	if err != nil {
		return 0, err
	}
	err = s.files(ctx, b, dir)
	s.mu.Lock()
	switch {
	case err == nil:
		s.mu.stats.Uploads++
	case !errors.Is(err, errGone):
		s.mu.stats.UploadFailures++
	}
	s.mu.Unlock()
	switch {
	case err == nil:
		s.remember(namesOf(&b.meta)...)
		s.forget(b)
		s.o.Logger.Info("block is uploaded", "block", b.id.String(), "mint", b.meta.MinTime, "maxt", b.meta.MaxTime)
		_ = s.save() // Sync tells, if it fails at the end, too: what is let go of makes room
		return 1, s.release(b.id)
	case errors.Is(err, errUnsuited), errors.Is(err, tsdb.ErrCorrupt):
		return 0, fileutil.JoinErrors(err, s.withdraw(ctx, b, dir), s.release(b.id))
	}
	return 0, err
}

// files uploads the files of a block, the meta file last.
func (s *Shipper) files(ctx context.Context, b *block, dir string) error {
	files, err := s.listFiles(dir)
	if err != nil {
		return s.damaged(b.id, dir, err)
	}
	there, err := s.parts(ctx, b.id)
	if err != nil {
		return err
	}
	total := int64(0)
	for _, f := range files {
		total += f.Size
	}
	s.mu.Lock()
	s.mu.stats.Block, s.mu.stats.Done, s.mu.stats.Total = b.id, 0, total
	s.mu.Unlock()
	stats, all, skipped := indexStats{}, true, false
	for _, f := range files {
		name := path.Join(b.id.String(), f.Path)
		if size, whole := there[name]; whole && size == f.Size {
			s.progress(f.Size, 0)
			all, skipped = all && f.Path == indexFile, true
			continue
		}
		largest, err := s.file(ctx, b.id, dir, f)
		if err != nil {
			return err
		}
		s.sent[name] = f.Size
		stats.ChunkMaxSize = max(stats.ChunkMaxSize, largest)
	}
	if !all {
		stats = indexStats{}
	}
	if skipped {
		if err := s.recheck(ctx, b.id, files); err != nil {
			return err
		}
	}
	m, err := blockdir.ReadMeta(s.o.FS, dir)
	if err != nil {
		return s.damaged(b.id, dir, err)
	}
	text, err := s.encodeMeta(m, files, stats)
	if err != nil {
		return err
	}
	s.doubted[b.id] = true
	if err := s.upload(ctx, path.Join(b.id.String(), metaFile), text); err != nil {
		return err
	}
	delete(s.doubted, b.id)
	return nil
}

// recheck sees that all files of a block are in the bucket but the meta file. Thanos removes what is
// there of a block that nobody has completed in two days; it may do so while the rest is uploaded.
func (s *Shipper) recheck(ctx context.Context, id ulid.ULID, files []file) error {
	there, err := s.parts(ctx, id)
	if err != nil {
		return err
	}
	for _, f := range files {
		name := path.Join(id.String(), f.Path)
		if size, in := there[name]; !in || size != f.Size {
			delete(s.sent, name)
			return errors.Errorf("%s was removed from the bucket meanwhile", name)
		}
	}
	return nil
}

// file uploads a file, which is read once, past the page cache where that can be done: the pages
// of a new block are of more use to queries. It returns the size of the largest chunk.
func (s *Shipper) file(ctx context.Context, id ulid.ULID, dir string, f file) (largest int64, err error) {
	name, from := path.Join(id.String(), f.Path), filepath.Join(dir, filepath.FromSlash(f.Path))
	r, size, err := s.open(from)
	if err != nil {
		return 0, s.damaged(id, dir, err)
	}
	st := &stream{ctx: ctx, s: s, r: r, file: from, size: size}
	chunks := &scanner{}
	if st.scan = chunks; f.Path == indexFile {
		st.scan = &indexScanner{}
	}
	err = s.bucket.Upload(ctx, name, st)
	switch {
	case st.err != nil: // the bucket's error may have lost it
		err = st.err
	case err == nil && st.off != size:
		err = errors.Errorf("the bucket took %d of %d bytes", st.off, size)
	}
	if err = fileutil.JoinErrors(err, r.Close()); err != nil {
		return 0, errors.WithMessagef(err, "upload %s", name)
	}
	return chunks.largest, nil
}

func (s *Shipper) open(name string) (io.ReadCloser, int64, error) {
	r, size, err := fileutil.OpenDirect(s.o.FS, name)
	if !errors.Is(err, fileutil.ErrUnsupported) {
		return r, size, err
	}
	f, err := s.o.FS.Open(name)
	if err != nil {
		return nil, 0, err
	}
	if size, err = f.Size(); err != nil {
		return nil, 0, fileutil.JoinErrors(err, f.Close())
	}
	return &section{io.NewSectionReader(f, 0, size), f}, size, nil
}

// section reads a file from front to back.
type section struct {
	io.Reader
	io.Closer
}

// progress counts what is done of a block, and what of it was sent.
func (s *Shipper) progress(done, sent int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.stats.Done += done
	s.mu.stats.UploadedBytes += uint64(sent)
}

// withdraw removes what was uploaded of a block that cannot be uploaded as a whole. One that has its
// meta file in the bucket is of somebody else, and whole.
func (s *Shipper) withdraw(ctx context.Context, b *block, dir string) error {
	files, err := s.listFiles(dir)
	if err != nil {
		return nil // nothing was uploaded of it
	}
	s.forget(b)
	meta := path.Join(b.id.String(), metaFile)
	if there, err := s.bucket.Exists(ctx, meta); err != nil || there {
		return errors.WithMessagef(err, "look for %s", meta)
	}
	for _, f := range files {
		name := path.Join(b.id.String(), f.Path)
		there, err := s.bucket.Exists(ctx, name)
		if err == nil && there {
			err = s.bucket.Delete(ctx, name)
		}
		if err != nil {
			return errors.WithMessagef(err, "withdraw %s", name)
		}
	}
	return nil
}

// forget forgets the objects of a block.
func (s *Shipper) forget(b *block) {
	for name := range s.sent {
		if strings.HasPrefix(name, b.id.String()) {
			delete(s.sent, name)
		}
	}
}

// scanning looks at the bytes of a file as they pass.
type scanning interface {
	// next returns what is wrong with the next bytes.
	next(p []byte) (reason string)
	// whole tells whether the file may end behind them.
	whole() bool
}

// stream is a file on its way. Providers ask for its size.
type stream struct {
	ctx       context.Context
	s         *Shipper
	r         io.Reader
	scan      scanning
	file      string
	off, size int64
	err       error // what ended it
}

// ObjectSize implements objstore.ObjectSizer.
func (st *stream) ObjectSize() (int64, error) { return st.size, nil }

// Read implements io.Reader. What Thanos could not read does not leave it.
func (st *stream) Read(p []byte) (int, error) {
	if st.err == nil {
		st.err = st.ctx.Err()
	}
	if st.err != nil {
		return 0, st.err
	}
	n, err := st.r.Read(p)
	if reason := st.scan.next(p[:n]); reason != "" {
		st.err = damage(st.file, st.off, reason)
	} else if chunks, ok := st.scan.(*scanner); ok && chunks.unknown {
		st.err = errors.WithMessagef(errUnsuited, "encoding %d (%s) of chunks, in %s", byte(chunks.enc), chunks.enc, filepath.Base(st.file))
	}
	st.off += int64(n)
	end := errors.Is(err, io.EOF)
	switch {
	case st.err != nil:
	case err != nil && !end:
		st.err = fileutil.Meaning(errLocal, err)
	case (end || st.off >= st.size) && (st.off != st.size || !st.scan.whole()): // not all ask for an EOF
		st.err = damage(st.file, st.off, "the file ends in the middle")
	}
	if st.err != nil {
		return 0, st.err
	}
	st.s.progress(int64(n), int64(n))
	return n, err
}
