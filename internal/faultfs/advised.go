package faultfs

import (
	"io"
	"sync"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Advised is a file system that notes the advice that its files get, and whose page cache has what
// it is told to have. It is safe for concurrent use, and each of its files for one goroutine at a
// time; Files may be looked at when nobody uses it. What OpenWrite opens is not noted.
type Advised struct {
	fileutil.FS
	Cached bool // all files are in the page cache; else none is
	Direct bool // there is direct I/O

	mu       sync.Mutex
	Files    []*AdvisedFile // as they were created and opened, but for direct I/O; guarded by mu
	Directly []string       // names opened for direct I/O; guarded by mu
}

// AdvisedFile is an open file.
type AdvisedFile struct {
	fileutil.File
	Created bool
	Cached  bool
	Begun   [][2]int64 // offsets and lengths, in bytes
	Dropped int        // how often it was dropped from the page cache
}

// Create is that of fileutil.FS.
func (a *Advised) Create(name string) (fileutil.File, error) {
	f, err := a.FS.Create(name)
	return a.note(f, true, err)
}

// Open is that of fileutil.FS.
func (a *Advised) Open(name string) (fileutil.File, error) {
	f, err := a.FS.Open(name)
	return a.note(f, false, err)
}

// OpenDirect is what fileutil.OpenDirect looks for.
func (a *Advised) OpenDirect(name string) (io.ReadCloser, int64, error) {
	if !a.Direct {
		return nil, 0, fileutil.ErrUnsupported
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.Directly = append(a.Directly, name)
	return fileutil.OpenFromDisk(a.FS, name, true)
}

func (a *Advised) note(f fileutil.File, created bool, err error) (fileutil.File, error) {
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	noted := &AdvisedFile{File: f, Created: created, Cached: a.Cached}
	a.Files = append(a.Files, noted)
	return noted, nil
}

// Dropped returns how many files were dropped from the page cache, of those that were created or of
// those that were opened.
func (a *Advised) Dropped(created bool) (n int) {
	for _, f := range a.Files {
		if f.Created == created && f.Dropped > 0 {
			n++
		}
	}
	return n
}

// StartWriteback notes it.
func (f *AdvisedFile) StartWriteback(off, n int64) { f.Begun = append(f.Begun, [2]int64{off, n}) }

// BegunTo returns up to where the file was begun to be written, if that was from its start on, so
// much and more at a time, in whole pages; else -1.
func (f *AdvisedFile) BegunTo(every int64) (end int64) {
	for _, r := range f.Begun {
		if r[0] != end || r[1] < every || (end+r[1])%4096 != 0 {
			return -1
		}
		end += r[1]
	}
	return end
}

// DropCache notes it.
func (f *AdvisedFile) DropCache() error {
	f.Dropped++
	return nil
}

// CachedBytes tells what the file system was told.
func (f *AdvisedFile) CachedBytes() (int64, error) {
	if !f.Cached {
		return 0, nil
	}
	return f.Size()
}
