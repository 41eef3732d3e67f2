package chunks

import (
	"io/fs"
	"math"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// MaxHeadFileBytes is the largest size of a head-chunk file, and the default: the
// reference maps no more of one.
const MaxHeadFileBytes = 128 << 20

// LastHeadFile is the greatest number of a head-chunk file. The one behind it is free for other uses of a Ref.
const LastHeadFile = math.MaxUint32 - 1

// keptBufferBytes is the largest write buffer that is kept for the next batch.
const keptBufferBytes = 1 << 20

// HeadOptions are the options of OpenHead; the zero value has the defaults.
type HeadOptions struct {
	// FileBytes is the size that no file exceeds. Default and maximum: MaxHeadFileBytes.
	FileBytes int64
}

func (o HeadOptions) withDefaults() HeadOptions {
	if o.FileBytes <= 0 || o.FileBytes > MaxHeadFileBytes {
		o.FileBytes = MaxHeadFileBytes
	}
	return o
}

// HeadFiles is a directory of head-chunk files: full chunks of the head, written once,
// read through mappings until the chunks are in a block.
//
// Its life: OpenHead, Load, Repair if Load found damage, then Write, Sync and
// TruncateBefore by whoever, one at a time, and Read by anybody at any time. Opening and
// loading write nothing; new chunks go to new files.
//
// Lock order: w, then mu, then a file's mu. w is held across writes and syncs, mu never
// is.
type HeadFiles struct {
	fs        fileutil.FS
	dir       string
	fileBytes int64

	// w is the writer's side.
	w struct {
		sync.Mutex
		loadCalled bool
		loaded     bool        // all files are known
		repair     *repairPlan // what Load found and Repair has not done yet
		closed     bool
		failed     error // a sync or close that failed; nothing is written after it

		next   uint32        // number of the next new file
		cur    *headFile     // file being written; nil before its first chunk
		handle fileutil.File // of cur
		end    int64         // end of cur's last good record; 0: not even its header is written
		behind fileutil.WriteBehind
		torn   bool // behind end may be half a write, to be cut off
		dirty  bool // something is not synced
		// unnamed: the name of cur is not durable yet; nothing is written into it before.
		unnamed bool
		buf     []byte
		refs    []Ref

		chunks, bytes uint64 // written since OpenHead
	}

	// mu guards the table of files and the pins.
	mu struct {
		sync.RWMutex
		live   []*headFile          // in the directory, by number
		byNum  map[uint32]*headFile // live, and those that a pin keeps
		oldest *Pin
		newest *Pin // taken by Acquire
		closed bool
	}
}

// OpenHead lists the head-chunk files of dir, which need not exist, and opens none of
// them. It changes nothing on disk. It refuses a directory with an entry whose name is a
// number but cannot be a file of ours.
func OpenHead(fsys fileutil.FS, dir string, opts HeadOptions) (*HeadFiles, error) {
	h := &HeadFiles{fs: fsys, dir: dir, fileBytes: opts.withDefaults().FileBytes}
	h.mu.byNum = map[uint32]*headFile{}
	h.mu.newest = &Pin{h: h}
	h.mu.oldest = h.mu.newest
	h.w.next = 1
	entries, err := fsys.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if err := h.list(e); err != nil {
			return nil, err
		}
	}
	h.sortLive()
	h.w.loaded = len(h.mu.live) == 0
	return h, nil
}

// list takes a directory entry into the table if its name is a number.
func (h *HeadFiles) list(e fs.DirEntry) error {
	if !isNumber(e.Name()) {
		return nil
	}
	path := filepath.Join(h.dir, e.Name())
	n, err := strconv.ParseUint(e.Name(), 10, 32)
	if err != nil || n > LastHeadFile {
		return encbuf.Corrupt(0, "number of a head chunk file is too large").At(path, 0)
	}
	if e.IsDir() {
		return encbuf.Corrupt(0, "a directory has the name of a head chunk file").At(path, 0)
	}
	if h.mu.byNum[uint32(n)] != nil {
		return encbuf.Corrupt(0, "another head chunk file has the same number").At(path, 0)
	}
	info, err := h.fs.Stat(path)
	if err != nil {
		return err
	}
	f := newHeadFile(h.fs, path, uint32(n), info.Size(), info.Size())
	h.mu.byNum[f.number] = f
	h.mu.live = append(h.mu.live, f)
	return nil
}

func isNumber(name string) bool {
	for _, c := range []byte(name) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return name != ""
}

// fileName returns the name of a new file.
func fileName(number uint32) string {
	s := strconv.FormatUint(uint64(number), 10)
	if len(s) < 6 {
		s = "000000"[len(s):] + s
	}
	return s
}

// HeadStats are numbers about the files.
type HeadStats struct {
	Files         int    // in the directory
	Bytes         int64  // of those files, as far as they hold chunks
	KeptFiles     int    // truncated, and kept open by a Pin
	ChunksWritten uint64 // since OpenHead
	BytesWritten  uint64 // since OpenHead
}

// Stats returns the current numbers. It waits for a write that is under way.
func (h *HeadFiles) Stats() HeadStats {
	h.w.Lock()
	defer h.w.Unlock()
	h.mu.RLock()
	defer h.mu.RUnlock()
	s := HeadStats{
		Files:         len(h.mu.live),
		KeptFiles:     len(h.mu.byNum) - len(h.mu.live),
		ChunksWritten: h.w.chunks,
		BytesWritten:  h.w.bytes,
	}
	for _, f := range h.mu.live {
		s.Bytes += f.size.Load()
	}
	return s
}

// End returns the place behind the newest chunk: every ref is lower. It is 0 while there
// is no file.
func (h *HeadFiles) End() Ref {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if len(h.mu.live) == 0 {
		return 0
	}
	f := h.mu.live[len(h.mu.live)-1]
	return NewRef(f.number, uint32(f.size.Load()))
}

// Close finishes the file being written: it is synced. After that nothing can be
// written or acquired; who holds a Pin can read until the last Release, which
// closes the files. A second Close returns ErrClosed.
func (h *HeadFiles) Close() error {
	h.w.Lock()
	defer h.w.Unlock()
	if h.w.closed {
		return ErrClosed
	}
	h.w.closed = true
	err := h.finishLocked()
	if err == nil {
		err = h.w.failed
	}
	h.w.buf, h.w.refs = nil, nil
	return fileutil.JoinErrors(err, h.closePins())
}
