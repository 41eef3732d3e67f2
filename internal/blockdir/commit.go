package blockdir

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// Commit is Finish and Publish.
func (w *Writer) Commit(ctx context.Context, m Meta) (Meta, error) {
	m, err := w.Finish(ctx, m)
	if err == nil {
		err = w.Publish()
	}
	if err != nil {
		return Meta{}, err
	}
	return m, nil
}

// Finish completes the block under its temporary name. m has its bounds and origin; the
// ULID, the stats and the version are filled in, a level of 0 is 1 and no sources are the
// block itself. It returns the meta file as written.
//
// When Finish returns nil, the block is on stable storage but for its name, and everything
// in it was read back and checked. On an error nothing of it is left behind, as far as the
// file system lets it; Abort tries again. Errors: ErrEmpty without series, ErrInvalid for
// samples outside of the bounds, encbuf.ErrCorrupt when what was read back is not what was
// written, the context's.
func (w *Writer) Finish(ctx context.Context, m Meta) (Meta, error) {
	if w.err != nil {
		return Meta{}, fileutil.JoinErrors(w.err, w.Abort())
	}
	m, err := w.complete(m)
	if err == nil {
		err = w.finish(ctx, m)
	}
	if err != nil {
		w.err = err
		return Meta{}, fileutil.JoinErrors(err, w.Abort())
	}
	w.finished = true
	return m, nil
}

// Revise opens a block that is finished and not published yet, and has fn delete from it:
// whoever finds the block under its name finds it so.
func (w *Writer) Revise(fn func(d *Dir) error) error {
	if err := w.mustBeFinished(); err != nil {
		return err
	}
	d, err := Open(w.fs, w.tmp)
	if err == nil {
		err = fileutil.JoinErrors(fn(d), d.Close())
	}
	if err != nil {
		w.err = err
		return fileutil.JoinErrors(err, w.Abort())
	}
	return nil
}

// Publish gives a block that is finished its name, for good when it returns nil. On an error
// there is no block, and nothing of it is left behind, as far as the file system lets it.
// The exception is a crash after an error of the last step, the sync of the data
// directory, which may bring the block back, whole.
func (w *Writer) Publish() error {
	if err := w.mustBeFinished(); err != nil {
		return err
	}
	if err := w.publish(); err != nil {
		w.err = err
		return err
	}
	w.err = ErrClosed
	return nil
}

func (w *Writer) mustBeFinished() error {
	switch {
	case w.err != nil:
		return fileutil.JoinErrors(w.err, w.Abort())
	case !w.finished:
		return errors.WithMessage(ErrInvalid, "the block is not finished")
	}
	return nil
}

func (w *Writer) complete(m Meta) (Meta, error) {
	if len(w.metas) > 0 {
		return m, errors.WithMessage(ErrInvalid, "there are chunks behind the last series")
	}
	return w.written.complete(m, w.id)
}

// complete fills in the meta file of a block that has this, and checks that it fits.
func (wn *written) complete(m Meta, id ulid.ULID) (Meta, error) {
	switch {
	case wn.stats.NumSeries == 0:
		return m, ErrEmpty
	case wn.mint < m.MinTime || wn.maxt >= m.MaxTime:
		return m, errors.WithMessagef(ErrInvalid, "samples from %d to %d in a block from %d to before %d", wn.mint, wn.maxt, m.MinTime, m.MaxTime)
	}
	m.ULID = id
	m.Stats = wn.stats
	m.Stats.NumTombstones = uint64(wn.stones.Len())
	m.Version = metaVersion
	if m.Compaction.Level == 0 {
		m.Compaction.Level = 1
	}
	if len(m.Compaction.Sources) == 0 {
		m.Compaction.Sources = []ulid.ULID{id}
	}
	return m, nil
}

