package wal

import (
	"io"
	"math"
	"path/filepath"
	"sort"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// rewrite replaces a segment by one with the records that count, as they were stored,
// and bare frames for commits that are lost. mend, if there is one, makes the header:
// it gets the present one, if that is whole.
func (m *mender) rewrite(seg *segmentState, mend func(h header, found bool) header) error {
	return m.replace(seg, func(w *segmentWriter, f fileutil.File, size int64) error {
		first, gaps := true, seg.gaps
		before := func(off int64) (err error) {
			for ; err == nil && len(gaps) > 0 && gaps[0].off <= off; gaps = gaps[1:] {
				err = w.fill(gaps[0], m.report.Watermark)
			}
			return err
		}
		err := keptRecords(f, size, seg, func(it item, rec []byte) error {
			if first && mend != nil {
				h, found := headerOf(it, rec)
				if err := w.append(CompressionNone, appendHeader(nil, mend(h, found))); err != nil || found {
					first = false
					return err
				}
			}
			first = false
			if err := before(it.off); err != nil {
				return err
			}
			return w.append(it.comp, rec)
		})
		if err == nil && first && len(gaps) > 0 && mend != nil { // nothing else is left
			err = w.append(CompressionNone, appendHeader(nil, mend(header{}, false)))
		}
		if err != nil {
			return err
		}
		return before(math.MaxInt64)
	})
}

func headerOf(it item, rec []byte) (header, bool) {
	if !isPrivate(it, rec) || rec[0] != typeHeader {
		return header{}, false
	}
	h, _, ok := parseHeader(rec)
	return h, ok
}

// replace writes a new file with fill, syncs it and gives it the segment's name.
func (m *mender) replace(seg *segmentState, fill func(w *segmentWriter, old fileutil.File, size int64) error) error {
	tmp := filepath.Join(m.tmpDir, tmpPrefix+filepath.Base(seg.file.Path))
	if err := m.remove(tmp); err != nil {
		return err
	}
	err := m.writeTmp(tmp, seg.file.Path, fill)
	if err == nil { // both files are closed by now: some systems want that
		err = m.fs.Rename(tmp, seg.file.Path)
	}
	if err != nil {
		return fileutil.JoinErrors(err, m.remove(tmp))
	}
	seg.done, seg.dirty, seg.drops, seg.gaps = true, false, nil, nil
	return m.syncDir(filepath.Dir(seg.file.Path))
}

func (m *mender) writeTmp(tmp, path string, fill func(w *segmentWriter, old fileutil.File, size int64) error) (err error) {
	old, err := m.fs.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = fileutil.JoinErrors(err, old.Close()) }()
	size, err := old.Size()
	if err != nil {
		return err
	}
	f, err := m.fs.Create(tmp)
	if err != nil {
		return err
	}
	defer func() { err = fileutil.JoinErrors(err, f.Close()) }()
	w := &segmentWriter{f: f}
	if err := fill(w, old, size); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return Poisoned(err)
	}
	return nil
}

// keptRecords visits the stored records of a segment that count, private ones
// included.
func keptRecords(src io.ReaderAt, size int64, seg *segmentState, visit func(it item, rec []byte) error) error {
	var s scanner
	s.reset(src, size)
	drops := seg.drops
	sort.Slice(drops, func(i, k int) bool { return drops[i].off < drops[k].off })
	var rec []byte
	for {
		var it item
		rec, it = s.next(rec[:0])
		if s.err != nil {
			return s.err
		}
		if it.kind == itemEnd || seg.cut >= 0 && it.off >= seg.cut {
			return nil
		}
		for len(drops) > 0 && drops[0].end <= it.off {
			drops = drops[1:]
		}
		if it.kind == itemDamage || len(drops) > 0 && drops[0].off <= it.off {
			continue
		}
		if err := visit(it, rec); err != nil {
			return err
		}
	}
}

// segmentWriter writes records into one file, about a read buffer at a time.
type segmentWriter struct {
	f   fileutil.File
	off int64 // in the file, of what is not flushed yet
	buf []byte
}

// end returns where the next record begins, but for padding.
func (w *segmentWriter) end() int64 { return w.off + int64(len(w.buf)) }

func (w *segmentWriter) append(c Compression, rec []byte) error {
	w.buf = appendRecord(w.buf, w.end(), c, rec)
	if len(w.buf) < readBufferSize {
		return nil
	}
	return w.flush()
}

// fill appends bare frames: commits without records.
func (w *segmentWriter) fill(g gap, synced uint64) error {
	for seq := g.first; seq <= g.last; seq++ {
		rec := appendFrame(nil, frame{seq: seq, lag: seq - min(seq, synced)}, 0)
		if err := w.append(CompressionNone, rec); err != nil {
			return err
		}
	}
	return nil
}

func (w *segmentWriter) flush() error {
	n, err := w.f.Write(w.buf)
	if err == nil && n < len(w.buf) {
		err = errors.WithStack(io.ErrShortWrite)
	}
	w.off += int64(len(w.buf))
	w.buf = w.buf[:0]
	return err
}
