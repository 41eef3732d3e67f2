package chunks

import (
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

const (
	// segmentPieceBytes is what one write writes, about: large enough that a write's
	// cost does not count, small enough to pace by.
	segmentPieceBytes = 1 << 20
	// segmentSyncBytes is how much is written between two syncs, so that the kernel never
	// has much of ours to flush at once.
	segmentSyncBytes = 8 << 20
)

// SegmentOptions are the options of NewSegmentWriter; the zero value has the defaults.
type SegmentOptions struct {
	// SegmentBytes is the size that no file exceeds, unless a single chunk does.
	// Default: DefaultSegmentBytes; maximum: 4 GiB.
	SegmentBytes int64
	// Written, if set, is called behind each write with its size in bytes. It may
	// block, to pace the writing; an error ends the writing.
	Written func(n int) error
	// KeepCached: what is written stays in the page cache, if SegmentScanner can read past that.
	// Otherwise it is dropped once it is synced, for the page cache belongs to those who read, and
	// so that the disk is asked for it.
	KeepCached bool
}

func (o SegmentOptions) withDefaults() SegmentOptions {
	if o.SegmentBytes <= 0 {
		o.SegmentBytes = DefaultSegmentBytes
	}
	o.SegmentBytes = min(o.SegmentBytes, maxSegmentOffset)
	return o
}

// SegmentWriter writes the segment files of one block, front to back. It is used by one
// goroutine at a time. Its first error is final: every later call returns it.
//
// What is written is synced in pieces.
type SegmentWriter struct {
	fs   fileutil.FS
	dir  string
	opts SegmentOptions

	cur      fileutil.File // nil before the first chunk, and between two files
	segments int           // created so far
	end      int64         // of cur, what is buffered included
	done     int64         // bytes of the files that are finished
	unsynced int64         // bytes written to cur since its last sync
	keep     bool          // cur stays in the page cache
	behind   fileutil.WriteBehind
	buf      []byte // the end of cur that is not written yet
	err      error
	closed   bool
}

// NewSegmentWriter returns a writer of files in dir, which is made if it does not exist
// and must not have segment files yet. The files appear with their first chunks.
func NewSegmentWriter(fsys fileutil.FS, dir string, opts SegmentOptions) (*SegmentWriter, error) {
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, err
	}
	return &SegmentWriter{fs: fsys, dir: dir, opts: opts.withDefaults()}, nil
}

// Write adds a chunk and returns its place. data is copied.
// Chunks that cannot be stored are ErrInvalidChunk.
func (w *SegmentWriter) Write(enc chunkenc.Encoding, data []byte) (BlockRef, error) {
	if w.closed && w.err == nil {
		return 0, ErrClosed
	}
	if w.err != nil {
		return 0, w.err
	}
	ref, err := w.write(enc, data)
	w.err = err
	return ref, err
}

func (w *SegmentWriter) write(enc chunkenc.Encoding, data []byte) (BlockRef, error) {
	if enc == chunkenc.EncNone || len(data) > maxSegmentChunk {
		return 0, errors.WithMessagef(ErrInvalidChunk, "%v, %d bytes", enc, len(data))
	}
	// The longest form of the length is assumed, as the reference does it, so that
	// the same chunks end up in the same files.
	if w.cur != nil && w.end+maxLengthSize+1+int64(len(data))+crcSize > w.opts.SegmentBytes {
		if err := w.finishFile(); err != nil {
			return 0, err
		}
	}
	if w.cur == nil {
		if err := w.createFile(); err != nil {
			return 0, err
		}
	}
	ref := NewBlockRef(uint32(w.segments-1), uint32(w.end))
	before := len(w.buf)
	w.buf = appendSegmentRecord(w.buf, enc, data)
	w.end += int64(len(w.buf) - before)
	if len(w.buf) >= segmentPieceBytes {
		return ref, w.flush()
	}
	return ref, nil
}

func (w *SegmentWriter) createFile() error {
	path := filepath.Join(w.dir, fileName(uint32(w.segments+1)))
	f, err := w.fs.Create(path)
	if err != nil {
		return err
	}
	w.keep = w.opts.KeepCached && fileutil.HasDirect(w.fs, path)
	w.segments++
	w.cur = f
	w.buf = append(w.buf[:0], segmentHeader[:]...)
	w.end = segmentHeaderSize
	w.unsynced, w.behind = 0, fileutil.WriteBehind{}
	return nil
}

// flush writes what is buffered, and syncs when enough is written.
func (w *SegmentWriter) flush() error {
	start := w.end - int64(len(w.buf))
	for off := 0; off < len(w.buf); off += segmentPieceBytes {
		piece := w.buf[off:min(off+segmentPieceBytes, len(w.buf))]
		if _, err := w.cur.Write(piece); err != nil {
			return err
		}
		w.unsynced += int64(len(piece))
		w.behind.Grown(w.cur, start+int64(off+len(piece)), fileutil.BehindBytes)
		if w.unsynced >= segmentSyncBytes {
			if err := w.sync(); err != nil {
				return err
			}
		}
		if w.opts.Written != nil {
			if err := w.opts.Written(len(piece)); err != nil {
				return err
			}
		}
	}
	w.buf = w.buf[:0]
	return nil
}

func (w *SegmentWriter) sync() error {
	if err := w.cur.Sync(); err != nil {
		return err
	}
	w.unsynced = 0
	if !w.keep {
		_ = fileutil.DropCache(w.cur) // advice: nothing is lost when nobody takes it
	}
	return nil
}

// finishFile writes, syncs and closes the current file.
func (w *SegmentWriter) finishFile() error {
	err := w.flush()
	if err == nil && w.unsynced > 0 {
		err = w.sync()
	}
	closeErr := w.cur.Close()
	w.cur = nil
	w.done += w.end
	w.end = 0
	return fileutil.JoinErrors(err, closeErr)
}

// Size returns the bytes of all files so far, of what is not written yet too.
func (w *SegmentWriter) Size() int64 { return w.done + w.end }

// Segments returns how many files there are so far.
func (w *SegmentWriter) Segments() int { return w.segments }

// Close finishes the last file. When it returns nil, every chunk and every name in the
// directory is on stable storage; the directory's own name is the caller's. A second
// call does nothing. After an error of Write it is Abort, and returns that error.
func (w *SegmentWriter) Close() error {
	if w.closed || w.err != nil {
		return fileutil.JoinErrors(w.err, w.Abort())
	}
	w.closed = true
	if w.cur != nil {
		w.err = w.finishFile()
	}
	if w.err == nil {
		w.err = w.fs.SyncDir(w.dir)
	}
	w.buf = nil
	return w.err
}

// Abort closes the file being written without finishing it. Removing the files is the
// caller's. It may be called at any time, and again.
func (w *SegmentWriter) Abort() error {
	w.closed = true
	if w.cur == nil {
		return nil
	}
	err := w.cur.Close()
	w.cur, w.buf = nil, nil
	if w.err == nil {
		w.err = ErrClosed
	}
	return err
}
