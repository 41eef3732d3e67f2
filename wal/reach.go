package wal

import (
	"encoding/binary"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// A log cannot say by itself that its end is missing: what would say so is in the end. So the
// Log notes beside it how far it reached. The file is a row of notes, all of one size, of which
// the last good one counts:
//
//	+--------------------+--------------+----------------+---------------+-------------+-----------+------+
//	| "lrc1" (magic)     | segment be64 | first seq be64 | next ref be64 | synced be64 | mark be64 | crc  |
//	+--------------------+--------------+----------------+---------------+-------------+-----------+------+
//
// The crc is a CRC-32C of all before it. The file is not synced, but with a new mark: each note
// was true when it was written, and stays true, so an old one says less and nothing wrong.
const (
	reachMagic = 0x6c726331 // "lrc1"
	reachBytes = 4 + 5*8 + crcSize
	// maxReachNotes is how many notes are appended before the file begins anew: 28 KiB.
	maxReachNotes = 600
)

// Reach says how far a log reached: all that it says was on stable storage once.
type Reach struct {
	Segment  int    // number of the newest segment
	FirstSeq uint64 // sequence number of the first commit in it
	NextRef  uint64 // smallest series ref never handed out
	Synced   uint64 // newest commit that is known to be on stable storage
	Mark     int64  // what the owner of the log wants to be told again: SetMark
}

func appendReach(dst []byte, r Reach) []byte {
	start := len(dst)
	dst = encbuf.AppendBE32(dst, reachMagic)
	for _, v := range [...]uint64{uint64(r.Segment), r.FirstSeq, r.NextRef, r.Synced, uint64(r.Mark)} {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	return encbuf.AppendBE32(dst, encbuf.Checksum(dst[start:]))
}

func parseReach(b []byte) (r Reach, ok bool) {
	end := reachBytes - crcSize
	if binary.BigEndian.Uint32(b) != reachMagic || binary.BigEndian.Uint32(b[end:]) != encbuf.Checksum(b[:end]) {
		return Reach{}, false
	}
	field := func(i int) uint64 { return binary.BigEndian.Uint64(b[4+8*i:]) }
	r = Reach{Segment: int(field(0)), FirstSeq: field(1), NextRef: field(2), Synced: field(3), Mark: int64(field(4))}
	return r, r.Segment >= 0 && r.FirstSeq <= maxSeq && r.Synced <= maxSeq
}

// ReadReach reads what a Log noted in its ReachFile. found is false if there is no file, or no
// good note in it.
func ReadReach(fsys fileutil.FS, path string) (r Reach, found bool, err error) {
	const most = (maxReachNotes + 1) * reachBytes // we never make a larger one
	info, err := fsys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() > most) {
		return Reach{}, false, nil
	}
	var b []byte
	if err == nil {
		b, err = fileutil.ReadFile(fsys, path, 2*most)
	}
	if err != nil {
		return Reach{}, false, errors.WithMessage(err, "read how far the log reached")
	}
	for ; len(b) >= reachBytes; b = b[reachBytes:] {
		if note, ok := parseReach(b); ok {
			r, found = note, true
		}
	}
	return r, found, nil
}

// reachWriter writes the notes of a Log. Its lock is held across syncs.
type reachWriter struct {
	opts *Options
	open *openSegments

	sync.Mutex
	file    fileutil.File // nil where it is not open: a program may have many logs
	begun   bool          // it was open once
	used    bool          // since the last rest
	notes   int           // in the file
	noted   uint64        // watermark of the last note
	segment int           // of the last note
	mark    int64
	safe    bool // a note with the mark is on stable storage
	unnamed bool // the file's name may not be on stable storage
	buf     []byte
}

// setMark is Log.SetMark.
func (w *reachWriter) setMark(mark int64) error {
	w.Lock()
	defer w.Unlock()
	if w.opts.ReachFile == "" || w.mark == mark && w.safe {
		return nil
	}
	w.mark, w.safe = mark, false
	if err := w.noteLocked(); err != nil {
		return diskFull(errors.WithMessage(err, "note how far the log reached"))
	}
	if err := w.file.Sync(); err != nil {
		return w.open.queue.poison(errors.WithMessage(err, "sync how far the log reached"))
	}
	if err := w.nameLocked(); err != nil {
		return err
	}
	w.safe = true
	w.restLocked()
	return nil
}

// nameLocked makes the name of the file of notes durable.
func (w *reachWriter) nameLocked() error {
	if !w.unnamed {
		return nil
	}
	if err := w.open.syncDir(filepath.Dir(w.opts.ReachFile)); err != nil {
		return err
	}
	w.unnamed = false
	return nil
}

// note writes a note if there is more to say.
func (w *reachWriter) note() {
	w.Lock()
	defer w.Unlock()
	w.noteMoreLocked()
}

// noteAtOnce is note for the leader, which commits wait for: who sets a mark meanwhile may sync,
// and a file that is closed is left to the next note.
func (w *reachWriter) noteAtOnce() {
	if !w.TryLock() {
		return
	}
	defer w.Unlock()
	if w.file != nil || !w.begun {
		w.noteMoreLocked()
	}
}

// prepare opens the file for a note that commits are going to wait for.
func (w *reachWriter) prepare() {
	w.Lock()
	defer w.Unlock()
	if w.file == nil && w.begun {
		_ = w.openFile() // the note tries again, and tells
	}
}

func (w *reachWriter) noteMoreLocked() {
	if w.opts.ReachFile == "" || w.begun && w.noted >= w.open.synced.Load() && w.segment == w.open.number() {
		return
	}
	if err := w.noteLocked(); err != nil {
		w.opts.Logger.Debug("note how far the log reached", "error", fileutil.Logged(err))
	}
	w.restLocked()
}

// restLocked closes the file behind a note, unless there is one behind each commit: then Log.Rest
// does.
func (w *reachWriter) restLocked() {
	if w.used = true; w.opts.Sync.mode != ModeCommit {
		w.closeLocked()
	}
}

// rest closes the file if nothing was noted since the last call.
func (w *reachWriter) rest() {
	w.Lock()
	defer w.Unlock()
	if !w.used {
		w.closeLocked()
	}
	w.used = false
}

func (w *reachWriter) noteLocked() error {
	r := w.open.reach()
	r.NextRef, r.Mark = w.opts.NextRef(), w.mark
	if w.file == nil {
		if err := w.openFile(); err != nil {
			return err
		}
		if !w.begun {
			w.begun, w.notes = true, maxReachNotes
		}
	}
	if w.notes >= maxReachNotes {
		if err := w.file.Truncate(0); err != nil {
			return err
		}
		w.notes = 0
	}
	w.buf = appendReach(w.buf[:0], r)
	if n, err := w.file.Write(w.buf); err != nil || n < len(w.buf) {
		w.notes = maxReachNotes // a part of it may be there
		if err == nil {
			err = io.ErrShortWrite
		}
		return err
	}
	w.notes++
	w.noted, w.segment = r.Synced, r.Segment
	return nil
}

func (w *reachWriter) openFile() error {
	w.unnamed = w.unnamed || !w.begun // whoever made it may have been killed
	f, err := w.opts.FS.OpenWrite(w.opts.ReachFile)
	if errors.Is(err, fs.ErrNotExist) {
		w.unnamed = true
		f, err = w.opts.FS.Create(w.opts.ReachFile)
	}
	if err == nil {
		w.file = f
	}
	return err
}

// close closes the file of notes.
func (w *reachWriter) close() {
	w.Lock()
	defer w.Unlock()
	w.closeLocked()
}

func (w *reachWriter) closeLocked() {
	if f := w.file; f != nil {
		w.file = nil
		if err := f.Close(); err != nil {
			w.opts.Logger.Debug("note how far the log reached", "error", fileutil.Logged(err))
		}
	}
}
