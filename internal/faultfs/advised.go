package faultfs

import "github.com/seed347100a3/tsdb/internal/fileutil"

// Advised is a file system that notes the advice that its files get. It belongs to one goroutine.
type Advised struct {
	fileutil.FS
	Files []*AdvisedFile // as they were created and opened
}

// AdvisedFile is an open file.
type AdvisedFile struct {
	fileutil.File
	Created bool
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

func (a *Advised) note(f fileutil.File, created bool, err error) (fileutil.File, error) {
	if err != nil {
		return nil, err
	}
	a.Files = append(a.Files, &AdvisedFile{File: f, Created: created})
	return a.Files[len(a.Files)-1], nil
}

// StartWriteback notes it.
func (f *AdvisedFile) StartWriteback(off, n int64) { f.Begun = append(f.Begun, [2]int64{off, n}) }

// DropCache notes it.
func (f *AdvisedFile) DropCache() error {
	f.Dropped++
	return nil
}
