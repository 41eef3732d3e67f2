package blockset

import (
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/pkg/errors"

	"github.com/seed347100a3/tsdb/internal/blockdir"
	"github.com/seed347100a3/tsdb/internal/blocklist"
	"github.com/seed347100a3/tsdb/internal/datadir"
	"github.com/seed347100a3/tsdb/internal/encbuf"
	"github.com/seed347100a3/tsdb/internal/fileutil"
)

// Load opens the blocks of the directory. Damaged ones are set aside, those that others
// were made of are removed. What cannot be opened for another reason than damage (no more
// files may be open, a newer version) is an error, and then nothing is moved. Who only reads goes
// on without a block of a newer version.
func (s *Set) Load() (Report, error) {
	s.change.Lock()
	defer s.change.Unlock()
	// The list is read before the directory: what is added meanwhile is not missed in it.
	listed, err := s.change.list.read(&s.cfg)
	if err != nil {
		return Report{}, err
	}
	l := blockLoad{s: s}
	added, err := s.openNewLocked(l.refused)
	v := &View{Blocks: added}
	if err == nil {
		v.Missing, err = l.missing(added, listed)
	}
	if err != nil {
		releaseBlocks(added)
		return Report{}, err
	}
	for i := range added {
		added[i] = s.dirs.foreignFuture(added[i], s.change.list.saved != nil && isBrought(added[i].Meta, listed))
	}
	l.report.Damages = append(l.report.Damages, disorderOf(added)...)
	v.Start = v.StartWithout(nil)
	s.set(v)
	l.report.Blocks = len(added)
	return l.report, nil
}

// blockLoad is one load under way: what is told of blocks that are not opened.
type blockLoad struct {
	s      *Set
	report Report
	unread []datadir.Missing
	none   []ulid.ULID // directories that are called after blocks and are none
}

// refused decides about a directory that is damaged, or no block that can be read.
func (l *blockLoad) refused(id ulid.ULID, why error) error {
	s, d := l.s, datadir.DamageOf(id, why)
	switch {
	case errors.Is(why, datadir.ErrNotBlock):
		d.Harmless = true
		l.none = append(l.none, id)
		s.cfg.Logger.Warn("database inside a data directory", "dir", id)
	case s.cfg.ReadOnly:
		l.unread = append(l.unread, datadir.MissingAt(s.cfg.FS, s.cfg.Dir, id.String(), id))
	default:
		moved, err := datadir.MoveToQuarantine(s.cfg.FS, s.cfg.Dir, id.String())
		if err != nil {
			return err
		}
		l.report.SetAside++
		l.report.Quarantined = append(l.report.Quarantined, moved)
		s.cfg.Logger.Error("block is damaged and was set aside", "block", id, "to", moved, "error", fileutil.Logged(why))
	}
	l.report.Damages = append(l.report.Damages, d)
	return nil
}

// missing returns the blocks that there should be and that are not read, each once.
func (l *blockLoad) missing(added []Block, listed []blocklist.Block) ([]datadir.Missing, error) {
	s, have := l.s, datadir.NewLineage()
	for _, b := range added {
		have.Add(b.Meta)
	}
	found, err := l.unreadable(have)
	if err != nil {
		return nil, err
	}
	gone, err := datadir.Vanished(s.cfg.FS, s.cfg.Dir, listed, have, l.none)
	if err != nil {
		return nil, err
	}
	l.reportVanished(gone)
	found = datadir.Without(found, func(m datadir.Missing) bool { // a link in the place of a block
		return slices.ContainsFunc(gone, func(g datadir.Missing) bool { return g.ID == m.ID })
	})
	return slices.Concat(found, l.unread, gone), nil
}

// openNewLocked opens all directories that the view does not have, several at a time. refused
// decides about those that are damaged, or no blocks; it is not asked about any if one could not be
// opened for another reason. What could be opened is returned beside an error.
func (s *Set) openNewLocked(refused func(id ulid.ULID, why error) error) (added []Block, err error) {
	ids, err := blockdir.List(s.cfg.FS, s.cfg.Dir)
	if err != nil {
		return nil, errors.WithMessage(err, "list blocks")
	}
	ids = slices.DeleteFunc(ids, func(id ulid.ULID) bool { return s.Current().has(id) || slices.Contains(s.leavers.leaving, id) })
	var errs []error
	var odd []loaded
	for _, r := range s.dirs.openAll(ids) {
		switch {
		case r.err == nil:
			added = append(added, s.dirs.block(r.dir))
		case errors.Is(r.err, encbuf.ErrCorrupt) && !errors.Is(r.err, fileutil.ErrMemoryFault): // a fault may pass
			odd = append(odd, r)
		case errors.Is(r.err, blockdir.ErrUnsupportedVersion) && s.cfg.ReadOnly:
			odd = append(odd, r)
		case errors.Is(r.err, blockdir.ErrUnsupportedVersion):
			errs = append(errs, &unsupported{errors.WithMessagef(r.err, "open block %s", r.id)})
		default:
			errs = append(errs, errors.WithMessagef(r.err, "open block %s", r.id))
		}
	}
	if len(errs) == 0 {
		for _, r := range odd {
			errs = append(errs, s.dirs.refuse(r, refused))
		}
	}
	return s.leavers.removeReplacedLocked(added, s.Current().Blocks), fileutil.JoinErrors(errs...)
}

// Reload takes up blocks that somebody has put into the directory since, and says which
// could not be. Unless now is true it may find them some looks later, where the file system does
// not tell that the directory has changed.
func (s *Set) Reload(now bool) error {
	s.change.Lock()
	defer s.change.Unlock()
	if s.leavers.closed {
		return nil
	}
	changed := changedAt(&s.cfg)
	if s.change.look.maySkip(changed) && !now && !s.change.list.stale {
		return nil
	}
	added, err := s.openNewLocked(func(id ulid.ULID, why error) error {
		return errors.WithMessagef(why, "open block %s", id)
	})
	s.change.look.listed(changed, err != nil || len(added) > 0)
	cur := s.Current()
	errs := []error{err}
	kept := added[:0]
	for _, b := range added {
		b, err := s.dirs.besideHead(b, cur.Start)
		errs = append(errs, err)
		if err == nil {
			kept = append(kept, b)
		}
	}
	if len(kept) > 0 {
		s.set(&View{Missing: cur.missingBeside(kept), Start: cur.Start, Blocks: append(kept, cur.Blocks...)})
	}
	for i := range kept {
		s.Announcer.add(*kept[i].Meta)
	}
	if len(kept) > 0 || s.change.list.stale {
		s.NoteListLocked()
	}
	return fileutil.JoinErrors(errs...)
}
