package chunks

import (
	"io/fs"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

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
	h.w.refs = h.w.refs[:0]
	for i := range batch {
		if err := h.validate(&batch[i]); err != nil {
			return nil, err
		}
	}
	for len(h.w.refs) < len(batch) {
		if err := h.writeToFileLocked(batch[len(h.w.refs):]); err != nil {
			return h.w.refs, err
		}
	}
	return h.w.refs, nil
}

func (h *HeadFiles) validate(c *Full) error {
	var what string
	switch size := c.recordSize(); {
	case c.Series == 0 || c.Series > MaxSeriesRef:
		what = "series ref out of range"
	case c.MinT > c.MaxT:
		what = "times out of order"
	case c.Encoding == 0 || c.Encoding >= oooBit:
		what = "encoding out of range"
	case size < minRecordSize || size > h.fileBytes-headHeaderSize:
		what = "size out of range"
	default:
		return nil
	}
	return errors.WithMessagef(ErrInvalidChunk, "series %d, times %d to %d, %v, %d bytes: %s",
		c.Series, c.MinT, c.MaxT, c.Encoding, len(c.Data), what)
}

// writeToFileLocked writes as many chunks of batch as the file has room for, and adds
// their refs. A full file is finished, and nothing else.
func (h *HeadFiles) writeToFileLocked(batch []Full) error {
	if err := h.readyLocked(); err != nil {
		return err
	}
	buf := h.w.buf[:0]
	if n := h.roomLocked(batch); cap(buf) < n {
		buf = make([]byte, 0, max(n, min(n+n/4, keptBufferBytes)))
	}
	if h.w.end == 0 {
		buf = append(buf, headHeader[:]...)
	}
	n := 0
	for ; n < len(batch) && h.w.end+int64(len(buf))+batch[n].recordSize() <= h.fileBytes; n++ {
		h.w.refs = append(h.w.refs, NewRef(h.w.cur.number, uint32(h.w.end)+uint32(len(buf))))
		buf = appendRecord(buf, &batch[n])
	}
	if cap(buf) <= keptBufferBytes {
		h.w.buf = buf
	}
	if n == 0 {
		return h.finishLocked()
	}
	h.w.dirty = true
	if _, err := h.w.handle.Write(buf); err != nil {
		h.w.refs = h.w.refs[:len(h.w.refs)-n]
		h.w.torn = true
		return fileutil.JoinErrors(err, h.cutLocked())
	}
	h.w.end += int64(len(buf))
	h.w.cur.size.Store(h.w.end)
	h.w.behind.Grown(h.w.handle, h.w.end, fileutil.BehindBytes)
	h.w.chunks += uint64(n)
	h.w.bytes += uint64(len(buf))
	return nil
}

// roomLocked returns how many bytes the records of a batch and a header have, as far as a file
// has room for them.
func (h *HeadFiles) roomLocked(batch []Full) int {
	n := int64(headHeaderSize)
	for i := range batch {
		n += batch[i].recordSize()
	}
	return int(min(n, h.fileBytes))
}

// readyLocked makes sure that there is a file whose end is a record's end.
func (h *HeadFiles) readyLocked() error {
	switch {
	case h.w.closed:
		return ErrClosed
	case !h.w.loaded:
		return ErrNotLoaded
	case h.w.repair != nil:
		return ErrNeedsRepair
	case h.w.failed != nil:
		return h.w.failed
	case h.w.cur == nil:
		return h.createLocked()
	}
	if err := h.nameLocked(); err != nil {
		return err
	}
	return h.cutLocked()
}

// cutLocked cuts off what a failed write left behind the last good record.
func (h *HeadFiles) cutLocked() error {
	if !h.w.torn {
		return nil
	}
	if err := h.w.handle.Truncate(h.w.end); err != nil {
		return errors.WithMessage(err, "cut off a half-written head chunk")
	}
	h.w.torn = false
	return nil
}

// createLocked makes the next file. It stays empty until its header is written
// together with its first chunks: the reference takes a file without a whole header
// for one that was never written, or refuses it.
func (h *HeadFiles) createLocked() error {
	if h.w.next > LastHeadFile {
		return errors.Errorf("no file can follow %s: remove the head-chunk files while nobody has the database open, the log has what is in them", fileName(LastHeadFile))
	}
	if h.w.next == 1 {
		if err := h.fs.MkdirAll(h.dir); err != nil {
			return err
		}
		if err := h.syncDirLocked(filepath.Dir(h.dir)); err != nil {
			return err
		}
	}
	path := filepath.Join(h.dir, fileName(h.w.next))
	handle, err := h.fs.Create(path)
	if err != nil {
		return err
	}
	f := newHeadFile(h.fs, path, h.w.next, 0, h.fileBytes)
	f.setHandle(handle)
	h.w.cur, h.w.handle, h.w.end = f, handle, 0
	h.w.behind, h.w.torn, h.w.dirty = fileutil.WriteBehind{}, false, false
	h.w.next++
	h.mu.Lock()
	h.mu.live = append(h.mu.live, f)
	h.mu.byNum[f.number] = f
	h.mu.Unlock()
	h.w.unnamed = true
	return h.nameLocked()
}

