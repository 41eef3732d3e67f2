package blockdir

import (
	"context"
	"math"
	"path/filepath"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/chunks"
	"github.com/seed347100a3/tsdb/index"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
	"github.com/seed347100a3/tsdb/internal/tombstones"
)

// Salvaged says what Salvage saved and what it could not.
type Salvaged struct {
	Meta Meta // of the new block
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
	// written.
	Origin func(m *Meta)
	// Undelete saves a block also when it is not known any more what was deleted of it, so
	// that deleted samples come back.
	Undelete bool
}

// Salvage copies all that can be read of a damaged block, chunk by chunk, into a new one
// that it commits in dataDir under id. The damaged block stays as it is. A chunk is kept
// if its checksum, its samples and its times in the index agree. Bounds, level,
// sources and parents are those of the old block, samples deleted there are deleted.
//
// The symbols of the index and its table of contents have to be good: there are no
// labels without them, and Salvage returns their damage. ErrEmpty: nothing could be
// saved. ErrDeletedLost: see SalvageOptions.Undelete.
func Salvage(ctx context.Context, fsys fileutil.FS, blockDir, dataDir string, id ulid.ULID, opts SalvageOptions) (Salvaged, error) {
	s := salvager{ctx: ctx}
	err := s.open(fsys, blockDir)
	if err == nil && s.out.DeletedLost && !opts.Undelete {
		err = errors.WithMessage(ErrDeletedLost, blockDir)
	}
	if err != nil {
		return s.out, fileutil.JoinErrors(err, s.close())
	}
	w, err := Create(fsys, dataDir, id, opts.WriterOptions)
	if err != nil {
		return s.out, fileutil.JoinErrors(err, s.close())
	}
	s.w = w
	if err = s.copyAll(); err != nil {
		return s.out, fileutil.JoinErrors(err, w.Abort(), s.close())
	}
	m := s.bounds()
	if opts.Origin != nil {
		opts.Origin(&m)
	}
	s.out.Meta, err = w.Commit(ctx, m)
	if said := s.meta.Stats.NumSamples; err == nil && said > s.out.Meta.Stats.NumSamples {
		s.out.LostSamples = said - s.out.Meta.Stats.NumSamples
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
	w      *Writer
	out    Salvaged

	labels []index.SymbolPair
	metas  []index.ChunkMeta
}

// damaged counts damage; an error that is none is returned.
func (s *salvager) damaged(err error) error {
	if !errors.Is(err, encbuf.ErrCorrupt) && !errors.Is(err, fileutil.ErrMemoryFault) {
		return err
	}
	s.out.Total++
	if len(s.out.Damage) < maxProblems {
		s.out.Damage = append(s.out.Damage, err)
	}
	return nil
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

func (s *salvager) copyAll() error {
	err := s.r.Symbols(func(_ uint32, sym []byte) error { return s.w.AddSymbol(string(sym)) })
	if err != nil {
		return err
	}
	all := s.r.AllSeries()
	for all.Next() {
		if err := s.copySeries(all.At(), true); err != nil {
			return err
		}
	}
	if all.Err() == nil {
		return nil
	}
	if err := s.damaged(all.Err()); err != nil {
		return err
	}
	return s.scan()
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
	for id := range places {
		if err := s.copySeries(id, false); err != nil {
			return err
		}
	}
	return nil
}

// copySeries copies what can be read of one series. listed: there is one of this id.
func (s *salvager) copySeries(id uint64, listed bool) (err error) {
	const pollEvery = 1024
	if id%pollEvery == 0 && s.ctx.Err() != nil {
		return errors.WithStack(context.Cause(s.ctx))
	}
	s.labels, s.metas, err = s.r.Series(id, s.labels[:0], s.metas[:0])
	if err != nil {
		if listed {
			s.out.LostSeries++
			return s.damaged(err)
		}
		return nil
	}
	for _, c := range s.metas {
		if err := s.copyChunk(id, c); err != nil {
			return err
		}
	}
	s.w.SetDeleted(s.stones.Of(id))
	return s.w.AddSeries(s.labels)
}

func (s *salvager) copyChunk(id uint64, c index.ChunkMeta) error {
	got, err := s.chunks.inspect(id, c)
	if err == nil && got.samples == 0 {
		err = encbuf.Corrupt(0, "a chunk has no samples").At(s.chunks.segments.Path(c.Ref), int64(c.Ref.Offset()))
	}
	if err != nil {
		s.out.LostChunks++
		return s.damaged(err)
	}
	return s.w.AddChunk(Chunk{MinT: c.MinT, MaxT: c.MaxT, Num: int(got.samples), Encoding: got.enc, Data: got.data})
}

// bounds returns the meta file for what was written: that of the old block, made wider
// should it not fit.
func (s *salvager) bounds() Meta {
	m := s.meta
	m.Compaction.Deletable, m.Compaction.Failed = false, false
	last := s.w.maxt
	if last < math.MaxInt64 {
		last++
	}
	if s.out.MetaLost {
		m.MinTime, m.MaxTime = s.w.mint, last
	}
	m.MinTime, m.MaxTime = min(m.MinTime, s.w.mint), max(m.MaxTime, last)
	return m
}
