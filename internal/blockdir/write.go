package blockdir

import (
	"io/fs"
	"math"
	"path/filepath"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// WriterOptions are the options of Create; the zero value has the defaults.
type WriterOptions struct {
	// Written, if set, is called behind each write of a chunk or index file with its
	// size in bytes. It may block, to pace the writing; an error ends the writing.
	Written func(n int) error
	// SegmentBytes is the size of a chunk segment. Default: chunks.DefaultSegmentBytes.
	SegmentBytes int64
	// PostingsBytes is the memory that lists of series may take while the index is
	// finished. Default: that of index.WriterOptions.
	PostingsBytes int
	// Warm: the block stays in the page cache as it was written, for queries that come next.
	// Otherwise nothing of it does, so that it pushes out nothing else.
	Warm bool
}

// Chunk is a chunk on its way into a block.
type Chunk struct {
	MinT, MaxT int64 // times of its first and last sample, milliseconds
	Num        int   // samples, at least one
	Encoding   chunkenc.Encoding
	Data       []byte // only read, and only during the call
}

// Writer builds a block in a directory that no reader takes for one. Its life: AddSymbol for each,
// then for each series AddChunk in order of time and AddSeries, then Commit, or Finish, Revise and
// Publish; or Abort at any time. The first error is final: every later call but Abort returns it.
type Writer struct {
	fs      fileutil.FS
	dataDir string
	tmp     string // the directory being built
	id      ulid.ULID

	index  *index.Writer
	chunks *chunks.SegmentWriter
	warm   bool

	metas      []index.ChunkMeta    // chunks of the series to come
	deleted    tombstones.Intervals // of the series to come
	written    written
	indexBytes int64 // once the index is finished
	err        error
	finished   bool // all but the name
	removed    bool
}

// written is what a block has so far.
type written struct {
	stats      Stats
	stones     tombstones.Set
	mint, maxt int64 // closed bounds of all chunks
}

// Create starts a block. The directory <dataDir>/tmp-block-<id> is made; one that an
// earlier attempt left behind is removed. A block of this name is ErrExists. On an
// error nothing is left behind, as far as the file system lets it.
func Create(fsys fileutil.FS, dataDir string, id ulid.ULID, opts WriterOptions) (*Writer, error) {
	w := &Writer{
		fs:      fsys,
		dataDir: dataDir,
		tmp:     filepath.Join(dataDir, creationPrefix+id.String()),
		id:      id,
		written: written{mint: math.MaxInt64, maxt: math.MinInt64},
	}
	if err := mustNotExist(fsys, Path(dataDir, id)); err != nil {
		return nil, err
	}
	if err := w.open(opts); err != nil {
		return nil, fileutil.JoinErrors(err, w.Abort())
	}
	return w, nil
}

func mustNotExist(fsys fileutil.FS, path string) error {
	_, err := fsys.Stat(path)
	switch {
	case err == nil:
		return errors.WithMessage(ErrExists, path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

func (w *Writer) open(opts WriterOptions) (err error) {
	w.warm = opts.Warm
	if err := fileutil.RemoveAll(w.fs, w.tmp); err != nil {
		return err
	}
	if err := w.fs.MkdirAll(w.tmp); err != nil {
		return err
	}
	w.chunks, err = chunks.NewSegmentWriter(w.fs, filepath.Join(w.tmp, chunksName), chunks.SegmentOptions{
		SegmentBytes: opts.SegmentBytes,
		Written:      opts.Written,
		KeepCached:   opts.Warm,
	})
	if err != nil {
		return err
	}
	w.index, err = index.NewWriter(w.fs, filepath.Join(w.tmp, indexName), index.WriterOptions{
		Written:       opts.Written,
		PostingsBytes: opts.PostingsBytes,
	})
	return err
}

// ULID returns the name of the block.
func (w *Writer) ULID() ulid.ULID { return w.id }

// AddSymbol adds a string to the symbol table: in strictly ascending order, numbered from
// 0, all of them before the first series.
func (w *Writer) AddSymbol(s string) error {
	if w.err == nil {
		w.err = w.index.AddSymbol(s)
	}
	return w.err
}

// AddChunk adds the next chunk of the series to come. It goes to its file at once.
// A chunk without samples, or with its times in the wrong order, is ErrInvalid.
func (w *Writer) AddChunk(c Chunk) error {
	if w.err != nil {
		return w.err
	}
	if c.Num <= 0 || c.MinT > c.MaxT {
		w.err = errors.WithMessagef(ErrInvalid, "chunk of %d samples, times %d to %d", c.Num, c.MinT, c.MaxT)
		return w.err
	}
	ref, err := w.chunks.Write(c.Encoding, c.Data)
	if err != nil {
		w.err = err
		return err
	}
	w.metas = append(w.metas, index.ChunkMeta{MinT: c.MinT, MaxT: c.MaxT, Ref: ref})
	w.written.addChunk(&c)
	return nil
}

func (wn *written) addChunk(c *Chunk) {
	wn.mint, wn.maxt = min(wn.mint, c.MinT), max(wn.maxt, c.MaxT)
	wn.stats.NumChunks++
	wn.stats.addSamples(c.Encoding, uint64(c.Num))
}

// addSamples counts samples of one chunk. The numbers of the encodings are the format's;
// this version need not be able to read them.
func (s *Stats) addSamples(enc chunkenc.Encoding, n uint64) {
	s.NumSamples += n
	if enc == chunkenc.EncXOR || enc == chunkenc.EncXOR2 {
		s.NumFloatSamples += n
	} else {
		s.NumHistogramSamples += n
	}
}

// AddSeries ends a series: it has the chunks that were added since the last one. Without
// any it is left out. ls are its labels as numbers of symbols; series come in strictly
// ascending order of their label sets.
func (w *Writer) AddSeries(ls []index.SymbolPair) error {
	deleted := w.deleted
	w.deleted = nil
	if w.err != nil || len(w.metas) == 0 {
		return w.err
	}
	var id uint32
	if id, w.err = w.index.AddSeries(ls, w.metas); w.err != nil {
		return w.err
	}
	w.metas = w.metas[:0]
	w.written.addSeries(uint64(id), deleted)
	return nil
}

func (wn *written) addSeries(id uint64, deleted tombstones.Intervals) {
	wn.stats.NumSeries++
	for _, iv := range deleted {
		wn.stones.Add(id, iv)
	}
}

// SetDeleted says which samples of the series to come are deleted from the start. It is for
// copies of blocks; others leave deleted samples out.
func (w *Writer) SetDeleted(ivs tombstones.Intervals) { w.deleted = ivs }

// Size returns the bytes of the chunk and index files so far.
func (w *Writer) Size() int64 {
	if w.index == nil {
		return w.chunks.Size() + w.indexBytes
	}
	return w.chunks.Size() + w.index.Size()
}

// Abort ends the writing and removes what was written. It may be called at any time and
// again, also after Commit, when it does nothing but what an earlier call could not do.
func (w *Writer) Abort() error {
	if w.removed {
		return nil
	}
	if w.err == nil {
		w.err = ErrClosed
	}
	var errs []error
	if w.chunks != nil {
		errs = append(errs, w.chunks.Abort())
	}
	if w.index != nil {
		errs = append(errs, w.index.Abort())
		w.index = nil
	}
	err := fileutil.RemoveAll(w.fs, w.tmp)
	w.removed = err == nil
	return fileutil.JoinErrors(append(errs, err)...)
}