// finish writes the rest of the files and checks all of them.
func (w *Writer) finish(ctx context.Context, m Meta) error {
	if err := w.chunks.Close(); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return errors.WithStack(err)
	}
	if err := w.index.Finish(); err != nil {
		return err
	}
	w.indexBytes, w.index = w.index.Size(), nil
	path := filepath.Join(w.tmp, tombstones.FileName)
	if err := fileutil.WriteFileAtomic(w.fs, path+tmpSuffix, path, tombstones.Encode(&w.written.stones)); err != nil {
		return err
	}
	// The index writer took no series that was not in order, complete none out of bounds, and what
	// was written is read back before the block gets its name.
	if err := writeMeta(w.fs, w.tmp, m, nil, true); err != nil {
		return err
	}
	if err := w.fs.SyncDir(w.tmp); err != nil {
		return err
	}
	return w.readBack(ctx, m)
}

// readBack reads every byte that was written, chunks from the disk and not from the page cache, and
// drops all of it from there unless the block is to be warm.
func (w *Writer) readBack(ctx context.Context, m Meta) error {
	d, err := Open(w.fs, w.tmp)
	if err != nil {
		return err
	}
	err = w.checkWritten(ctx, d, m)
	if err == nil {
		err = checkMeta(d, m)
	}
	if err = fileutil.JoinErrors(err, d.Close()); err != nil {
		return err
	}
	if !w.warm {
		dropCache(w.fs, filepath.Join(w.tmp, indexName))
	}
	return nil
}

// checkWritten verifies all checksums and sort rules of d: its chunks are those that the
// index leads to, one after the other, and there are as many as were written.
func (w *Writer) checkWritten(ctx context.Context, d *Dir, m Meta) error {
	var series, n uint64
	scan := chunks.NewSegmentScanner(w.fs, filepath.Join(w.tmp, chunksName), w.chunks.Segments(), w.warm)
	err := d.Index().Verify(ctx, func(_ uint64, _ []index.SymbolPair, cs []index.ChunkMeta) error {
		series++
		for _, c := range cs {
			if !scan.Next() && scan.Err() != nil {
				return scan.Err()
			}
			if scan.Ref() != c.Ref {
				return w.differs("a chunk is not where the index says")
			}
			n++
		}
		return nil
	})
	if err == nil && scan.Next() {
		err = w.differs("there are more chunks than in the index")
	}
	if err == nil {
		err = scan.Err()
	}
	if err = fileutil.JoinErrors(err, scan.Close()); err != nil {
		return err
	}
	if series != m.Stats.NumSeries || n != m.Stats.NumChunks || d.Chunks().Size() != w.chunks.Size() {
		return w.differs(fmt.Sprintf("%d series and %d chunks were read back, %d and %d were written", series, n, m.Stats.NumSeries, m.Stats.NumChunks))
	}
	return nil
}

// differs is damage of the whole block: it is not what was written.
func (w *Writer) differs(reason string) error { return encbuf.Corrupt(0, reason).At(w.tmp, 0) }

// checkMeta compares the meta file of d with what was to be written.
func checkMeta(d *Dir, m Meta) error {
	want, err := EncodeMeta(m)
	if err != nil {
		return err
	}
	got, err := EncodeMeta(d.Meta())
	if err != nil {
		return err
	}
	if d.NeedsSidecar() || !d.InOrder() || !bytes.Equal(got, want) {
		return encbuf.Corrupt(0, "meta file is not what was written").At(filepath.Join(d.Path(), metaName), 0)
	}
	return nil
}

// dropCache gives the page cache of a file back. It is advice: an error of a file that was
// just read means no more than that it is not taken.
func dropCache(fsys fileutil.FS, path string) {
	f, err := fsys.Open(path)
	if err != nil {
		return
	}
	_ = fileutil.DropCache(f)
	_ = f.Close() // nothing was written through it
}

// publish gives the block its name.
func (w *Writer) publish() error {
	path := Path(w.dataDir, w.id)
	if err := mustNotExist(w.fs, path); err != nil {
		return fileutil.JoinErrors(err, w.Abort())
	}
	if err := w.fs.Rename(w.tmp, path); err != nil {
		return fileutil.JoinErrors(err, w.Abort())
	}
	w.removed = true
	if err := w.fs.SyncDir(w.dataDir); err != nil {
		return fileutil.JoinErrors(err, Remove(w.fs, w.dataDir, w.id))
	}
	return nil
}
