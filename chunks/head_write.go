package chunks

import (
	"io/fs"
	"path/filepath"
	"strconv"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// keptBufferBytes is the largest write buffer that is kept for the next batch.
const keptBufferBytes = 1 << 20

// headWriter writes head-chunk files, one after the other, and removes them. It belongs to
// whoever holds HeadFiles.w.
type headWriter struct {
	fs        fileutil.FS
	dir       string
	fileBytes int64 // no file is longer
	table     *headTable

	failed error  // a sync or close that failed; nothing is written after it
	next   uint32 // number of the next new file
	cur    growingFile
	buf    []byte
	refs   []Ref // of the last batch

	chunks, bytes uint64 // written since OpenHead
	rested        uint64 // chunks, at the last rest
}

// growingFile is the file being written.
type growingFile struct {
	file   *headFile     // nil before its first chunk
	handle fileutil.File // nil before it, and while the writer rests
	end    int64         // of its last good record; 0: not even its header is written
	behind fileutil.WriteBehind
	torn   bool // behind end may be half a write, to be cut off
	dirty  bool // something is not synced
	// unnamed: its name is not durable yet; nothing is written into it before.
	unnamed bool
}

// fileName returns the name of a new file.
func fileName(number uint32) string {
	s := strconv.FormatUint(uint64(number), 10)
	if len(s) < 6 {
		s = "000000"[len(s):] + s
	}
	return s
}

func (w *headWriter) validate(c *Full) error {
	var what string
	switch size := c.recordSize(); {
	case c.Series == 0 || c.Series > MaxSeriesRef:
		what = "series ref out of range"
	case c.MinT > c.MaxT:
		what = "times out of order"
	case c.Encoding == 0 || c.Encoding >= oooBit:
		what = "encoding out of range"
	case size < minRecordSize || size > w.fileBytes-headHeaderSize:
		what = "size out of range"
	default:
		return nil
	}
	return errors.WithMessagef(ErrInvalidChunk, "series %d, times %d to %d, %v, %d bytes: %s",
		c.Series, c.MinT, c.MaxT, c.Encoding, len(c.Data), what)
}

// write writes as many chunks of batch as the file has room for, and adds
// their refs. A full file is finished, and nothing else.
func (w *headWriter) write(batch []Full) error {
	if err := w.ready(); err != nil {
		return err
	}
	buf := w.buf[:0]
	if n := w.room(batch); cap(buf) < n {
		buf = make([]byte, 0, max(n, min(n+n/4, keptBufferBytes)))
	}
	if w.cur.end == 0 {
		buf = append(buf, headHeader[:]...)
	}
	n := 0
	for ; n < len(batch) && w.cur.end+int64(len(buf))+batch[n].recordSize() <= w.fileBytes; n++ {
		w.refs = append(w.refs, NewRef(w.cur.file.number, uint32(w.cur.end)+uint32(len(buf))))
		buf = appendRecord(buf, &batch[n])
	}
	if cap(buf) <= keptBufferBytes {
		w.buf = buf
	}
	if n == 0 {
		return w.finish(false)
	}
	w.cur.dirty = true
	if _, err := w.cur.handle.Write(buf); err != nil {
		w.refs = w.refs[:len(w.refs)-n]
		w.cur.torn = true
		return fileutil.JoinErrors(err, w.cur.cut())
	}
	w.cur.end += int64(len(buf))
	w.cur.file.size.Store(w.cur.end)
	w.cur.behind.Grown(w.cur.handle, w.cur.end, fileutil.BehindBytes)
	w.chunks += uint64(n)
	w.bytes += uint64(len(buf))
	return nil
}

// room returns how many bytes the records of a batch and a header have, as far as a file
// has room for them.
func (w *headWriter) room(batch []Full) int {
	n := int64(headHeaderSize)
	for i := range batch {
		n += batch[i].recordSize()
	}
	return int(min(n, w.fileBytes))
}

// ready makes sure that there is a file whose end is a record's end.
func (w *headWriter) ready() error {
	switch {
	case w.failed != nil:
		return w.failed
	case w.cur.file == nil:
		return w.create()
	}
	if err := w.name(); err != nil {
		return err
	}
	if w.cur.handle == nil {
		return w.reopen()
	}
	return w.cur.cut()
}

// rest closes the file being written, synced, and gives up the buffers, if nothing was written
// since the last call: a process may have many heads that rest.
func (w *headWriter) rest() error {
	n := w.chunks
	if n != w.rested || w.cur.handle == nil || w.cur.unnamed || w.cur.torn || w.failed != nil {
		w.rested = n
		return nil
	}
	if err := w.sync(); err != nil {
		return err
	}
	w.buf, w.refs = nil, nil
	handle := w.cur.handle
	w.cur.file.setHandle(nil)
	w.cur.handle = nil
	return w.poison(handle.Close())
}

// reopen opens the file being written behind a rest. One that somebody has cut meanwhile is left as
// it is, for those who read it to find out, and the next one is begun.
func (w *headWriter) reopen() error {
	handle, err := w.fs.OpenWrite(w.cur.file.path)
	if err != nil {
		return err
	}
	size, err := handle.Size()
	if err == nil && size > w.cur.end {
		err = handle.Truncate(w.cur.end)
	}
	if err != nil || size < w.cur.end {
		err = fileutil.JoinErrors(err, handle.Close())
		if err == nil {
			w.cur = growingFile{}
			err = w.create()
		}
		return err
	}
	w.cur.handle = handle
	w.cur.file.setHandle(handle)
	return nil
}

// cut cuts off what a failed write left behind the last good record.
func (g *growingFile) cut() error {
	if !g.torn {
		return nil
	}
	if err := g.handle.Truncate(g.end); err != nil {
		return errors.WithMessage(err, "cut off a half-written head chunk")
	}
	g.torn = false
	return nil
}

// create makes the next file. It stays empty until its header is written
// together with its first chunks: the reference takes a file without a whole header
// for one that was never written, or refuses it.
func (w *headWriter) create() error {
	if w.next > LastHeadFile {
		return errors.Errorf("no file can follow %s: remove the head-chunk files while nobody has the database open, the log has what is in them", fileName(LastHeadFile))
	}
	if w.next == 1 {
		if err := w.fs.MkdirAll(w.dir); err != nil {
			return err
		}
		if err := w.syncDir(filepath.Dir(w.dir)); err != nil {
			return err
		}
	}
	path := filepath.Join(w.dir, fileName(w.next))
	handle, err := w.fs.Create(path)
	if err != nil {
		return err
	}
	f := newHeadFile(w.fs, path, w.next, 0, w.fileBytes)
	f.setHandle(handle)
	w.cur = growingFile{file: f, handle: handle, unnamed: true}
	w.next++
	w.table.add(f)
	return w.name()
}

// name makes the name of the file being written durable, before there is anything in it.
func (w *headWriter) name() error {
	if !w.cur.unnamed {
		return nil
	}
	if err := w.syncDir(w.dir); err != nil {
		return err
	}
	w.cur.unnamed = false
	return nil
}

// syncDir syncs a directory. A failure stops all writing, unless the directory could not
// even be opened: then nothing is in doubt.
func (w *headWriter) syncDir(dir string) error {
	err := w.fs.SyncDir(dir)
	if errors.Is(err, fileutil.ErrNotTried) {
		return err
	}
	return w.poison(err)
}

// finish syncs and closes the file being written, so that the next chunk goes to a
// new one. What a failed write left there is cut off first: if that fails, the file stays for
// the next try, unless this is the last one.
func (w *headWriter) finish(last bool) error {
	if w.cur.file == nil {
		return nil
	}
	err := w.cur.cut()
	if err != nil && !last {
		return err
	}
	if w.failed == nil {
		err = fileutil.JoinErrors(err, w.sync())
	}
	f := w.cur.file
	if handle := w.cur.handle; handle != nil {
		f.setHandle(nil)
		err = fileutil.JoinErrors(err, w.poison(handle.Close()))
	}
	unwritten := w.cur.end == 0
	w.cur = growingFile{}
	if unwritten {
		err = fileutil.JoinErrors(err, w.removeUnwritten(f))
	}
	return err
}

// removeUnwritten removes a file that never got its first chunk. Should its name
// come back after a crash, the next Load takes it for what it is.
func (w *headWriter) removeUnwritten(f *headFile) error {
	if err := w.fs.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return w.table.retire([]*headFile{f})
}

// sync puts what was written on stable storage.
func (w *headWriter) sync() error {
	if w.failed != nil || !w.cur.dirty {
		return w.failed
	}
	if err := w.poison(w.cur.handle.Sync()); err != nil {
		return err
	}
	w.cur.dirty, w.cur.file.synced = false, w.cur.end
	return nil
}

// syncAll puts on stable storage what is in any file, also what an earlier process wrote there.
func (w *headWriter) syncAll() error {
	if err := w.sync(); err != nil {
		return err
	}
	for _, f := range w.table.files() {
		if f == w.cur.file || f.size.Load() <= f.synced {
			continue
		}
		handle, err := w.fs.OpenWrite(f.path) // Windows syncs what is open for writing
		if err != nil {
			return err
		}
		if err := w.poison(fileutil.JoinErrors(handle.Sync(), handle.Close())); err != nil {
			return err
		}
		f.synced = f.size.Load()
	}
	return nil
}

// poison stops all writing if err is one: after a failed sync nobody knows what is on
// stable storage, and a second one that succeeds would lie.
func (w *headWriter) poison(err error) error {
	if err == nil {
		return nil
	}
	err = fileutil.JoinErrors(ErrPoisoned, err)
	if w.failed == nil {
		w.failed = err
	}
	return err
}

// truncateBefore is HeadFiles.TruncateBefore.
func (w *headWriter) truncateBefore(lowest Ref) error {
	gone, err := w.removeBefore(lowest)
	if err != nil || w.cur.file == nil || w.cur.end == 0 || gone == 0 && lowest <= NewRef(w.cur.file.number, headHeaderSize) {
		return err
	}
	if err := w.finish(false); err != nil {
		return err
	}
	_, err = w.removeBefore(lowest)
	return err
}

// removeBefore removes files that are not being written and have nothing from lowest on,
// and returns how many.
func (w *headWriter) removeBefore(lowest Ref) (n int, err error) {
	var gone []*headFile
	for _, f := range w.table.files() {
		if f == w.cur.file || NewRef(f.number, uint32(f.size.Load())) > lowest {
			break
		}
		if err = w.remove(f); err != nil {
			break
		}
		gone = append(gone, f)
	}
	return len(gone), fileutil.JoinErrors(err, w.table.retire(gone))
}

// remove removes a file's name for good. Who reads the file needs its mapping.
func (w *headWriter) remove(f *headFile) error {
	if f.size.Load() > 0 {
		if _, err := f.open(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := w.fs.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return w.syncDir(w.dir)
}
