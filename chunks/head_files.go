package chunks

import (
	"math"
	"sync"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// MaxHeadFileBytes is the largest size of a head-chunk file, and the default: the
// reference maps no more of one.
const MaxHeadFileBytes = 128 << 20

// LastHeadFile is the greatest number of a head-chunk file. The one behind it is free for other
// uses of a Ref.
const LastHeadFile = math.MaxUint32 - 1

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
// Lock order: w, then that of table, then a file's. w is held across writes and syncs, that of
// table never is.
type HeadFiles struct {
	table headTable

	w struct {
		sync.Mutex
		loadCalled bool
		loaded     bool        // all files are known
		repair     *repairPlan // what Load found and Repair has not done yet
		closed     bool
		out        headWriter
	}
}

// OpenHead lists the head-chunk files of dir, which need not exist, and opens none of
// them. It changes nothing on disk. It refuses a directory with an entry whose name is a
// number but cannot be a file of ours.
func OpenHead(fsys fileutil.FS, dir string, opts HeadOptions) (*HeadFiles, error) {
	h := &HeadFiles{}
	if err := h.table.open(fsys, dir); err != nil {
		return nil, err
	}
	h.w.out = headWriter{fs: fsys, dir: dir, fileBytes: opts.withDefaults().FileBytes, table: &h.table, next: 1}
	h.w.loaded = len(h.table.files()) == 0
	return h, nil
}

// loadedLocked returns why nothing may be written or removed yet, or any more.
func (h *HeadFiles) loadedLocked() error {
	switch {
	case h.w.closed:
		return ErrClosed
	case !h.w.loaded:
		return ErrNotLoaded
	case h.w.repair != nil:
		return ErrNeedsRepair
	}
	return nil
}

// Write appends chunks to the newest file, or to a new one when there is none of ours or
// it is full, with one write per file. Their refs, in the order of batch, are valid until
// the next call of Write. The chunks can be read at once; they are on stable storage after
// Sync, or when their file is full.
//
// On an error the refs say which chunks, the first ones of batch, are stored all the
// same; what was written of the others is cut off again, at the latest by the
// next Write. A full disk heals that way. After ErrPoisoned nothing is written any more.
// ErrInvalidChunk stores nothing.
//
// The caller has made sure that the log holds the samples on stable storage, and that
// the in-order chunks of a series come in the order of their times.
func (h *HeadFiles) Write(batch []Full) ([]Ref, error) {
	h.w.Lock()
	defer h.w.Unlock()
	out := &h.w.out
	out.refs = out.refs[:0]
	for i := range batch {
		if err := out.validate(&batch[i]); err != nil {
			return nil, err
		}
	}
	for len(out.refs) < len(batch) {
		if err := h.loadedLocked(); err != nil {
			return out.refs, err
		}
		if err := out.write(batch[len(out.refs):]); err != nil {
			return out.refs, err
		}
	}
	return out.refs, nil
}

// Sync puts what was written before on stable storage. An error is final: it and
// every later Write, Sync and Close are ErrPoisoned.
func (h *HeadFiles) Sync() error {
	h.w.Lock()
	defer h.w.Unlock()
	if h.w.closed {
		return ErrClosed
	}
	return h.w.out.sync()
}

// Rest closes the file being written, and syncs it, if nothing was written since the last call. The
// next Write opens it again. The owner calls it now and then. Errors are those of Sync.
func (h *HeadFiles) Rest() error {
	h.w.Lock()
	defer h.w.Unlock()
	if h.w.closed {
		return ErrClosed
	}
	return h.w.out.rest()
}

// SyncExtents puts what all files have on stable storage, also what an earlier process wrote
// there before it was killed, and returns it, in order. Errors as those of Sync, and of a file
// that cannot be opened; damage of a page that cannot be read.
func (h *HeadFiles) SyncExtents() ([]HeadExtent, error) {
	h.w.Lock()
	defer h.w.Unlock()
	if h.w.closed {
		return nil, ErrClosed
	}
	if err := h.w.out.syncAll(); err != nil {
		return nil, err
	}
	var list []HeadExtent
	for _, f := range h.table.files() {
		e := HeadExtent{File: f.number, Size: f.size.Load()}
		if e.Size < headHeaderSize {
			continue // not written yet
		}
		var err error
		if e.Tail, err = f.tail(e.Size); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// TruncateBefore removes the files all of whose chunks are below lowest. The file being
// written is among them: it is finished if it has a chunk below lowest, or if others went, so
// that it goes with what it has now, and not only when it is full. The order and the syncs
// leave no gap in the numbers, whatever a crash keeps. Files that a Pin keeps stay readable. On
// an error the rest of the files is still there.
//
// The caller knows of every chunk that was written: none that is still wanted is below lowest.
func (h *HeadFiles) TruncateBefore(lowest Ref) error {
	h.w.Lock()
	defer h.w.Unlock()
	if err := h.loadedLocked(); err != nil {
		return err
	}
	return h.w.out.truncateBefore(lowest)
}

// EndFile ends the file being written: chunks that come go to a new one. Who knows that these
// will be wanted for longer keeps their bytes apart from the others'.
func (h *HeadFiles) EndFile() error {
	h.w.Lock()
	defer h.w.Unlock()
	if err := h.loadedLocked(); err != nil {
		return err
	}
	if out := &h.w.out; out.failed != nil || out.cur.end == 0 {
		return out.failed
	}
	return h.w.out.finish(false)
}

// Acquire returns a pin, or ErrClosed.
func (h *HeadFiles) Acquire() (*Pin, error) { return h.table.acquire() }

// Read returns the encoding and the data of the chunk at ref. The data is copied to dst, which
// grows if it has to, and its checksum is verified. Damage, also a file
// that was cut behind our back, is encbuf.ErrCorrupt with file and offset; a place where no
// chunk can be is ErrUnknownRef. The caller holds a pin, or knows that the file
// is neither truncated nor closed; otherwise the answer may be ErrUnknownRef or
// ErrClosed. It allocates nothing if dst has room for the data and 40 bytes more.
func (h *HeadFiles) Read(ref Ref, dst []byte) (enc chunkenc.Encoding, data []byte, err error) {
	f, err := h.table.use(ref)
	if err != nil {
		return 0, nil, err
	}
	enc, _, data, err = f.read(int64(ref.Offset()), dst)
	return enc, data, fileutil.JoinErrors(err, f.release())
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
	s := HeadStats{ChunksWritten: h.w.out.chunks, BytesWritten: h.w.out.bytes}
	h.table.stats(&s)
	return s
}

// End returns the place behind the newest chunk: every ref is lower. It is 0 while there
// is no file.
func (h *HeadFiles) End() Ref { return h.table.end() }

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
	out := &h.w.out
	err := out.finish(true)
	if err == nil {
		err = out.failed
	}
	out.buf, out.refs = nil, nil
	return fileutil.JoinErrors(err, h.table.close())
}
