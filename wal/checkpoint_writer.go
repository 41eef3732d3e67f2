package wal

import (
	"path/filepath"

	"github.com/golang/snappy"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// checkpointSyncBytes is how much is written between two syncs: with more at once the
// commits' own syncs would wait behind it.
const checkpointSyncBytes = 8 << 20

// checkpointWriter writes the files of a checkpoint, or of a snapshot: records as they come, in
// segments 00000000 and so on, between a header and a trailer.
type checkpointWriter struct {
	fs          fileutil.FS
	dir         string
	segmentSize int64
	written     func(n int) error // may be nil
	comp        *compressor
	packed      []byte

	file     segmentWriter
	next     int   // number of the next file
	unsynced int64 // bytes of the present one
	behind   fileutil.WriteBehind
	bytes    int64 // of all
	sum      trailer
}

func newCheckpointWriter(o Options, dir string, written func(n int) error) (*checkpointWriter, error) {
	comp, err := newCompressor(o.Compression, 1)
	if err != nil {
		return nil, err
	}
	return &checkpointWriter{fs: o.FS, dir: dir, segmentSize: o.SegmentSize, written: written, comp: comp}, nil
}

func (w *checkpointWriter) begin(h header) error {
	return w.put(CompressionNone, appendHeaderOf(nil, typeCheckpointHeader, h))
}

// append adds a record. An empty one says nothing and is left out.
func (w *checkpointWriter) append(rec []byte) error {
	if len(rec) == 0 {
		return nil
	}
	if len(rec) > MaxRecordSize {
		return ErrRecordTooLarge
	}
	w.sum.crc = commitSum(w.sum.crc, rec)
	w.sum.records++
	var stored []byte
	var kind Compression
	stored, kind, w.packed = w.comp.compress(w.packed, rec)
	if kind == CompressionNone && isPrivateType(rec[0]) {
		stored, kind = snappy.Encode(nil, rec), CompressionSnappy // it would pass for one of ours
	}
	return w.put(kind, stored)
}

// put appends a stored record, to the next file if this one has no room.
func (w *checkpointWriter) put(kind Compression, stored []byte) error {
	end := w.file.end()
	if w.file.f == nil || end > 0 && recordEnd(end, len(stored)) > w.segmentSize {
		if err := w.cut(); err != nil {
			return err
		}
	}
	w.file.buf = appendRecord(w.file.buf, w.file.end(), kind, stored)
	if len(w.file.buf) < readBufferSize {
		return nil
	}
	return w.flush()
}

// cut ends the present file and begins the next.
func (w *checkpointWriter) cut() error {
	if err := w.endFile(); err != nil {
		return err
	}
	f, err := w.fs.Create(filepath.Join(w.dir, segmentName(w.next)))
	if err != nil {
		return err
	}
	w.next++
	w.file, w.behind = segmentWriter{f: f, buf: w.file.buf[:0]}, fileutil.WriteBehind{}
	return nil
}

func (w *checkpointWriter) flush() error {
	n := len(w.file.buf)
	if err := w.file.flush(); err != nil {
		return err
	}
	w.bytes += int64(n)
	w.behind.Grown(w.file.f, w.file.off, fileutil.BehindBytes)
	if w.unsynced += int64(n); w.unsynced >= checkpointSyncBytes {
		if err := w.sync(); err != nil {
			return err
		}
	}
	if w.written == nil {
		return nil
	}
	return w.written(n)
}

// sync makes durable what is written. Nobody reads it before the next start, so it need
// not stay in memory.
func (w *checkpointWriter) sync() error {
	w.unsynced = 0
	if err := w.file.f.Sync(); err != nil {
		return Poisoned(errors.WithMessagef(err, "sync %s", w.dir))
	}
	return fileutil.DropCache(w.file.f)
}

// endFile brings the present file to stable storage and closes it.
func (w *checkpointWriter) endFile() error {
	if w.file.f == nil {
		return nil
	}
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.sync(); err != nil {
		return err
	}
	return w.closeFile()
}

func (w *checkpointWriter) closeFile() error {
	f := w.file.f
	if f == nil {
		return nil
	}
	w.file.f = nil
	if err := f.Close(); err != nil {
		return Poisoned(errors.WithMessagef(err, "close %s", w.dir))
	}
	return nil
}

// finish writes the trailer. All files are on stable storage then.
func (w *checkpointWriter) finish() error {
	if err := w.put(CompressionNone, appendTrailer(nil, w.sum)); err != nil {
		return err
	}
	return w.endFile()
}

// close lets go of everything, also after an error.
func (w *checkpointWriter) close() error { return fileutil.JoinErrors(w.closeFile(), w.comp.close()) }
