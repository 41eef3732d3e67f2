package chunks

import (
	"sort"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Pin keeps every file that was there when it was acquired readable, also if it is
// truncated or HeadFiles is closed. Holders share Pin values; each Acquire needs
// exactly one Release.
//
// TruncateBefore ends the newest pin's time and hangs what it removed on it. Since a
// later holder may still find a removed file through an earlier one's chunk list,
// files are let go in the order of the pins only.
type Pin struct {
	h       *HeadFiles
	holders int         // guarded by h.mu, as is all below
	retired []*headFile // removed during its time
	next    *Pin
}

// Acquire returns a pin, or ErrClosed.
func (h *HeadFiles) Acquire() (*Pin, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.closed {
		return nil, ErrClosed
	}
	h.mu.newest.holders++
	return h.mu.newest, nil
}

// Release gives one Acquire back. An error of unmapping a file that nobody
// reads any more is all that it can return.
func (p *Pin) Release() error {
	h := p.h
	h.mu.Lock()
	if p.holders == 0 {
		h.mu.Unlock()
		panic("BUG: pin of head chunk files released twice")
	}
	p.holders--
	unused := h.takeUnusedLocked()
	h.mu.Unlock()
	return releaseAll(unused)
}

// Read returns the encoding and the data of the chunk at ref. The data is copied to dst, which
// grows if it has to, and its checksum is verified. Damage, also a file
// that was cut behind our back, is encbuf.ErrCorrupt with file and offset; a place where no
// chunk can be is ErrUnknownRef. The caller holds a pin, or knows that the file
// is neither truncated nor closed; otherwise the answer may be ErrUnknownRef or
// ErrClosed. It allocates nothing if dst has room for the data and 40 bytes more.
func (h *HeadFiles) Read(ref Ref, dst []byte) (enc chunkenc.Encoding, data []byte, err error) {
	h.mu.RLock()
	f, err := h.findLocked(ref)
	if err != nil {
		h.mu.RUnlock()
		return 0, nil, err
	}
	f.refs.Add(1)
	h.mu.RUnlock()
	enc, _, data, err = f.read(int64(ref.Offset()), dst)
	return enc, data, fileutil.JoinErrors(err, f.release())
}

func (h *HeadFiles) findLocked(ref Ref) (*headFile, error) {
	if f := h.mu.byNum[ref.File()]; f != nil {
		return f, nil
	}
	if h.mu.closed {
		return nil, ErrClosed
	}
	return nil, ErrUnknownRef
}

// retire takes removed files out of the directory's list; they stay readable until the
// pins that exist now are released.
func (h *HeadFiles) retire(files []*headFile) error {
	if len(files) == 0 {
		return nil
	}
	h.mu.Lock()
	p := h.mu.newest
	p.retired = append(p.retired, files...)
	gone := map[*headFile]bool{}
	for _, f := range files {
		gone[f] = true
	}
	var live []*headFile
	for _, f := range h.mu.live {
		if !gone[f] {
			live = append(live, f)
		}
	}
	h.mu.live = live
	p.next = &Pin{h: h}
	h.mu.newest = p.next
	unused := h.takeUnusedLocked()
	h.mu.Unlock()
	return releaseAll(unused)
}

// takeUnusedLocked takes the files that no pin keeps out of the table.
func (h *HeadFiles) takeUnusedLocked() []*headFile {
	var unused []*headFile
	for h.mu.oldest.holders == 0 {
		p := h.mu.oldest
		unused = append(unused, p.retired...)
		p.retired = nil
		if p == h.mu.newest {
			if h.mu.closed {
				unused = append(unused, h.mu.live...)
				h.mu.live = nil
			}
			break
		}
		h.mu.oldest = p.next
	}
	for _, f := range unused {
		if h.mu.byNum[f.number] == f {
			delete(h.mu.byNum, f.number)
		}
	}
	return unused
}

// closePins lets go of all files that no pin keeps, and has the last Release let go of
// the others.
func (h *HeadFiles) closePins() error {
	h.mu.Lock()
	h.mu.closed = true
	unused := h.takeUnusedLocked()
	h.mu.Unlock()
	return releaseAll(unused)
}

func releaseAll(files []*headFile) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.release())
	}
	return fileutil.JoinErrors(errs...)
}

// sortLive orders the files by number; their names need not have the same length.
func (h *HeadFiles) sortLive() {
	sort.Slice(h.mu.live, func(i, j int) bool { return h.mu.live[i].number < h.mu.live[j].number })
}
