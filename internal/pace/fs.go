package pace

import (
	"context"
	"io"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// FS returns fsys with paced writing: every Write goes out in pieces, each followed by a
// Wait, so that over any second, wherever it begins, a writer that never pauses is
// within 10% of the limiter's rate. A Write that the context ends returns the
// context's error and how much was written. Reading is not paced. Without a limiter it
// is fsys itself.
func FS(ctx context.Context, fsys fileutil.FS, l *Limiter) fileutil.FS {
	if l == nil {
		return fsys
	}
	return &pacedFS{FS: fsys, ctx: ctx, l: l}
}

// pacedFS lives as long as one piece of work; that is why it may hold its context.
type pacedFS struct {
	fileutil.FS
	ctx context.Context
	l   *Limiter
}

func (p *pacedFS) Create(name string) (fileutil.File, error) {
	f, err := p.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return &pacedFile{File: f, fs: p}, nil
}

func (p *pacedFS) OpenWrite(name string) (fileutil.File, error) {
	f, err := p.FS.OpenWrite(name)
	if err != nil {
		return nil, err
	}
	return &pacedFile{File: f, fs: p}, nil
}

// DiskSpace passes on what fileutil.DiskSpace looks for.
func (p *pacedFS) DiskSpace(dir string) (free, total int64, err error) {
	return fileutil.DiskSpace(p.FS, dir)
}

// OpenDirect passes on what fileutil.OpenDirect looks for.
func (p *pacedFS) OpenDirect(name string) (io.ReadCloser, int64, error) {
	return fileutil.OpenDirect(p.FS, name)
}

// Abs passes on what fileutil.Abs looks for.
func (p *pacedFS) Abs(path string) (string, error) { return fileutil.Abs(p.FS, path) }

// IsLink passes on what fileutil.IsLink looks for.
func (p *pacedFS) IsLink(name string) (bool, error) { return fileutil.IsLink(p.FS, name) }

type pacedFile struct {
	fileutil.File
	fs *pacedFS
}

func (f *pacedFile) Write(b []byte) (n int, err error) {
	piece := f.fs.l.piece()
	for n < len(b) {
		k, err := f.File.Write(b[n:min(n+piece, len(b))])
		n += k
		if err != nil {
			return n, err
		}
		if err := f.fs.l.Wait(f.fs.ctx, k); err != nil {
			return n, err
		}
	}
	return n, nil
}

// StartWriteback passes on what fileutil.StartWriteback looks for.
func (f *pacedFile) StartWriteback(off, n int64) { fileutil.StartWriteback(f.File, off, n) }

// DropCache passes on what fileutil.DropCache looks for.
func (f *pacedFile) DropCache() error { return fileutil.DropCache(f.File) }
