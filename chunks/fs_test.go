package chunks

import (
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// testFS is the operating system's files with a hook before each operation: an error that it
// returns is the operation's. It also writes a log of "operation name".
type testFS struct {
	fileutil.FS
	mu     sync.Mutex
	log    []string
	hook   func(op, name string) error
	noSync bool // syncs are asked for, but not done
	short  int  // bytes that a failing write writes all the same
}

func newTestFS() *testFS { return &testFS{FS: fileutil.OS} }

func (t *testFS) do(op, path string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.log = append(t.log, op+" "+filepath.Base(path))
	if t.hook != nil {
		return t.hook(op, filepath.Base(path))
	}
	return nil
}

// takeLog returns the operations since the last call.
func (t *testFS) takeLog() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	log := t.log
	t.log = nil
	return log
}

// failOn makes operation op fail from the n-th time on (0 is the next one), times times.
func (t *testFS) failOn(op string, n, times int, err error) {
	t.hook = func(o, _ string) error {
		if o != op {
			return nil
		}
		if n--; n >= 0 || n < -times {
			return nil
		}
		return err
	}
}

func (t *testFS) wrap(f fileutil.File, err error) (fileutil.File, error) {
	if err != nil {
		return nil, err
	}
	return &testFile{File: f, fs: t}, nil
}

func (t *testFS) Create(name string) (fileutil.File, error) {
	if err := t.do("create", name); err != nil {
		return nil, err
	}
	return t.wrap(t.FS.Create(name))
}

func (t *testFS) Open(name string) (fileutil.File, error) {
	if err := t.do("open", name); err != nil {
		return nil, err
	}
	return t.wrap(t.FS.Open(name))
}

func (t *testFS) Rename(from, to string) error {
	if err := t.do("rename", to); err != nil {
		return err
	}
	return t.FS.Rename(from, to)
}

func (t *testFS) Link(from, to string) error {
	if err := t.do("link", from); err != nil {
		return err
	}
	return t.FS.Link(from, to)
}

func (t *testFS) Remove(name string) error {
	if err := t.do("remove", name); err != nil {
		return err
	}
	return t.FS.Remove(name)
}

func (t *testFS) MkdirAll(name string) error {
	if err := t.do("mkdir", name); err != nil {
		return err
	}
	return t.FS.MkdirAll(name)
}

func (t *testFS) SyncDir(name string) error {
	if err := t.do("syncdir", name); err != nil || t.noSync {
		return err
	}
	return t.FS.SyncDir(name)
}

type testFile struct {
	fileutil.File
	fs *testFS
}

func (f *testFile) Write(p []byte) (int, error) {
	if err := f.fs.do("write", f.Name()); err != nil {
		n, _ := f.File.Write(p[:min(f.fs.short, len(p))])
		return n, err
	}
	return f.File.Write(p)
}

func (f *testFile) Truncate(size int64) error {
	if err := f.fs.do("truncate", f.Name()); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f *testFile) Sync() error {
	if err := f.fs.do("sync", f.Name()); err != nil || f.fs.noSync {
		return err
	}
	return f.File.Sync()
}

func (f *testFile) Close() error {
	err := f.fs.do("close", f.Name())
	if closeErr := f.File.Close(); err == nil {
		err = closeErr
	}
	return err
}

func (f *testFile) Mmap(length int64) (fileutil.Mapping, error) {
	if err := f.fs.do("mmap", f.Name()); err != nil {
		return nil, err
	}
	m, err := f.File.Mmap(length)
	if err != nil {
		return nil, err
	}
	return &testMapping{Mapping: m, fs: f.fs, name: f.Name()}, nil
}

type testMapping struct {
	fileutil.Mapping
	fs   *testFS
	name string
}

func (m *testMapping) Close() error {
	if err := m.fs.do("unmap", m.name); err != nil {
		return err
	}
	return m.Mapping.Close()
}

// headDir is a data directory with a chunks_head in it.
func headDir(tb testing.TB) string { return filepath.Join(tb.TempDir(), "chunks_head") }

// openLoaded opens and loads dir, and returns its chunks.
func openLoaded(tb testing.TB, fsys fileutil.FS, dir string, opts HeadOptions) (*HeadFiles, []HeadChunk, LoadReport) {
	tb.Helper()
	h, err := OpenHead(fsys, dir, opts)
	require.NoError(tb, err)
	var chunks []HeadChunk
	rep, err := h.Load(func(c HeadChunk) error {
		chunks = append(chunks, c)
		return nil
	})
	require.NoError(tb, err)
	return h, chunks, rep
}
