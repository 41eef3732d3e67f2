package headsnap

import (
	"context"
	"path/filepath"

	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/tombstones"
	"github.com/seed347100a3/tsdb/wal"
)

const (
	// groupBytes is how many bytes of series and their full chunks are in one group: enough
	// to compress well, little enough to be read in parallel.
	groupBytes = 64 << 10
	// maxGoneEntries bounds the length of a record.
	maxGoneEntries = 64 << 10
)

// Options configure Create.
type Options struct {
	Start       wal.Start
	HeadStart   int64 // see Meta
	Compression *wal.Codec
}

// Writer writes a snapshot aside. Its life: Create, for each series BeginSeries, Label for
// each label in their order, and EndSeries; Logged, Finish, Publish. Abort ends it at any time.
type Writer struct {
	fs      fileutil.FS
	dataDir string
	meta    Meta
	w       *wal.SnapshotWriter

	group  []byte // the record of series
	series []byte // the one that was begun
	mapped []byte // the record of their full chunks
}

// Create begins a snapshot in a data directory, under a temporary name; what an earlier one
// left there goes.
func Create(fsys fileutil.FS, dataDir string, opts Options) (*Writer, error) {
	tmp := filepath.Join(dataDir, tmpName)
	if err := fileutil.RemoveAll(fsys, tmp); err != nil {
		return nil, err
	}
	if err := fsys.MkdirAll(tmp); err != nil {
		return nil, err
	}
	w := &Writer{fs: fsys, dataDir: dataDir, meta: Meta{Start: opts.Start, HeadStart: opts.HeadStart}}
	var err error
	w.w, err = wal.NewSnapshotWriter(wal.SnapshotOptions{FS: fsys, Dir: tmp, Compression: opts.Compression, Start: opts.Start})
	if err != nil {
		return nil, fileutil.JoinErrors(err, fileutil.RemoveAll(fsys, tmp))
	}
	return w, nil
}

// BeginSeries begins a series with n labels.
func (w *Writer) BeginSeries(ref uint64, nlabels int) {
	w.series = beginSeries(w.series[:0], ref, nlabels)
	w.meta.Series++
}

// Label adds a label to it.
func (w *Writer) Label(name, value string) {
	w.series = encbuf.AppendString(encbuf.AppendString(w.series, name), value)
}

// EndSeries ends it: with its full chunks, and one chunk more if there is one.
func (w *Writer) EndSeries(ref uint64, full []chunks.Mapped, c *Chunk) error {
	w.series = endSeries(w.series, c)
	if len(w.group) == 0 {
		w.group = append(w.group, typeGroup)
	}
	w.group = appendToGroup(w.group, w.series)
	if len(full) > 0 {
		if len(w.mapped) == 0 {
			w.mapped = append(w.mapped, typeMapped)
		}
		w.mapped = appendMapped(w.mapped, ref, full)
	}
	if len(w.group)+len(w.mapped) < groupBytes {
		return nil
	}
	return w.endGroup()
}

func (w *Writer) endGroup() error {
	if err := w.w.Append(w.mapped); err != nil {
		return err
	}
	if err := w.w.Append(w.group); err != nil {
		return err
	}
	w.group, w.mapped = w.group[:0], w.mapped[:0]
	return nil
}

// Logged adds a record in the form of the log: of metadata, or of how far the out-of-order log
// reached. It is called behind the last series.
func (w *Writer) Logged(rec []byte) error {
	if err := w.endGroup(); err != nil {
		return err
	}
	return w.w.Append(rec)
}

// Finish adds what is not of one series and ends the files, all but the name of the
// directory. base is called behind the last record, and makes durable what the snapshot builds
// on: the log, up to the commit that it returns, and the head-chunk files that full chunks are
// in.
func (w *Writer) Finish(stones *tombstones.Set, gone []Gone, base func() (synced uint64, files []chunks.HeadExtent, err error)) (Meta, error) {
	if err := w.endGroup(); err != nil {
		return Meta{}, err
	}
	if err := w.w.Append(appendTombstones(nil, stones)); err != nil {
		return Meta{}, err
	}
	for len(gone) > 0 {
		n := min(len(gone), maxGoneEntries)
		rec := []byte{typeGone}
		for _, g := range gone[:n] {
			rec = appendGone(rec, g)
		}
		if err := w.w.Append(rec); err != nil {
			return Meta{}, err
		}
		gone = gone[n:]
	}
	var err error
	if w.meta.Sum, err = w.w.Finish(); err != nil {
		return Meta{}, err
	}
	if w.meta.Start.Synced, w.meta.Files, err = base(); err != nil {
		return Meta{}, err
	}
	tmp := filepath.Join(w.dataDir, tmpName)
	if err := w.writeSidecar(filepath.Join(tmp, sidecarName)); err != nil {
		return Meta{}, err
	}
	return w.meta, w.syncDir(tmp)
}

func (w *Writer) writeSidecar(path string) error {
	f, err := w.fs.Create(path)
	if err != nil {
		return err
	}
	if _, err := f.Write(encodeSidecar(&w.meta)); err != nil {
		return fileutil.JoinErrors(err, f.Close())
	}
	if err := fileutil.JoinErrors(f.Sync(), f.Close()); err != nil {
		return wal.Poisoned(errors.WithMessage(err, "sync the snapshot's sidecar"))
	}
	return nil
}

// Publish gives the snapshot its name, on stable storage. Everything that it builds on is
// there before: the log up to the newest sample in it, and the head-chunk files. One that has
// the name goes before. Close is not needed behind it.
func (w *Writer) Publish(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	path := filepath.Join(w.dataDir, Name(w.meta.Start.Segment))
	if err := fileutil.RemoveAll(w.fs, path); err != nil {
		return err
	}
	if err := w.fs.Rename(filepath.Join(w.dataDir, tmpName), path); err != nil {
		return err
	}
	return fileutil.JoinErrors(w.syncDir(w.dataDir), w.w.Close())
}

// Abort removes what is written.
func (w *Writer) Abort() error {
	return fileutil.JoinErrors(w.w.Close(), fileutil.RemoveAll(w.fs, filepath.Join(w.dataDir, tmpName)))
}

func (w *Writer) syncDir(dir string) error {
	err := w.fs.SyncDir(dir)
	if err == nil || errors.Is(err, fileutil.ErrNotTried) {
		return err
	}
	return wal.Poisoned(errors.WithMessagef(err, "sync %s", dir))
}

// Remove removes a snapshot: first its sidecar, without which it is none.
func Remove(fsys fileutil.FS, f Found) error {
	if err := fileutil.RemoveAll(fsys, filepath.Join(f.Path, sidecarName)); err != nil {
		return err
	}
	return fileutil.RemoveAll(fsys, f.Path)
}