// nameLocked makes the name of the file being written durable, before there is anything in it.
func (h *HeadFiles) nameLocked() error {
	if !h.w.unnamed {
		return nil
	}
	if err := h.syncDirLocked(h.dir); err != nil {
		return err
	}
	h.w.unnamed = false
	return nil
}

// syncDirLocked syncs a directory. A failure stops all writing, unless the directory could not
// even be opened: then nothing is in doubt.
func (h *HeadFiles) syncDirLocked(dir string) error {
	err := h.fs.SyncDir(dir)
	if errors.Is(err, fileutil.ErrNotTried) {
		return err
	}
	return h.poisonLocked(err)
}

// finishLocked syncs and closes the file being written, so that the next chunk goes to a
// new one.
func (h *HeadFiles) finishLocked() error {
	if h.w.cur == nil {
		return nil
	}
	err := h.cutLocked()
	if err != nil && !h.w.closed {
		return err // try again with the next write
	}
	if h.w.failed == nil && h.w.dirty {
		err = fileutil.JoinErrors(err, h.poisonLocked(h.w.handle.Sync()))
	}
	f := h.w.cur
	f.setHandle(nil)
	err = fileutil.JoinErrors(err, h.poisonLocked(h.w.handle.Close()))
	h.w.cur, h.w.handle, h.w.dirty = nil, nil, false
	if h.w.end == 0 {
		err = fileutil.JoinErrors(err, h.removeUnwrittenLocked(f))
	}
	return err
}

// removeUnwrittenLocked removes a file that never got its first chunk. Should its name
// come back after a crash, the next Load takes it for what it is.
func (h *HeadFiles) removeUnwrittenLocked(f *headFile) error {
	if err := h.fs.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return h.retire([]*headFile{f})
}

// Sync puts what was written before on stable storage. An error is final: it and
// every later Write, Sync and Close are ErrPoisoned.
func (h *HeadFiles) Sync() error {
	h.w.Lock()
	defer h.w.Unlock()
	if h.w.closed {
		return ErrClosed
	}
	if h.w.failed != nil || !h.w.dirty {
		return h.w.failed
	}
	if err := h.poisonLocked(h.w.handle.Sync()); err != nil {
		return err
	}
	h.w.dirty = false
	return nil
}

// poisonLocked stops all writing if err is one: after a failed sync nobody knows what is on
// stable storage, and a second one that succeeds would lie.
func (h *HeadFiles) poisonLocked(err error) error {
	if err == nil {
		return nil
	}
	err = fileutil.JoinErrors(ErrPoisoned, err)
	if h.w.failed == nil {
		h.w.failed = err
	}
	return err
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
	if err := h.mayRemoveLocked(); err != nil {
		return err
	}
	gone, err := h.removeBeforeLocked(lowest)
	if err != nil || h.w.cur == nil || h.w.end == 0 || gone == 0 && lowest <= NewRef(h.w.cur.number, headHeaderSize) {
		return err
	}
	if err := h.finishLocked(); err != nil {
		return err
	}
	_, err = h.removeBeforeLocked(lowest)
	return err
}

// removeBeforeLocked removes files that are not being written and have nothing from lowest on,
// and returns how many.
func (h *HeadFiles) removeBeforeLocked(lowest Ref) (n int, err error) {
	h.mu.RLock()
	live := h.mu.live
	h.mu.RUnlock()
	var gone []*headFile
	for _, f := range live {
		if f == h.w.cur || NewRef(f.number, uint32(f.size.Load())) > lowest {
			break
		}
		if err = h.removeLocked(f); err != nil {
			break
		}
		gone = append(gone, f)
	}
	return len(gone), fileutil.JoinErrors(err, h.retire(gone))
}

// EndFile ends the file being written: chunks that come go to a new one. Who knows that these
// will be wanted for longer keeps their bytes apart from the others'.
func (h *HeadFiles) EndFile() error {
	h.w.Lock()
	defer h.w.Unlock()
	if err := h.mayRemoveLocked(); err != nil {
		return err
	}
	if h.w.failed != nil || h.w.end == 0 {
		return h.w.failed
	}
	return h.finishLocked()
}

func (h *HeadFiles) mayRemoveLocked() error {
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

// removeLocked removes a file's name for good. Who reads the file needs its mapping.
func (h *HeadFiles) removeLocked(f *headFile) error {
	if f.size.Load() > 0 {
		if _, err := f.open(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := h.fs.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return h.syncDirLocked(h.dir)
}
