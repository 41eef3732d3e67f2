package blockdir

import (
	"cmp"
	"context"
	"math"
	"path/filepath"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunkenc"
	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// Salvaged says what Salvage saved and what it could not.
type Salvaged struct {
	Meta Meta // of the new block
	// Beside are blocks of samples that lay outside of the old block's bounds.
	Beside []Meta
	// Repeated are samples that the old block had at times of which it has another one: of a chunk
	// that is there twice, or of series with the same labels.
	Repeated uint64
	// LostSeries have no readable entry in the index, which is known only if its list of
	// all series is good. LostChunks are of the others, and so are LostSamples, as far as
	// the meta file counts samples.
	LostSeries, LostChunks, LostSamples uint64
	// MetaLost: bounds and origin are made up from what was saved.
	MetaLost bool
	// DeletedLost: what was deleted is not known any more, so deleted samples are back.
	DeletedLost bool
	// Damage is the first of what was found wrong, each encbuf.ErrCorrupt.
	Damage []error
	Total  int
}

// SalvageOptions are the options of Salvage; the zero value has the defaults.
type SalvageOptions struct {
	WriterOptions
	// Origin, if set, changes what the new block says of where it comes from, before it is
	// written. whole: everything of the old block could be read.
	Origin func(m *Meta, whole bool)
	// Undelete saves a block also when it is not known any more what was deleted of it, so
	// that deleted samples come back.
	Undelete bool
	// Whole: everything of the block could be read before. That something cannot be now is an
	// ErrNotWhole, and no new block is made.
	Whole bool
	// NewID names blocks of samples outside of the old block's bounds. Without it there are none:
	// the bounds of the new block are wider.
	NewID func() ulid.ULID
	// SamplesPerChunk is how many samples a chunk gets that is made of others. Default
	// chunkenc.TargetSamples.
	SamplesPerChunk int
}

// Salvage copies all that can be read of a damaged block, chunk by chunk, into a new one
// that it commits in dataDir under id. The damaged block stays as it is. A chunk is kept
// if its checksum, its samples and its times in the index agree. Bounds, level,
// sources and parents are those of the old block, samples deleted there are deleted.
//
// Labels, series and chunks that are not in order come in order. What is there more than once is
// there once: of samples of one series at one time the first one by index.Lanes stays, of label
// sets that are equal the one with the smaller id.
//
// The symbols of the index and its table of contents have to be good: there are no
// labels without them, and Salvage returns their damage. ErrEmpty: nothing could be
// saved. ErrDeletedLost: see SalvageOptions.Undelete.
func Salvage(ctx context.Context, fsys fileutil.FS, blockDir, dataDir string, id ulid.ULID, opts SalvageOptions) (Salvaged, error) {
	s := salvager{ctx: ctx}
	s.mixed.samplesPerChunk = cmp.Or(opts.SamplesPerChunk, chunkenc.TargetSamples)
	err := s.open(fsys, blockDir)
	if err == nil && s.out.DeletedLost && !opts.Undelete {
		err = errors.WithMessage(ErrDeletedLost, blockDir)
	}
	if err = s.whole(opts, err); err != nil {
		return s.out, fileutil.JoinErrors(err, s.close())
	}
	if err = s.whole(opts, s.copyAll(fsys, dataDir, id, opts)); err != nil {
		return s.out, fileutil.JoinErrors(err, s.abort(), s.close())
	}
	err = s.commit(fsys, dataDir, opts.Origin)
	if isDamage(err) { // of the new block, which says nothing about the old one
		err = errors.Errorf("block that was saved cannot be read back: %v", err)
	}
	return s.out, fileutil.JoinErrors(err, s.close())
}

// salvager copies one block.
type salvager struct {
	ctx    context.Context
	r      *index.Reader
	chunks inspector
	stones *tombstones.Set
	meta   Meta
	parts  []*salvagePart // the first one is the block's own
	out    Salvaged
	mixed  mixer
	gone   uint64 // samples that were left out because they are deleted

	labels []index.SymbolPair
	metas  []index.ChunkMeta
}

// salvagePart is a block that is made of what lies in a closed range of time.
type salvagePart struct {
	w          *Writer
	mint, maxt int64
}

// damaged counts damage; an error that is none is returned.
func (s *salvager) damaged(err error) error {
	if !isDamage(err) {
		return err
	}
	s.out.Total++
	if len(s.out.Damage) < maxProblems {
		s.out.Damage = append(s.out.Damage, err)
	}
	return nil
}

// whole makes damage an ErrNotWhole where there can be none.
func (s *salvager) whole(opts SalvageOptions, err error) error {
	switch {
	case !opts.Whole:
		return err
	case isDamage(err):
		return &notWhole{err}
	case err == nil && s.out.Total > 0:
		return &notWhole{s.out.Damage[0]}
	}
	return err
}

// notWhole is an ErrNotWhole with the damage, which it is not.
type notWhole struct{ damage error }

func (e *notWhole) Error() string { return ErrNotWhole.Error() + ": " + e.damage.Error() }
func (e *notWhole) Unwrap() error { return ErrNotWhole }

// isDamage tells damage, of a file or of the memory that it is mapped to, from other errors.
func isDamage(err error) bool {
	return errors.Is(err, encbuf.ErrCorrupt) || errors.Is(err, fileutil.ErrMemoryFault)
}

func (s *salvager) open(fsys fileutil.FS, blockDir string) (err error) {
	if s.meta, err = ReadMeta(fsys, blockDir); err != nil {
		s.meta, s.out.MetaLost = Meta{}, true
		if err := s.damaged(err); err != nil {
			return err
		}
	}
	if s.stones, _, err = readTombstones(fsys, blockDir, &s.meta); err != nil {
		s.stones = &tombstones.Set{}
		if err := s.damaged(err); err != nil {
			return err
		}
		nothing, err := s.nothingDeleted(fsys, blockDir)
		if err != nil {
			return err
		}
		s.out.DeletedLost = !nothing
	}
	if s.r, err = openIndex(fsys, blockDir); err != nil {
		return err
	}
	s.chunks.segments, err = chunks.SalvageSegments(fsys, filepath.Join(blockDir, chunksName))
	if err != nil {
		return err
	}
	for _, d := range s.chunks.segments.Damage() {
		_ = s.damaged(d) // it is damage
	}
	return nil
}

// nothingDeleted reports whether a damaged tombstones file had nothing in it: the meta file
// counts nothing, and the file is no longer than an empty one.
func (s *salvager) nothingDeleted(fsys fileutil.FS, blockDir string) (bool, error) {
	if s.out.MetaLost || s.meta.Stats.NumTombstones > 0 {
		return false, nil
	}
	info, err := fsys.Stat(filepath.Join(blockDir, tombstones.FileName))
	if err != nil {
		return false, err
	}
	return info.Size() <= int64(len(tombstones.Encode(&tombstones.Set{}))), nil
}

func (s *salvager) close() error {
	var errs []error
	if s.r != nil {
		errs = append(errs, s.r.Close())
	}
	if s.chunks.segments != nil {
		errs = append(errs, s.chunks.segments.Close())
	}
	return fileutil.JoinErrors(errs...)
}

// copyAll writes the new blocks, up to their names.
func (s *salvager) copyAll(fsys fileutil.FS, dataDir string, id ulid.ULID, opts SalvageOptions) error {
	shape, err := s.r.Shape(s.ctx)
	if err != nil {
		return err
	}
	for _, p := range s.ranges(shape, opts.NewID != nil) {
		if len(s.parts) > 0 {
			id = opts.NewID()
		}
		if p.w, err = Create(fsys, dataDir, id, opts.WriterOptions); err != nil {
			return err
		}
		s.parts = append(s.parts, p)
	}
	err = s.r.Symbols(func(_ uint32, sym []byte) error {
		for _, p := range s.parts {
			if err := p.w.AddSymbol(string(sym)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	all := s.r.AllSeries()
	if shape.Disorder != nil {
		err = s.copySorted(func() (uint64, bool) {
			more := all.Next()
			return all.At(), more
		}, true)
	}
	for err == nil && all.Next() {
		err = s.copySeries(all.At())
	}
	if err != nil || all.Err() == nil {
		return err
	}
	if err := s.damaged(all.Err()); err != nil {
		return err
	}
	return s.scan()
}

// ranges are those of the new blocks: that of the old one, and what lies before and behind.
func (s *salvager) ranges(shape index.Shape, split bool) []*salvagePart {
	own := &salvagePart{mint: math.MinInt64, maxt: math.MaxInt64}
	parts := []*salvagePart{own}
	if s.out.MetaLost || !split {
		return parts
	}
	if shape.MinT < s.meta.MinTime {
		own.mint = s.meta.MinTime
		parts = append(parts, &salvagePart{mint: math.MinInt64, maxt: s.meta.MinTime - 1})
	}
	if shape.MinT <= shape.MaxT && shape.MaxT >= s.meta.MaxTime {
		own.maxt = s.meta.MaxTime - 1
		parts = append(parts, &salvagePart{mint: s.meta.MaxTime, maxt: math.MaxInt64})
	}
	return parts
}

// scan tries every place where a series may begin; its checksum tells whether one does. It
// is what is left when the list of all series, which comes whole or not at all, is
// damaged.
func (s *salvager) scan() error {
	const placeBytes = 16 // ids count them, but in version 1
	places := uint64(s.r.Size())
	if s.r.Version() > 1 {
		places /= placeBytes
	}
	next := uint64(0)
	return s.copySorted(func() (uint64, bool) {
		next++
		return next - 1, next <= places
	}, false)
}

// copySeries copies what can be read of one series, which is in order.
func (s *salvager) copySeries(id uint64) (err error) {
	const pollEvery = 1024
	if id%pollEvery == 0 && s.ctx.Err() != nil {
		return errors.WithStack(context.Cause(s.ctx))
	}
	s.labels, s.metas, err = s.r.Series(id, s.labels[:0], s.metas[:0])
	if err != nil {
		s.out.LostSeries++
		return s.damaged(err)
	}
	s.mixed.begin()
	s.mixed.add(id, s.metas, s.stones.Of(id))
	return s.writeSeries(s.labels)
}

// inspect reads a chunk; nil is one that is lost.
func (s *salvager) inspect(c *mixedChunk) (*inspected, error) {
	got, err := s.chunks.inspect(c.id, c.ChunkMeta)
	if err == nil && got.samples == 0 {
		err = encbuf.Corrupt(0, "a chunk has no samples").At(s.chunks.segments.Path(c.Ref), int64(c.Ref.Offset()))
	}
	if err != nil {
		s.out.LostChunks++
		return nil, s.damaged(err)
	}
	s.out.Repeated += uint64(c.times-1) * got.samples
	return &got, nil
}

// abort removes what was written.
func (s *salvager) abort() error {
	var errs []error
	for _, p := range s.parts {
		errs = append(errs, p.w.Abort())
	}
	return fileutil.JoinErrors(errs...)
}

// commit gives the new blocks their names, that of the old one's times last: the others do not say
// where they come from.
func (s *salvager) commit(fsys fileutil.FS, dataDir string, origin func(m *Meta, whole bool)) error {
	for len(s.parts) > 1 && s.parts[0].w.written.stats.NumSeries == 0 {
		if err := s.parts[0].w.Abort(); err != nil {
			return fileutil.JoinErrors(err, s.abort())
		}
		s.parts = s.parts[1:] // nothing lies in the bounds
	}
	saved := uint64(0)
	for i := len(s.parts) - 1; i >= 0; i-- {
		w := s.parts[i].w
		m := s.bounds(w)
		if i > 0 {
			m = Meta{MinTime: w.written.mint, MaxTime: behind(w.written.maxt)}
			m.Compaction.Hints = []string{HintFromOutOfOrder} // it says nothing about the head
		} else if origin != nil {
			origin(&m, s.out.Total == 0 && !s.out.MetaLost)
		}
		m, err := w.Commit(s.ctx, m)
		switch {
		case err == nil && i > 0:
			s.out.Beside = append(s.out.Beside, m)
		case err == nil:
			s.out.Meta = m
		case i > 0 && errors.Is(err, ErrEmpty):
		default:
			return fileutil.JoinErrors(err, s.abort(), s.undo(fsys, dataDir))
		}
		saved += m.Stats.NumSamples
	}
	if said, have := s.meta.Stats.NumSamples, saved+s.out.Repeated+s.gone; said > have {
		s.out.LostSamples = said - have
	}
	return nil
}

// undo removes the blocks that have their names.
func (s *salvager) undo(fsys fileutil.FS, dataDir string) error {
	var errs []error
	for _, m := range s.out.Beside {
		errs = append(errs, Remove(fsys, dataDir, m.ULID))
	}
	s.out.Beside = nil
	return fileutil.JoinErrors(errs...)
}

// bounds returns the meta file for what was written: that of the old block, made wider
// should it not fit.
func (s *salvager) bounds(w *Writer) Meta {
	m := s.meta
	m.Compaction.Deletable, m.Compaction.Failed = false, false
	if s.out.MetaLost {
		m.MinTime, m.MaxTime = w.written.mint, behind(w.written.maxt)
	}
	if w.written.stats.NumSeries > 0 {
		m.MinTime, m.MaxTime = min(m.MinTime, w.written.mint), max(m.MaxTime, behind(w.written.maxt))
	}
	return m
}

// behind returns the instant after t, as far as there is one.
func behind(t int64) int64 {
	if t < math.MaxInt64 {
		t++
	}
	return t
}
