package wal

import (
	"bytes"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// create creates segment n, syncs the directory, writes the header, syncs it, and
// makes the segment the current one. The header is durable before the first commit is written:
// a segment with neither header nor whole frame would be read as someone else's,
// record by record, and half a commit would count. Of the first segment the file is synced before
// its name.
//
// A file without a whole header, left by a full disk, stays open in spare for the next
// try, so that no number ever gets two files or two headers.
func (w *logWriter) create(n int, nextSeq uint64) error {
	h := header{segment: uint64(n), nextSeq: nextSeq, nextRef: w.opts.NextRef(), synced: w.open.synced.Load()}
	buf := appendRecord(nil, 0, CompressionNone, appendHeader(nil, h))
	if err := w.createSpare(n, buf); err != nil {
		return err
	}
	// The name first, while the file is empty: if the directory cannot be opened nothing has
	// happened, and the next commit that still finds room in the old segment may go there.
	first := w.open.file == nil
	if !first {
		if err := w.open.syncDir(w.opts.Dir); err != nil {
			return err
		}
	}
	if wrote, err := w.spare.Write(buf); err != nil || wrote < len(buf) {
		if err == nil {
			err = io.ErrShortWrite
		}
		return errors.WithMessagef(err, "write header of log segment %s", segmentName(n))
	}
	if err := w.spare.Sync(); err != nil {
		return w.open.queue.poison(errors.WithMessagef(err, "sync log segment %s", segmentName(n)))
	}
	if first {
		if err := w.open.syncDir(w.opts.Dir); err != nil {
			return err
		}
	}
	w.cur = growingSegment{off: int64(len(buf)), first: int64(len(buf)), header: h, told: h.synced, expiry: w.expiries.begin(n, nextSeq)}
	w.open.begin(w.spare, begun{segment: n, firstSeq: nextSeq})
	w.spare = nil
	w.opts.Logger.Debug("began log segment", "segment", n, "next_seq", nextSeq)
	w.open.stats.segments.Add(1)
	w.open.stats.bytes.Add(uint64(len(buf)))
	return nil
}

// markEnd ends the log with another header, the watermark of which is the last commit:
// damage in there is then never taken for an unfinished write. All before it is synced,
// and it takes no sequence number, so nothing is lost with it. Therefore a full disk is no
// error here. Close calls it, when nobody leads any more.
func (w *logWriter) markEnd() error {
	seq, n := w.open.written.Load(), w.open.number()
	h := header{segment: uint64(n), nextSeq: seq + 1, nextRef: w.opts.NextRef(), synced: seq}
	buf := appendRecord(nil, w.cur.off, CompressionNone, appendHeader(nil, h))
	w.open.mu.Lock()
	defer w.open.mu.Unlock()
	wrote, err := w.open.file.Write(buf)
	if err == nil && wrote < len(buf) {
		err = io.ErrShortWrite
	}
	if err == nil {
		return w.open.syncFile(w.open.file)
	}
	w.cur.torn = true
	err = errors.WithMessagef(err, "write end of log segment %s", segmentName(n))
	if cut := w.cut(); cut != nil || !fileutil.IsDiskFull(err) {
		return fileutil.JoinErrors(err, cut)
	}
	return nil
}

// createSpare makes the file of segment n, or empties the one that an earlier try left.
// It will begin with header.
func (w *logWriter) createSpare(n int, header []byte) error {
	if w.spare != nil {
		return errors.WithMessagef(w.spare.Truncate(0), "empty log segment %s", segmentName(n))
	}
	path := filepath.Join(w.opts.Dir, segmentName(n))
	f, err := w.opts.FS.Create(path)
	if errors.Is(err, fs.ErrExist) && w.open.file == nil {
		f, err = w.takeLeftover(path, header, err)
	}
	if err != nil {
		return errors.WithMessagef(err, "create log segment %s", segmentName(n))
	}
	w.spare = f
	return nil
}

// takeLeftover opens and empties the file of a first segment that an earlier Open could
// neither finish nor remove: it holds a part of this header. Any other is not touched, and
// the error is exists.
func (w *logWriter) takeLeftover(path string, header []byte, exists error) (fileutil.File, error) {
	f, err := w.opts.FS.OpenWrite(path)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	left := make([]byte, max(0, min(size, int64(len(header)))))
	if err == nil && len(left) > 0 {
		_, err = f.ReadAt(left, 0)
	}
	if err == nil && (size >= int64(len(header)) || !bytes.HasPrefix(header, left)) {
		err = exists
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		return nil, fileutil.JoinErrors(err, f.Close())
	}
	return f, nil
}

// abandonFirst removes a segment that Open could not finish.
func (w *logWriter) abandonFirst() error {
	f := w.spare
	if f == nil {
		f = w.open.file
	}
	if f == nil {
		return nil
	}
	w.spare = nil
	err := f.Close()
	return fileutil.JoinErrors(err, w.opts.FS.Remove(filepath.Join(w.opts.Dir, filepath.Base(f.Name()))))
}
