package chunks

import (
	"io/fs"
	"path/filepath"
	"sort"
	"strconv"
	"sync"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// headTable is which head-chunk files there are, and which of those that were removed are
// still read. Safe for concurrent use. Its lock is never held across input or output.
//
// Files are added and retired by whoever holds HeadFiles.w, so that for it the list is what
// it is.
type headTable struct {
	mu struct {
		sync.RWMutex
		live   []*headFile          // in the directory, by number
		byNum  map[uint32]*headFile // live, and those that a pin keeps
		oldest *Pin
		newest *Pin // taken by acquire
		closed bool
	}
}

// open lists the files of a directory, which need not exist.
func (t *headTable) open(fsys fileutil.FS, dir string) error {
	t.mu.byNum = map[uint32]*headFile{}
	t.mu.newest = &Pin{t: t}
	t.mu.oldest = t.mu.newest
	entries, err := fsys.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if !isNumber(e.Name()) {
			continue
		}
		f, err := listedFile(fsys, filepath.Join(dir, e.Name()), e)
		if err != nil {
			return err
		}
		if t.mu.byNum[f.number] != nil {
			return encbuf.Corrupt(0, "another head chunk file has the same number").At(f.path, 0)
		}
		t.add(f)
	}
	// By number: names need not have the same length.
	sort.Slice(t.mu.live, func(i, j int) bool { return t.mu.live[i].number < t.mu.live[j].number })
	return nil
}

// listedFile returns the file that a directory entry stands for, whose name is a number.
func listedFile(fsys fileutil.FS, path string, e fs.DirEntry) (*headFile, error) {
	n, err := strconv.ParseUint(e.Name(), 10, 32)
	if err != nil || n > LastHeadFile {
		return nil, encbuf.Corrupt(0, "number of a head chunk file is too large").At(path, 0)
	}
	if e.IsDir() {
		return nil, encbuf.Corrupt(0, "a directory has the name of a head chunk file").At(path, 0)
	}
	info, err := fsys.Stat(path)
	if err != nil {
		return nil, err
	}
	return newHeadFile(fsys, path, uint32(n), info.Size(), info.Size()), nil
}

func isNumber(name string) bool {
	for _, c := range []byte(name) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return name != ""
}

// add adds a file behind all others.
func (t *headTable) add(f *headFile) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.live = append(t.mu.live, f)
	t.mu.byNum[f.number] = f
}

// replaceLast puts a file in the place of the last one, which has the same number.
func (t *headTable) replaceLast(f *headFile) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.live[len(t.mu.live)-1] = f
	t.mu.byNum[f.number] = f
}

// files returns the files in the directory, by number.
func (t *headTable) files() []*headFile {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.live
}

// file returns the file of a number, nil if there is none.
func (t *headTable) file(number uint32) *headFile {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.byNum[number]
}

// find returns the file of a ref, for the holder of a pin.
func (t *headTable) find(ref Ref) (*headFile, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.findLocked(ref)
}

// use is find for who may have no pin: the file is to be released.
func (t *headTable) use(ref Ref) (*headFile, error) {
	t.mu.RLock()
	f, err := t.findLocked(ref)
	if err == nil {
		f.refs.Add(1)
	}
	t.mu.RUnlock() // not by a defer: three percent of a Read (BenchmarkHeadRead)
	return f, err
}

func (t *headTable) findLocked(ref Ref) (*headFile, error) {
	if f := t.mu.byNum[ref.File()]; f != nil {
		return f, nil
	}
	if t.mu.closed {
		return nil, ErrClosed
	}
	return nil, ErrUnknownRef
}

// end returns the place behind the newest chunk, 0 if there is no file.
func (t *headTable) end() Ref {
	live := t.files()
	if len(live) == 0 {
		return 0
	}
	f := live[len(live)-1]
	return NewRef(f.number, uint32(f.size.Load()))
}

// stats fills in what the table knows.
func (t *headTable) stats(s *HeadStats) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s.Files, s.KeptFiles = len(t.mu.live), len(t.mu.byNum)-len(t.mu.live)
	for _, f := range t.mu.live {
		s.Bytes += f.size.Load()
	}
}

// acquire returns the newest pin, or ErrClosed.
func (t *headTable) acquire() (*Pin, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return nil, ErrClosed
	}
	t.mu.newest.holders++
	return t.mu.newest, nil
}

// retire takes removed files out of the directory's list; they stay readable until the
// pins that exist now are released.
func (t *headTable) retire(files []*headFile) error {
	if len(files) == 0 {
		return nil
	}
	t.mu.Lock()
	p := t.mu.newest
	p.retired = append(p.retired, files...)
	gone := map[*headFile]bool{}
	for _, f := range files {
		gone[f] = true
	}
	var live []*headFile
	for _, f := range t.mu.live {
		if !gone[f] {
			live = append(live, f)
		}
	}
	t.mu.live = live
	p.next = &Pin{t: t}
	t.mu.newest = p.next
	unused := t.takeUnusedLocked()
	t.mu.Unlock()
	return releaseAll(unused)
}

// takeUnusedLocked takes the files that no pin keeps out of the table.
//
//go:noinline
func (t *headTable) takeUnusedLocked() []*headFile {
	var unused []*headFile
	for t.mu.oldest.holders == 0 {
		p := t.mu.oldest
		unused = append(unused, p.retired...)
		p.retired = nil
		if p == t.mu.newest {
			if t.mu.closed {
				unused = append(unused, t.mu.live...)
				t.mu.live = nil
			}
			break
		}
		t.mu.oldest = p.next
	}
	for _, f := range unused {
		if t.mu.byNum[f.number] == f {
			delete(t.mu.byNum, f.number)
		}
	}
	return unused
}

// close lets go of all files that no pin keeps, and has the last Release let go of
// the others.
func (t *headTable) close() error {
	t.mu.Lock()
	t.mu.closed = true
	unused := t.takeUnusedLocked()
	t.mu.Unlock()
	return releaseAll(unused)
}

// releaseAll lets go of files that were in the table.
func releaseAll(files []*headFile) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.release())
	}
	return fileutil.JoinErrors(errs...)
}
